"""The service kinds `grid` and `broker`, the driver `broker`, and metrics from headers of responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan.model.cell import Config
from plimsoll.plan.services.section import Addresses
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.tiers import tiers_of
from plimsoll.plan.topology import topology

FILE = """\
plimsoll: 1
services:
  grid:   {kind: grid, sites: 20, policies: ["* * 20+", "* vo3 10-", "site7 vo3.group1 50.5"], submission: 1s}
  points: {kind: broker, grid: grid, instances: 3, exchange: 250ms, hold: 2s, decision_time: 500ms, seed: 7}
workload:
  driver: http
  target: points
  http:
    method: POST
    path: /decide
    body: '{"vo": {vo}, "group": {group}, "cpus": 4, "runtime_ms": 60000}'
    metrics: {accuracy: Plimsoll-Accuracy, misplaced: Plimsoll-Misplaced}
  values: {vo: {uniform: [0, 59]}, group: {uniform: [0, 9]}}
load: {testers: 4}
run: {duration: 1s}
responses: [{metric: metric.accuracy}]
"""

BOTH = """\
plimsoll: 1
services:
  grid:   {kind: grid}
  points: {kind: broker, grid: grid, instances: 2}
workload:
  driver: broker
  target: points
  broker: {vo: "{vo}", group: 7, cpus: 4, runtime: 90s}
  values: {vo: {uniform: [0, 59]}}
load: {testers: 4}
factors: {protocol: {path: services.points.protocol, levels: [http, binary]}}
run: {duration: 1s}
responses: [{metric: metric.accuracy}]
"""
"""A workload whose protocol is a factor."""
FACTORS = """\
factors:
  protocol: {path: services.points.protocol, levels: [http, binary]}\
"""


def config_of(text: str = FILE) -> Config:
    return load(text).cells[0].config


def engine_configs(text: str = FILE) -> dict[str, dict[str, Any]]:
    services = config_of(text).services
    urls = {service.name: [f"http://127.0.0.1:{port}"] for port, service in enumerate(services, 1000)}
    return {
        service.name: SERVICE_KINDS[service.kind].engine_config(service, Addresses(urls))
        for service in services
    }


def test_each_point_knows_the_grid_and_the_points_above_it() -> None:
    configs = engine_configs()
    assert configs["grid"] == {
        "sites": 20,
        "organisations": 60,
        "groups": 10,
        "cpus": [10, 1000],
        "policies": ["* * 20+", "* vo3 10-", "site7 vo3.group1 50.5"],
        "submission_ms": 1000,
        "queue": 256,
        "jobs": 1_000_000,
        "seed": 1,
    }
    third = configs["points.3"]
    assert third == {
        "grid": configs["grid"],
        "grid_address": "127.0.0.1:1000",
        "peers": ["127.0.0.1:1001", "127.0.0.1:1002"],
        "exchange_ms": 250,
        "selector": "policy",
        "hold_ms": 2000,
        "decision_ms": 500,
        "seed": 9,
        "security": "none",
        "cert_file": None,
        "key_file": None,
        "ca_file": None,
    }
    assert configs["points.1"]["peers"] == []
    without = engine_configs(FILE.replace("exchange: 250ms", "exchange: 0s"))
    assert without["points.1"]["exchange_ms"] is None
    json.dumps(configs)


def test_brokers_of_other_grids_are_no_peers() -> None:
    text = FILE.replace("  points:", "  second: {kind: grid}\n  own: {kind: broker, grid: second}\n  points:")
    assert engine_configs(text)["points.1"]["peers"] == []


def test_the_requests_of_testers_and_of_points_are_compared_with_the_counts() -> None:
    tiers = {tier.service: tier for tier in tiers_of(config_of())}
    assert tiers.keys() == {"grid", "points.1", "points.2", "points.3"}
    assert [part.service for part in tiers["grid"].services] == ["points.1", "points.2", "points.3"]
    assert {part.counter for part in tiers["grid"].services} == {"submitted"}
    assert [part.workload for part in tiers["points.2"].testers] == ["main"]


def test_points_send_requests_to_the_grid_and_not_to_each_other_in_the_picture() -> None:
    found = topology(config_of())
    flows = {(flow.source, flow.to) for flow in found.connections}
    assert ("points.3", "grid") in flows
    assert ("points.3", "points.1") not in flows


def test_the_engine_receives_the_metrics_as_pairs() -> None:
    (work,) = config_of().workloads
    assert work.settings["metrics"] == [
        ["accuracy", "Plimsoll-Accuracy"],
        ["misplaced", "Plimsoll-Misplaced"],
    ]
    (work,) = config_of(FILE.replace("    metrics: {accuracy", "    headers: {accuracy")).workloads
    assert "metrics" not in work.settings


def test_only_the_scheme_depends_on_the_protocol() -> None:
    http, binary = (cell.config for cell in load(BOTH).cells)
    schemes = [{service.scheme for service in config.services} for config in (http, binary)]
    assert schemes == [{"http"}, {"http", "broker"}]
    assert http.workloads[0].settings == binary.workloads[0].settings == {"connection": "kept", "tls": None}
    requests = [
        operation.request for config in (http, binary) for operation in config.workloads[0].operations
    ]
    assert requests == [{"vo": "{vo}", "group": "7", "cpus": "4", "runtime_ms": 90_000}] * 2
    assert {tier.service for tier in tiers_of(http)} == {tier.service for tier in tiers_of(binary)}
    assert {tier.service for tier in tiers_of(binary)} == {"grid", "points.1", "points.2"}
    addresses = Addresses({"grid": ["http://[::1]:1000"], "points.1": ["broker://127.0.0.1:1001"]})
    last = binary.services[-1]
    engine = SERVICE_KINDS[last.kind].engine_config(last, addresses)
    assert (engine["grid_address"], engine["peers"]) == ("[::1]:1000", ["127.0.0.1:1001"])
    assert SERVICE_KINDS["broker"].serves_counters


def test_security_can_be_a_factor_of_both_protocols() -> None:
    text = BOTH.replace(
        "run: {dur", "  security: {path: services.points.security, levels: [none, tls]}\nrun: {dur"
    ).replace("factors: {protocol: {path: services.points.protocol, levels: [http, binary]}}", FACTORS)
    configs = [cell.config for cell in load(text).cells]
    assert {config.services[-1].scheme for config in configs} == {"http", "broker", "https", "brokers"}
    tiers = [{tier.service for tier in tiers_of(config)} for config in configs]
    assert tiers == [{"grid", "points.1", "points.2"}] * 4
    secured = FILE.replace("seed: 7}", "seed: 7, security: tls}")
    found = [str(problem) for problem in problems(secured)]
    assert len(found) == 3
    assert all("does not have the client certificates that points." in problem for problem in found)
    driven = BOTH.replace("instances: 2}", "instances: 2, security: tls}")
    (work,) = config_of(driven.replace("runtime: 90s}", "runtime: 90s, tls: {proxy: run}}")).workloads
    assert work.settings["tls"] == {
        **dict.fromkeys(("ca_file", "ca_dir", "cert", "key")),
        "verify": True,
        "proxy": "run",
    }
    unused = problems(FILE.replace("seed: 7}", "ca_file: ca.pem}"))
    assert "is used only with `security: tls`" in str(unused[0])


def test_a_broker_is_asked_from_several_addresses() -> None:
    text = BOTH.replace("runtime: 90s}", "runtime: 90s, source_addresses: 127.0.0.2..127.0.0.3}")
    assert config_of(text).workloads[0].settings["source_addresses"] == ["127.0.0.2", "127.0.0.3"]


@pytest.mark.parametrize(
    "url",
    [
        "broker://h.example:7000",
        "brokers://h.example:7000",
        "http://h.example",
        "http://h.example:80",
        "https://h.example",
    ],
)
def test_the_protocol_of_a_url_is_that_of_its_scheme(url: str) -> None:
    lines = [line for line in BOTH.splitlines() if not line.startswith("factors:")]
    config = config_of("\n".join(lines).replace("target: points", f"target: {url}"))
    assert config.workloads[0].target.endpoints[0].url == url


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("target: points", "target: 'broker://h.example'", "has no port"),
        ("target: points", "target: 'tcp://h.example:1'", "not a URL with broker: or brokers: or http:"),
        (
            'vo: "{vo}"',
            "vo: many",
            'expected a number from 0 to 65,535, or a value such as "{vo}", got "many"',
        ),
        ('vo: "{vo}"', "vo: 65536", 'got "65536"'),
        ("cpus: 4", "cpus: 0", "expected a number from 1 to 1,000,000"),
        ("cpus: 4", "cpus: 1.5", 'got "1.5"'),
        ("runtime: 90s", "runtime: 8d", "runtime"),
        ("runtime: 90s", "runtime: 0s", "runtime"),
        ("driver: broker", "driver: http", "points.1 is a service of kind broker, which speaks broker"),
        ("[http, binary]", "[http, soap]", "protocol"),
    ],
)
def test_workloads_that_cannot_be_used_are_refused(old: str, new: str, message: str) -> None:
    assert old in BOTH
    text = BOTH.replace(old, new)
    assert any(message in str(problem) for problem in problems(text)), problems(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("grid: grid", "grid: points.9", "there is no service points.9"),
        ("grid: grid, inst", "grid: web, inst", "web is a service of kind echo: expected one of kind grid"),
        ('"* vo3 10-"', '"* vo3 10*"', "policies"),
        ("sites: 20", "sites: 10000, organisations: 1000", "expected at most 10,000,000, got 100,000,000"),
        ("sites: 20", "site_cpus: [5, 1]", "expected [least, greatest]"),
        ("sites: 20", "site_cpus: [5]", "site_cpus"),
        ("{accuracy: P", "{tcp_rtt: P", "the driver records a metric of this name itself"),
        ("{accuracy: Plimsoll-Accuracy", '{accuracy: "a b"', "metrics"),
        ("{accuracy: P", "{Accuracy: P", "metrics"),
    ],
)
def test_what_cannot_be_used_is_refused(old: str, new: str, message: str) -> None:
    assert old in FILE
    text = FILE.replace("services:\n", "services:\n  web: {kind: echo}\n").replace(old, new)
    assert any(message in str(problem) for problem in problems(text)), problems(text)


def test_a_grid_below_its_points_is_refused() -> None:
    lines = FILE.splitlines(keepends=True)
    text = "".join([*lines[:2], lines[3], lines[2], *lines[4:]])
    assert any("services start in the order of the file" in str(problem) for problem in problems(text))
