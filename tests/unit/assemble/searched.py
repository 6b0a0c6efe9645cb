"""The searches of several cells, with simulated trials in the place of runs."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.stats.search_truths import Curve, measure

from plimsoll.assemble.adaptive import capacity_search as module
from plimsoll.assemble.adaptive.capacity_search import CapacitySearchRuns
from plimsoll.assemble.adaptive.search_request import capacity_search
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.search.trials import Trial, TrialResult

FILE = """
plimsoll: 1
name: cells
services: {web: {kind: delay, servers: 2, time: 20ms}}
factors:
  servers: {path: services.web.servers, levels: [2, 3, 5]}
workload: {driver: http, target: web}
%s
search:
  axis: %s
  from: %s
  to: %s
  goals: {fast: {response: "p(90)<150ms", width: 20%%}}
  trial: {initial: 1s, final: 2s, sum: 4s}
  repeat: %d
  max_time: 1h
design: {seed: 3, order: %s}
"""
PER_SERVER = 100.0

Searched = tuple[Plan, ResultsDirectory]


def simulated(plan: Plan) -> Callable[..., TrialResult]:
    """Trials whose service holds `PER_SERVER` for each server."""
    rng = np.random.default_rng(8)

    def trial_result(trial: Trial, run: Any, results: Any, search: Any, spent_s: float) -> TrialResult:
        servers = int(run.record["cell"]["servers"])
        goals = capacity_search(search, plan.seed).goals
        return measure(trial, goals, Curve(PER_SERVER * servers, 0.02, rng))

    return trial_result


def carry_out(
    path: Path,
    *,
    axis: str = "load.rate",
    ends: tuple[str, str] = ("20/s", "4000/s"),
    repeat: int = 3,
    order: str = "random",
    starts: Mapping[int, float] | None = None,
) -> Searched:
    """All trials of the file, in a results directory without measurements."""
    load = "load: {in_flight: 200}" if axis == "load.rate" else "load: {think: 1s}"
    file = path / "cells.yaml"
    file.write_text(FILE % (load, axis, *ends, repeat, order))
    plan = replace(make_plan(load_experiment(file), 1), starts=starts or {})
    directory = ResultsDirectory.create(path, "cells", datetime.datetime.now(datetime.UTC))
    (directory.path / "experiment.yaml").write_text(file.read_text())
    (directory.path / "environment.json").write_text('{"format": "plimsoll.environment/1"}')
    made: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "trial_result", simulated(plan))
        patch.setattr(module, "open_results", lambda path: SimpleNamespace(runs=made))
        source = CapacitySearchRuns(plan, directory)
        while (run := source.next_run()) is not None:
            record = {"format": "plimsoll.run-record/1", "status": "done"}
            (directory.clear_run(run.id) / "run.json").write_text(json.dumps(record))
            made.append(SimpleNamespace(id=run.id, record={"cell": dict(run.cell)}))
    return plan, directory
