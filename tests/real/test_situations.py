"""Situations of users, with real servers, and what Plimsoll must say in them."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.conftest import Lab, missing

ADMINISTRATOR = """
plimsoll: 1
name: slow-back-end
services:
  back:  {kind: delay, servers: 1, time: 16ms, fresh: run}
  front: {kind: nginx, origin: back}
workload: {driver: http, target: front, timeout: 30s, http: {path: /}}
load: {rate: 20/s, in_flight: 400}
factors: {load.rate: [20/s, 40/s, 120/s]}
design: {order: listed, seed: 3}
run: {warmup: 1s, duration: 10s, drain: 2s}
capacity: {response: "p(95)<500ms"}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


@pytest.mark.long
def test_an_administrators_nginx_before_a_slow_back_end(lab: Lab) -> None:
    """The back end serves 62.5 requests/s. A rate of 120/s overloads it; that is no fault of the load generator."""
    if shutil.which("nginx") is None:
        missing("nginx", "apt-get install nginx")
    done = lab.run("run", lab.file(ADMINISTRATOR), "--json")
    assert done.code == 0, done.err + done.out
    runs: dict[str, dict[str, Any]] = {run["cell"]["load.rate"]: run for run in done.json["runs"]}
    assert all(run["valid"] for run in runs.values())
    most = runs["120/s"]
    assert most["overload"]["verdict"] == "overloaded"
    assert 40 < most["overload"]["completed_per_s"] < 70 < 100 < most["overload"]["planned_per_s"] < 140
    assert runs["20/s"]["overload"]["verdict"] != "overloaded" != runs["40/s"]["overload"]["verdict"]
    # Every transaction that was scheduled in the window is in one place.
    cohort = most["cohort"]
    assert (
        sum(cohort.values()) > 1000 and cohort["in_drain"] + cohort["never_started"] + cohort["cut_off"] > 300
    )
    assert most["response_ms"]["count"] == cohort["in_window"] + cohort["in_drain"]
    assert most["response_ms"]["p50"] is None or most["response_ms"]["p50"] > 1000
    answer = " ".join(done.json["answer"])
    assert "The target is overloaded from a rate of 120/s on, and not at a rate of 40/s" in answer
    assert "not saturated" not in answer and "increased up to" not in answer
    (found,) = done.json["saturation"]
    assert (found["lower"], found["upper"], found["reason"]) == (40.0, 120.0, "overloaded")
    usable = next(each for each in found["capacities"] if each["kind"] == "usable")
    assert usable["load"] == 40.0
    analysis = json.loads((lab.results() / "analysis.json").read_text())
    assert analysis["answer"] == done.json["answer"]


MIX = """
plimsoll: 1
name: mix
services:
  quick: {kind: echo, http: true, body: 100B}
workload:
  driver: http
  target: quick
  mix:
    - {name: small, weight: 8, path: /small}
    - {name: large, weight: 2, method: POST, path: /large, body: "{n}"}
load: {testers: 4, think: 5ms}
run: {duration: 2s}
thresholds:
  - {metric: response, test: "p(50)<1ns", where: {operation: large}}
  - {metric: errors, test: "rate<1%", where: {operation: [small, large]}}
  - {metric: throughput, test: "rate>1"}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


def test_each_request_of_a_mix_has_its_own_figures_and_thresholds(lab: Lab) -> None:
    path = lab.file(MIX)
    done = lab.run("run", path)
    assert done.code == 99, done.err + done.out
    out = " ".join(done.out.split())
    assert "FAILED response time p(50)<1ns with operation large" in out
    assert (
        "ok error rate rate<1% with operation small" in out and "with operation large (observed 0 %)" in out
    )
    assert "request requests/s offered/s median p95 errors" in out
    analysis = json.loads((lab.results() / "analysis.json").read_text())
    (run,) = analysis["runs"]
    operations = {each["operation"]: each for each in run["operations"]}
    assert set(operations) == {"small", "large"}
    assert sum(each["transactions"] for each in operations.values()) == run["transactions"]
    assert operations["small"]["transactions"] > 2 * operations["large"]["transactions"]
    assert [each["cell"] for each in analysis["verdicts"]] == [
        {"operation": "large"},
        {"operation": "small"},
        {"operation": "large"},
        {},
    ]
    assert "Requests of the mix" in (lab.results() / "report.html").read_text()
    wrong = lab.run("plan", path, "--set", "thresholds.0.where.operation=larg")
    assert wrong.code == 2 and "there is no operation larg; there are small, large" in wrong.err
    wrong = lab.run(
        "plan", path, "--set", "thresholds.0.metric=dropped", "--set", "thresholds.0.test=count<1"
    )
    assert wrong.code == 2 and "dropped is not available for single operations or workloads" in wrong.err


@pytest.mark.long
def test_a_capacity_by_one_request_of_a_mix(lab: Lab) -> None:
    rules = 'capacity: {response: "p(50)<1ns", errors: "rate<50%", where: {operation: large}}\n'
    design = "factors: {load.testers: [2, 4]}\ndesign: {order: listed, seed: 1}\n"
    done = lab.run("run", lab.file(MIX + rules + design), "--json")
    assert done.code == 99, done.err + done.out
    (found,) = done.json["saturation"]
    capacities = {each["kind"]: each for each in found["capacities"]}
    assert capacities["usable"]["value"] is None and "(operation large)" in capacities["usable"]["definition"]
    assert capacities["error-limited"]["load"] == 4.0


GATE = """
plimsoll: 1
name: gate
services: {web: {kind: delay, servers: 4, time: 1ms, fail: 100%}}
workload: {driver: http, target: web, timeout: 5s, http: {path: /}}
load: {testers: 2, think: 10ms}
run: {duration: 1s}
thresholds: [{metric: errors, test: "rate<1%"}, {metric: response, test: "p(95)<1s"}]
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


@pytest.mark.long
def test_a_gate_of_continuous_integration_before_a_target_that_fails(lab: Lab) -> None:
    """Every request fails: that is an answer about the target. Thresholds fail (99), and no run is invalid (97)."""
    done = lab.run("run", lab.file(GATE))
    assert done.code == 99, done.out + done.err
    out = " ".join(done.out.split())
    assert "FAILED error rate rate<1%: observed 100 %, limit rate<1%" in out
    assert "FAILED response time p(95)<1s: failed: no sample" in out
    assert "The target served nothing: all" in out and "the run is invalid" not in out
    quiet = lab.run("run", lab.file(GATE), "--quiet")
    assert quiet.code == 99
    assert "FAILED error rate rate<1%: observed 100 %" in quiet.out and "requests......" not in quiet.out


RESEARCHER = """
plimsoll: 1
name: blocked
services: {web: {kind: delay, servers: 1, time: 10ms}}
workload: {driver: http, target: web, timeout: 10s, http: {path: /}}
factors:
  servers: {path: services.web.servers, levels: [1, 2]}
  testers: {path: load.testers, levels: [1, 4]}
load: {testers: 1}
design: {repetitions: 3, block: repetition, seed: 3}
run: {warmup: 200ms, duration: 1s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


@pytest.mark.long
def test_a_researchers_blocked_design(lab: Lab) -> None:
    """Each repetition is a block of its own. The servers of the queue are compared by a ratio with its interval."""
    done = lab.run("run", lab.file(RESEARCHER), "--json")
    assert done.code == 0, done.err
    assert {run["block"] for run in done.json["runs"]} == {f"repetition {n}" for n in (1, 2, 3)}
    (ranking,) = done.json["rankings"]
    assert (ranking["verdict"], ranking["best"]) == ("highest", {"servers": "2"})
    ratio = ranking["over_worst"]
    assert 1.5 < ratio["low"] <= ratio["mean"] <= ratio["high"] < 2.5 and "within blocks" in ratio["method"]
    assert "servers 2 has the highest throughput" in " ".join(done.json["answer"]).casefold()


RAMP = """
plimsoll: 1
name: ramp
services:
  queue: {kind: delay, servers: 2, time: 20ms}
workload: {driver: http, target: queue, http: {path: /}}
load: {stages: [{for: 8s, rate: 40/s..200/s}], arrivals: even, in_flight: 500}
run: {drain: 10s}
thresholds: [{metric: response, test: "p(50)<100ms"}, {metric: errors, test: "rate<1%"}]
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


@pytest.mark.long
def test_a_ramp_beyond_the_capacity_of_a_queue(lab: Lab) -> None:
    """Two servers of 20 ms serve 100/s. Beyond, the queue grows: ten requests (100 ms) wait from about 120/s on."""
    done = lab.run("run", lab.file(RAMP))
    assert done.code == 99, done.err + done.out
    analysis = json.loads((lab.results() / "analysis.json").read_text())
    (run,) = analysis["runs"]
    found = run["ramp"]
    assert (found["unit"], found["rising"], len(found["bins"])) == ("rate", [0, 10], 10)
    bins = found["bins"]
    assert [(each["load_low"], each["load_high"]) for each in bins[:2]] == [(40.0, 56.0), (56.0, 72.0)]
    # All that was scheduled is in one bin, and nothing completes more than the capacity.
    assert sum(sum(each["cohort"].values()) for each in bins) == sum(run["cohort"].values()) == 960
    assert all(each["throughput_per_s"] <= 104 for each in bins)
    assert bins[-1]["response_ms"]["p50"] > 1000
    times, errors = found["rules"]
    assert times["verdict"] in ("failed from a load on", "failed from the lowest load on")
    assert times["load_low"] <= 136, "the service cannot be faster than its capacity"
    assert errors["verdict"] == "held"
    answer = " ".join(analysis["answer"])
    assert "on and stayed failed" in answer and "A ramp is not a search" in answer
    assert "offered rate" in done.out and "184 to 200/s" in done.out
    page = (lab.results() / "report.html").read_text()
    assert "Run 0001 against the offered rate" in page
