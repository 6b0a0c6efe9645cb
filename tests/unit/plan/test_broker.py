"""The service kinds `grid` and `broker`, and metrics from headers of responses."""

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
