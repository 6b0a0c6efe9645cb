"""Predicts the transactions per tester of a plan from the response times of earlier results (`plan --like DIR`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plimsoll.analyse.design.repetitions.power import ExpectedRepetitions, expected_repetitions
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.assemble.whole import analysis_of
from plimsoll.collect.files import read_json
from plimsoll.collect.results import open_results
from plimsoll.errors import BadInput
from plimsoll.plan.design.expected import Expected, expected
from plimsoll.plan.hosts.spread import slots_of
from plimsoll.plan.plan import Plan, PlannedRun


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A valid run of the earlier results. `response_ns`: mean response time by workload (`main`: of all
    transactions)."""

    id: str
    cell: Mapping[str, str]
    testers: int
    response_ns: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The runs of a cell of the plan: their number, the earlier run whose times are used, and what each run is expected
    to make."""

    cell: Mapping[str, str]
    runs: int
    like: str
    workloads: tuple[Expected, ...]


def earlier_runs(directory: Path) -> list[EarlierRun]:
    """The valid runs of a results directory that has an analysis. Raises PlimsollError."""
    results = open_results(directory)
    path = results.path / "analysis.json"
    if not path.exists():
        raise BadInput(f"{directory} has no analysis.json: run `plimsoll analyse {directory}` first")
    document = read_json(path, "plimsoll.analysis")
    runs = [_earlier(run) for run in document["runs"] if run["valid"]]
    found = [run for run in runs if run.response_ns]
    if not found:
        raise BadInput(f"{directory} has no valid run with response times: --like needs one")
    return found


def _earlier(run: Mapping[str, Any]) -> EarlierRun:
    means = {work["workload"]: work["response_ms"]["mean"] for work in run["workloads"]}
    means.setdefault("main", run["response_ms"]["mean"])
    times = {name: mean * 1e6 for name, mean in means.items() if mean}
    return EarlierRun(run["id"], run["cell"], len(run["testers"]), times)


def most_similar(run: PlannedRun, earlier: Sequence[EarlierRun]) -> EarlierRun:
    """The earlier run with the most equal levels of factors, then with the nearest number of testers (by ratio)."""
    testers = sum(slots_of(work.load) for work in run.config.workloads)

    def distance(other: EarlierRun) -> tuple[int, float]:
        equal = sum(other.cell.get(name) == level for name, level in run.cell.items())
        return -equal, abs(math.log(max(1, testers) / max(1, other.testers)))

    return min(earlier, key=distance)


def predictions(plan: Plan, earlier: Sequence[EarlierRun]) -> list[Prediction]:
    """A prediction for each cell of the plan that has a closed load and a known length, in the order of its runs."""
    by_cell: dict[tuple[str, ...], list[PlannedRun]] = {}
    for run in plan.runs:
        by_cell.setdefault(tuple(f"{name}={level}" for name, level in run.cell.items()), []).append(run)
    found = []
    for runs in by_cell.values():
        like = most_similar(runs[0], earlier)
        workloads = tuple(expected(runs[0].config, like.response_ns))
        if workloads:
            found.append(Prediction(runs[0].cell, len(runs), like.id, workloads))
    return found


def repetitions_like(plan: Plan, directory: Path) -> list[ExpectedRepetitions]:
    """The expected repetitions for each metric of `repetitions: {until: ...}`, from the scatter of the earlier runs of
    equal cells; empty if their number is fixed. Raises PlimsollError."""
    until = plan.experiment.design.until
    if until is None:
        return []
    cells: dict[tuple[tuple[str, str], ...], list[RunResult]] = {}
    for run in analysis_of(open_results(directory)).runs:
        if run.valid:
            cells.setdefault(tuple(sorted(run.cell.items())), []).append(run)
    found = []
    for metric, wanted in until.widths.items():
        values = [
            [value for run in runs if (value := metric_value(run, metric)) is not None]
            for runs in cells.values()
        ]
        expected = expected_repetitions(metric, values, wanted, until.at_least, until.at_most)
        if expected is not None:
            found.append(expected)
    return found
