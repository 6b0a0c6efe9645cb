"""A broker of several decision points over its simulated grid: the quality of each decision is a metric."""

from __future__ import annotations

from tests.conftest import Lab

FILE = """
plimsoll: 1
name: broker
services:
  grid:   {kind: grid, sites: 20, site_cpus: [20, 100], fresh: run}
  points: {kind: broker, grid: grid, instances: 3, exchange: 20ms, fresh: run}
targets: {broker: {endpoints: [points], choose: per-tester}}
workload:
  driver: http
  target: broker
  timeout: 20s
  http:
    method: POST
    path: /decide
    body: '{"vo": {vo}, "group": {group}, "cpus": 4, "runtime_ms": 600000}'
    metrics: {accuracy: Plimsoll-Accuracy, misplaced: Plimsoll-Misplaced}
    expect: {status: [200, 503]}
  values: {vo: {uniform: [0, 59]}, group: {uniform: [0, 9]}}
load: {testers: 6, think: 10ms}
design: {seed: 1}
run: {until: {transactions: 400}, drain: 10s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
responses: [{metric: metric.accuracy}, {metric: metric.misplaced}]
"""

PROTOCOLS = """
plimsoll: 1
name: protocols
services:
  grid:   {kind: grid, sites: 20, site_cpus: [20, 100], fresh: run}
  points: {kind: broker, grid: grid, instances: 2, exchange: 20ms, fresh: run}
targets: {broker: {endpoints: [points], choose: per-tester}}
workload:
  driver: broker
  target: broker
  timeout: 20s
  broker: {vo: "{vo}", group: "{group}", cpus: 4, runtime: 10m}
  values: {vo: {uniform: [0, 59]}, group: {uniform: [0, 9]}}
load: {testers: 4, think: 10ms}
factors:
  protocol: {path: services.points.protocol, levels: [http, binary]}
  security: {path: services.points.security, levels: [none, tls]}
design: {seed: 1}
run: {until: {transactions: 300}, drain: 10s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
responses: [{metric: metric.accuracy}, {metric: metric.misplaced}, {metric: metric.queue_full}]
"""


def test_the_quality_of_decisions_is_recorded_and_agrees_with_the_grid(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE), "--json")
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    counted = {each["name"]: each["counters"] for each in run["services"]}
    grid, points = counted["grid"], [counted[f"points.{number}"] for number in (1, 2, 3)]
    metrics = {metric["name"]: metric for metric in run["metrics"]}
    assert metrics["accuracy"]["count"] == run["counts"]["started"] == grid["decisions"]
    assert abs(metrics["accuracy"]["mean"] - grid["accuracy"] / grid["decisions"]) < 1e-4
    assert round(metrics["misplaced"]["mean"] * grid["decisions"]) == grid["misplaced"]
    assert sum(point["decisions"] for point in points) == grid["submitted"] > 0
    assert grid["submitted"] + grid["jobs_refused"] + grid["queue_full"] == grid["decisions"]
    assert sum(point["queue_full"] for point in points) == grid["queue_full"]
    assert {tier["service"] for tier in run["tiers"]} == {"grid", "points.1", "points.2", "points.3"}
    assert all(tier["difference"] == 0 for tier in run["tiers"])
    assert all(point["exchange_failures"] == 0 for point in points)
    assert all(point["decisions_received"] > 0 for point in points)


def test_both_protocols_are_counted_and_assessed_alike(lab: Lab) -> None:
    done = lab.run("run", lab.file(PROTOCOLS), "--json")
    assert done.code == 0, done.err
    runs = done.json["runs"]
    assert len(runs) == 4
    for run in runs:
        counted = {each["name"]: each["counters"] for each in run["services"]}
        grid = counted["grid"]
        metrics = {metric["name"]: metric for metric in run["metrics"]}
        # Refused jobs are "wrong", and have a quality, too.
        assert metrics["accuracy"]["count"] == run["counts"]["started"] == grid["decisions"] == 300
        assert abs(metrics["accuracy"]["mean"] - grid["accuracy"] / grid["decisions"]) < 1e-4
        assert round(metrics["queue_full"]["mean"] * grid["decisions"]) == grid["queue_full"]
        assert run["counts"]["succeeded"] == grid["submitted"] > 0
        assert {tier["service"] for tier in run["tiers"]} == {"grid", "points.1", "points.2"}
        assert all(tier["difference"] == 0 for tier in run["tiers"])
        assert all(counted[point]["decisions_received"] > 0 for point in ("points.1", "points.2"))
        # Each tester keeps a connection to one of the points.
        expected = 4 if run["cell"]["security"] == "tls" else 0
        assert sum(counted[point]["handshakes"] for point in ("points.1", "points.2")) == expected
        assert all(counted[point]["failed_handshakes"] == 0 for point in ("points.1", "points.2"))
