"""Cells that are repeated until they are tight, with the real engine."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.conftest import Lab

FILE = """
plimsoll: 1
name: until
services: {web: {kind: echo}}
workload: {driver: http, target: web, timeout: 5s}
load: {testers: 1, think: 5ms}
factors: {load.testers: [1, 2]}
design: {seed: 3, repetitions: {until: {%s}, at_least: 5, max_repetitions: 7}}
run: {duration: 300ms, drain: 5s}
validity: {lateness_floor: 10s, tester_cpu: 100%%, gaps: 100%%, trend: false}
"""


def test_cells_that_are_tight_stop_and_the_directory_is_complete(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE % "throughput: 100%"), "--json")
    assert done.code == 0, done.err
    assert len(done.json["runs"]) == 10, "5 of 7 repetitions of 2 cells"
    assert done.json["experiment"]["complete"] and done.json["experiment"]["planned_runs"] == 10
    assert all(cell["is_tight"] and cell["repetitions"] == 5 for cell in done.json["until"]["cells"])
    assert any("as tight as wanted after 5 repetitions" in text for text in done.json["answer"])
    assert {run["block"] for run in done.json["runs"]} == {f"repetition {n}" for n in range(1, 6)}
    first, *lines = (json.loads(text) for text in (lab.results() / "trials.jsonl").read_text().splitlines())
    assert first["format"] == "plimsoll.trials/1"
    assert [line["decision"] for line in lines] == ["stop", "stop"]
    assert "no problems" in lab.run("check", lab.results()).out
    shutil.rmtree(lab.results() / "runs" / "0010")
    resumed = lab.run("run", "--resume", lab.results(), "--json")
    assert resumed.code == 0, resumed.err
    assert [run["id"] for run in resumed.json["runs"]][-1] == "0010" and len(resumed.json["runs"]) == 10


@pytest.mark.long
def test_cells_that_do_not_converge_are_named(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE % "response_max: 1%"), "--json")
    assert done.code == 0, done.err
    assert len(done.json["runs"]) == 14
    (text,) = (text for text in done.json["answer"] if text.startswith("Not converged"))
    assert "after 7 repetitions, 2 of 2 cells have wider intervals than wanted" in text
