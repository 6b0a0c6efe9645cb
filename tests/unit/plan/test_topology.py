"""Who sends requests to whom, on which hosts, over which links."""

from __future__ import annotations

from pathlib import Path

from tests.unit.plan.helpers import load

from plimsoll.plan import make_plan
from plimsoll.plan.topology import Topology, topology

TESTBED = Path(__file__).parents[3] / "examples" / "testbeds" / "wan.yaml"
CHAIN = """\
plimsoll: 1
services:
  db:      {kind: postgres}
  gateway: {kind: frontier, database: db, instances: 2}
  front:   {kind: nginx, origin: gateway}
  upper:   {kind: squid, origin: front}
  lower:   {kind: squid, parents: [upper]}
data: {t: {into: db, rows: 10, row: 10B}}
workload: {driver: frontier, target: lower, frontier: {queries: ["SELECT 1"]}}
load: {testers: 4}
run: {duration: 1s}
"""


def of(text: str) -> Topology:
    return topology(load(text).cells[0].config)


def pairs(found: Topology) -> set[tuple[str, str]]:
    return {(edge.source, edge.to) for edge in found.connections}


def test_a_chain_has_a_tier_for_each_step() -> None:
    found = of(CHAIN)
    assert {each.name: each.tier for each in found.components} == {
        "testers": 0,
        "lower": 1,
        "upper": 2,
        "front": 3,
        "gateway.1": 4,
        "gateway.2": 4,
        "db": 5,
    }
    # A cache with parents never sends a request to the origin itself.
    assert pairs(found) >= {
        ("lower", "upper"),
        ("upper", "front"),
        ("front", "gateway.2"),
        ("gateway.1", "db"),
    }
    assert ("lower", "front") not in pairs(found)


def test_proxies_stand_between_testers_and_existing_systems() -> None:
    text = """\
plimsoll: 1
services: {cache: {kind: squid}}
targets: {site: {endpoints: ["http://10.0.0.1:8080/x"], proxies: [cache]}}
workload: {driver: http, target: site}
load: {testers: 4}
run: {duration: 1s}
"""
    found = of(text)
    assert [(each.role, each.tier) for each in found.components] == [
        ("testers", 0),
        ("service", 1),
        ("system", 2),
    ]
    assert pairs(found) == {("testers", "cache"), ("cache", "10.0.0.1:8080")}


def test_proxies_of_the_driver_are_between_as_well() -> None:
    text = """\
plimsoll: 1
workload:
  driver: frontier
  target: "http://10.0.0.1:8000/x"
  frontier: {queries: ["SELECT 1"], proxy: "http://10.0.0.2:3128"}
load: {testers: 4}
run: {duration: 1s}
"""
    assert pairs(of(text)) == {("testers", "10.0.0.2:3128"), ("10.0.0.2:3128", "10.0.0.1:8000")}


def test_sites_of_a_testbed_are_connected_by_its_links() -> None:
    hosts = f"hosts: {{kind: testbed, testbed: {TESTBED}, sites: {{cern: [cern-1], tokyo: [tokyo-1, tokyo-2]}}}}\n"
    found = of(CHAIN + hosts + "factors: {hosts.links.cern-tokyo.rate: [none]}\n")
    testers = [(each.name, each.place) for each in found.components if each.role == "testers"]
    assert testers == [
        ("testers at cern", "host cern-1"),
        ("testers at tokyo", "2 hosts, tokyo-1 to tokyo-2"),
    ]
    links = {edge.source: edge.link for edge in found.connections if edge.to == "lower"}
    assert links["testers at cern"] == ""
    assert links["testers at tokyo"].startswith("cern-tokyo: round trip 315ms")
    assert "no rate limit" in links["testers at tokyo"], "the properties are those of the run"


def test_properties_of_a_link_that_differ_between_cells_are_ranges() -> None:
    hosts = f"hosts: {{kind: testbed, testbed: {TESTBED}, sites: {{cern: [cern-1], tokyo: [tokyo-1, tokyo-2]}}}}\n"
    factors = (
        "factors: {hosts.links.cern-tokyo.rate: [100Mbit/s, 2Mbit/s, 10Mbit/s], "
        "hosts.links.cern-tokyo.rtt: [300ms, 315ms]}\n"
    )
    cells = [cell.config for cell in load(CHAIN + hosts + factors).cells]
    links = {edge.source: edge.link for edge in topology(cells[0], cells).connections}
    assert links["testers at tokyo"].startswith("cern-tokyo: round trip 300ms to 315ms")
    assert "rate 2Mbit/s to 100Mbit/s" in links["testers at tokyo"]
    alone = {edge.source: edge.link for edge in topology(cells[0]).connections}
    assert alone["testers at tokyo"].startswith("cern-tokyo: round trip 300ms, ")


def test_many_sites_are_one_component_after_the_fifth() -> None:
    sites = ", ".join(f"s{number}: [h{number}]" for number in range(9))
    found = of(
        "plimsoll: 1\nworkload: {driver: http, target: 'http://10.0.0.1/'}\nload: {testers: 9}\n"
        f"run: {{duration: 1s}}\nhosts: {{kind: ssh, sites: {{{sites}}}}}\n"
    )
    assert [each.place for each in found.components if each.role == "testers"][-1] == "4 hosts at 4 sites"
    assert len(found.components) == 7


def test_the_plan_stores_it_without_secrets() -> None:
    text = """\
plimsoll: 1
workload: {driver: sql, target: "postgresql://me:${env:PW}@db.example/x", sql: {queries: ["SELECT 1"]}}
load: {testers: 1}
run: {duration: 1s}
"""
    document = make_plan(load(text, environ={"PW": "hunter2"}), 1).to_json()["topology"]
    assert "hunter2" not in str(document)
    assert Topology.from_json(document).connections[0].source == "testers"
