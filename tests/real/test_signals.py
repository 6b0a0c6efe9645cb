"""Signals to `plimsoll run`: all end it cleanly, and what was measured is analysed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import Lab

LONG = """\
plimsoll: 1
name: long
services: {web: {kind: echo}}
workload: {driver: http, target: web, http: {path: /}}
load: {testers: 2, think: 20ms}
run: {duration: 100s}
"""
TIMEOUT_S = 60.0


def has_load(directory: Path) -> Path:
    """Waits until the first run reports seconds; gives the results directory."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        for path in directory.glob("results/*Z/runs/0001/live.jsonl"):
            if path.read_text(encoding="utf-8").count("\n") > 1:
                return path.parents[2]
        time.sleep(0.1)
    pytest.fail("no load within the time limit")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_a_run_like_ctrl_c(lab: Lab, number: signal.Signals) -> None:
    process = lab.start("run", lab.file(LONG))
    results = has_load(lab.directory)
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, err
    assert json.loads((results / "runs/0001/run.json").read_text())["status"] == "stopped"
    assert (results / "report.html").exists()
    assert f"resume with: plimsoll run --resume {results.relative_to(lab.directory)}" in err


@pytest.mark.long
def test_resume_of_a_complete_experiment_does_nothing(lab: Lab) -> None:
    path = lab.file(
        LONG.replace("duration: 100s", "duration: 500ms") + "validity: {gaps: 100%, lateness_floor: 10s}\n"
    )
    assert lab.run("run", path).code == 0
    before = (lab.results() / "runs/0001/run.json").read_text()
    done = lab.run("run", "--resume", lab.results())
    assert done.code == 0 and "0 runs" in done.err
    assert (lab.results() / "runs/0001/run.json").read_text() == before
