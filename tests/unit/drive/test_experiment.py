"""What an experiment prepares before its first run."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from plimsoll.drive.carry_out import SilentListener
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.experiment import ExperimentRunner, ListedRuns
from plimsoll.plan import make_plan, parse_experiment

FILE = """plimsoll: 1
name: search
services: {web: {kind: delay, time: 5ms}}
workload: {driver: http, target: web}
load: {in_flight: 50}
search: {axis: load.rate, from: 50/s, to: 2000/s, goals: {fast: {errors: "rate<1%"}}}
"""


def test_nothing_is_prepared_if_no_run_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that has ended has no run left, although the cells of its plan are in no list of runs that are done."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = make_plan(parse_experiment(FILE, "x.yaml", Path(), (), {}), 1)
    directory = ResultsDirectory.create(tmp_path, "search", datetime.datetime.now(datetime.UTC))
    prepared: list[str] = []
    for step in ("_check_watched", "_prepare_hosts", "_check_perf", "_try_targets"):
        monkeypatch.setattr(ExperimentRunner, step, lambda self, *values, step=step: prepared.append(step))
    runner = ExperimentRunner(plan, directory, Path("no-engine"), SilentListener())
    outcome = runner.carry_out(source=ListedRuns(()))
    assert prepared == []
    assert (outcome.done, outcome.not_done, outcome.interrupted) == (0, 0, False)
