"""A paired experiment with a control, interrupted and resumed, with the real engine."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.conftest import Lab

FILE = """
plimsoll: 1
name: paired
services: {web: {kind: delay, time: 2ms}}
workload: {driver: http, target: web, timeout: 5s}
load: {testers: 1}
factors: {build: {path: services.web.time, levels: {old: 2ms, new: 10ms}}}
design: {pair: build, control: true, repetitions: %s, seed: 4}
run: {duration: 500ms, drain: 5s}
validity: {lateness_floor: 10s, tester_cpu: 100%%, gaps: 100%%, trend: false}
"""
TIMEOUT_S = 60.0


@pytest.mark.long
def test_a_paired_experiment_is_interrupted_resumed_and_compared(lab: Lab) -> None:
    process = lab.start("run", lab.file(FILE % "4"), "--quiet")
    until = time.monotonic() + TIMEOUT_S
    while not list(lab.directory.glob("results/*Z/runs/0003/run.json")) and process.poll() is None:
        assert time.monotonic() < until, "the third run did not end"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    results = lab.results()
    plan = json.loads((results / "plan.json").read_text())
    controls = {run["id"] for run in plan["runs"] if run.get("control")}
    assert len(plan["runs"]) == 12 and len(controls) == 4

    resumed = lab.run("run", "--resume", results, "--json")
    assert resumed.code == 99, resumed.err
    document = resumed.json
    assert document["experiment"]["complete"] and document["experiment"]["planned_runs"] == 8
    assert len(document["runs"]) == 8 and {run["id"] for run in document["controls"]} == controls
    assert all(cell["repetitions"] == 4 for cell in document["cells"])
    assert {run["block"] for run in document["runs"]} == {f"repetition {n}" for n in range(1, 5)}
    assert "12 of 12 runs, no problems" in lab.run("check", results).out
    assert len((results / "runs.csv").read_text().splitlines()) == 1 + 8

    compared = lab.run("compare", results, "--by", "build", "--json")
    assert compared.code == 99 and compared.json == document["comparison"]
    found = {one["metric"]: one for one in compared.json["comparisons"]}
    assert found["response_p50"]["verdict"] == "slower" and found["response_p50"]["pairs"] == 4
    assert found["response_p50"]["control"]["pairs"] == 4 and found["response_p50"]["order"] is not None
    assert found["response_p50"]["control"]["interval"]["high"] < found["response_p50"]["interval"]["low"]
    assert compared.json["control"]["runs"] == 4
    assert {one["metric"] for one in compared.json["drift"]} == {"cpu_per_transaction.testers", "cpu.testers"}
    shown = lab.run("show", results)
    assert shown.code == 99 and "A/A" in shown.out and "slower: median response time" in shown.out
    assert "Comparison" in (results / "report.html").read_text()
    quiet = lab.run("run", "--resume", results, "--quiet")
    assert quiet.code == 99 and "slower: median response time" in quiet.out and "A/A" not in quiet.out
    # Reversed, the control still repeats the level "old".
    back = lab.run("compare", results, "--by", "build=new,old", "--json").json
    found = {one["metric"]: one for one in back["comparisons"]}
    assert found["response_p50"]["verdict"] == "faster" and found["response_p50"]["control"]["pairs"] == 4
    planned = lab.run("plan", lab.file(FILE % "6"), "--like", results)
    assert (
        "with 6 pairs and the spread of" in planned.out
        and "of response_p50 can be seen with power 80 %" in planned.out
    )


@pytest.mark.long
def test_a_tight_level_goes_on_until_its_partner_is_tight(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE % "{until: {throughput: 100%}, max_repetitions: 6}"), "--json")
    assert done.code == 99, done.err
    assert [cell["repetitions"] for cell in done.json["until"]["cells"]] == [5, 5]
    assert len(done.json["controls"]) == 5 and done.json["experiment"]["complete"]
    lines = (lab.results() / "trials.jsonl").read_text().splitlines()[1:]
    assert [json.loads(line)["decision"] for line in lines] == ["stop", "stop"]
