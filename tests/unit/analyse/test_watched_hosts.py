"""Hosts of targets that agents monitor: their utilization and names; their agents have no testers."""

from __future__ import annotations

import numpy as np

from plimsoll.analyse.components.bottleneck import bottleneck
from plimsoll.analyse.components.utilization_hosts import HostsUsed, hosts_used
from plimsoll.analyse.components.watched.notes import host_notes
from plimsoll.analyse.hosts.clocks import greatest_bound, start_spread, unknown_clocks
from plimsoll.analyse.hosts.coverage import agents_with_testers, loss, lost_agents
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.baseline import Measurement
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import SAME, Agent, AgentClock, LinkCapacity, RunAgents, links_of_hosts

S = 1_000_000_000
SECONDS = np.arange(1.0, 21.0)
FAR = AgentClock(bound_ns=300_000, started_ns=40_000)


def agent(name: str, role: str, clock: AgentClock = FAR, lost: bool = False) -> Agent:
    return Agent(
        name, name, "target", role, lost, 7 * S if lost else None, 0, clock, np.empty(0, dtype=np.int64), {}
    )


HERE, DB1 = agent("local", "testers", SAME), agent("db1", "watch")


def series(component: str, metric: str, part: str, value: float, of: str = "db1") -> SampleSeries:
    wobble = 0.001 * value * np.cos(np.arange(SECONDS.size))
    return SampleSeries(component, metric, part, SECONDS, np.full(SECONDS.size, value) + wobble, of)


def samples(busy: tuple[float, ...], **more: float) -> list[SampleSeries]:
    """`busy`: of each core of db1; `more`: METRIC_PART of its host."""
    mean = sum(busy) / len(busy)
    return [
        series("host", "cpu.busy", "", mean),
        *(series("host", "cpu.busy", str(core), share) for core, share in enumerate(busy)),
        *(series("host", name.partition("_")[0].replace("-", "."), name.partition("_")[2], value)
          for name, value in more.items()),
        series("testers", "cpu", "", 0.01),
        series("testers", "cpu.busiest_thread", "monitor", 0.97),
        series("host", "cpu.busy", "", 0.1, "local"),
    ]  # fmt: skip


def used(
    given: list[SampleSeries],
    cores: int | None = 4,
    link: float | None = None,
    *,
    is_measured: bool = False,
) -> HostsUsed:
    links = {} if link is None else {"db1": LinkCapacity(link, link, is_measured)}
    known = {} if cores is None else {"db1": cores}
    return hosts_used(given, Window(0, 20 * S), [HERE, DB1], {"host": 2, "testers": 2}, known, (), links)


def of(hosts: HostsUsed, name: str) -> Utilization:
    (utilization,) = [utilization for utilization in hosts.shown if utilization.component == name]
    return utilization


def test_the_busiest_core_of_a_watched_host_counts_if_it_is_above_all() -> None:
    hosts = used(samples((0.99, 0.1, 0.1, 0.1)))
    db1 = of(hosts, "db1")
    assert (db1.role, db1.host, db1.resource) == ("host", "db1", "core 0")
    assert abs(db1.mean - 0.99) < 1e-3 and abs(db1.detail["cpu.busy"] - 0.3225) < 1e-3
    assert bottleneck(hosts.shown).component == "db1"
    assert of(used(samples((0.5, 0.5, 0.5, 0.5))), "db1").resource == "cpu"
    assert "core 0" not in of(hosts, "host").detail, "what runs on our own hosts is known"


def test_the_agents_own_process_is_no_tester() -> None:
    hosts = used(samples((0.2, 0.2)))
    assert hosts.busiest_thread is None and [utilization.role for utilization in hosts.shown] == [
        "host",
        "host",
    ]


def test_a_process_is_named_with_its_host_and_has_its_cores() -> None:
    given = [
        *samples((0.9, 0.9, 0.9, 0.9)),
        series("service:postgres", "cpu", "", 3.6),
        series("service:postgres", "cpu.busiest_thread", "postgres", 0.5),
        series("service:postgres", "cpu", "", 0.2, "local"),
    ]
    for cores in (4, None):  # where nobody has asked the host, its monitor tells
        hosts = used(given, cores)
        postgres = of(hosts, "postgres on db1")
        assert (postgres.role, postgres.host, postgres.resource) == ("service", "db1", "cpu of its 4 cores")
        assert abs(postgres.mean - 0.9) < 1e-3
    assert of(hosts, "postgres").host == "", "another one, on this host"


def test_a_link_is_weighed_where_its_capacity_is_declared() -> None:
    given = samples((0.3, 0.3), **{"net-receive_eth0": 1e8, "net-send_eth0": 1.2e9, "net-receive_lo": 9e9})
    assert of(used(given), "db1").resource == "cpu"
    db1 = of(used(given, link=1.25e9), "db1")
    assert db1.resource == "link eth0" and abs(db1.mean - 0.96) < 1e-3
    assert bottleneck(used(given, link=1.25e9).shown).component == "db1"
    environment = {
        "hosts": [{"name": "db1", "link_bytes_s": 1.25e9}, {"name": "h", "link_bytes_s": None}, {}]
    }
    assert links_of_hosts(environment) == {"db1": LinkCapacity(1.25e9, 1.25e9)} and links_of_hosts({}) == {}


def measurement(*hosts: tuple[str, list[dict[str, object]]]) -> Measurement:
    entries = [{"host": host, "agent": host, "paths": paths} for host, paths in hosts]
    return Measurement.model_validate({"when": "before", "hosts": entries})


def test_a_capacity_that_is_not_declared_is_that_of_the_paths_to_the_target() -> None:
    slow = {"to": "lab", "send_bytes_s": 1e6, "receive_bytes_s": 2e6}
    fast = {"to": "db", "send_bytes_s": 1.448e6, "receive_bytes_s": 1e6}
    other = {"to": "lab", "is_target": False, "send_bytes_s": 9e6, "receive_bytes_s": 9e6}
    before = measurement(("h", [slow, fast]), ("db1", [slow]), ("x", [other]), ("y", [{"to": "lab"}]))
    links = links_of_hosts({"hosts": [{"name": "db1", "link_bytes_s": 5e6}]}, [before])
    assert links["db1"] == LinkCapacity(5e6, 5e6) and set(links) == {"h", "db1"}
    assert links["h"].is_measured and abs(links["h"].send - 1.514e6) < 1
    assert abs(links["h"].receive - 2e6 * 1514 / 1448) < 1


def test_a_measured_capacity_that_the_host_exceeds_is_not_used() -> None:
    given = samples((0.3, 0.3), **{"net-send_eth0": 1.2e9})
    assert of(used(given, link=1.15e9, is_measured=True), "db1").resource == "link eth0"
    assert of(used(given, link=1e9, is_measured=True), "db1").resource == "cpu"
    assert of(used(given, link=1e9), "db1").resource == "link eth0"


def test_an_agent_without_testers_is_neither_lost_nor_does_its_clock_count() -> None:
    gone = RunAgents((HERE, agent("db1", "watch", AgentClock(), lost=True)), 0, None, 100)
    assert (
        agents_with_testers(gone) == (HERE,)
        and lost_agents(gone, {}) == ()
        and loss(gone, {}, Window(0, 10)) is None
    )
    assert unknown_clocks(gone) == ()
    there = RunAgents((HERE, DB1), 0, None, 100)
    assert greatest_bound(there) == 0 and start_spread(there) == (None, None)
    both = RunAgents((HERE, DB1, agent("h1", "testers")), 0, None, 100)
    assert greatest_bound(both) == 300_000


def test_notes_on_watched_hosts() -> None:
    record = {
        "watched_hosts": [{"name": "db1", "missing": ""}, {"name": "db2", "missing": "it does not answer"}],
        "watch_events": [{"t_s": 3.25, "text": "db1: postgres has ended"}],
    }
    assert host_notes(record) == (
        "db2 is not watched: it does not answer",
        "at 3.25 s: db1: postgres has ended",
    )
    assert host_notes({}) == ()
