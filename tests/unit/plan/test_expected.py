"""The transactions per tester that `plan --like` predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import BASE, edited, load

from plimsoll.assemble.like import EarlierRun, earlier_runs, most_similar, predictions
from plimsoll.cli.experiments.plan import like_lines
from plimsoll.errors import BadInput, PlimsollError
from plimsoll.plan import Plan, make_plan
from plimsoll.plan.design.expected import Expected, expected

MS = 10**6
S = 10**9


def plan_of(written: str, run: str = "{duration: 10s}", more: str = "") -> Plan:
    text = edited("{duration: 1s}", run, edited("{testers: 1}", written)) + more
    return make_plan(load(text), 5)


def only(written: str, run: str = "{duration: 10s}", response_ms: float = 100) -> Expected:
    config = plan_of(written, run).runs[0].config
    (found,) = expected(config, {"main": response_ms * MS})
    return found


@pytest.mark.parametrize(
    ("written", "run", "per_tester", "total"),
    [
        ("{testers: 4}", "{duration: 10s}", 100, 400),
        ("{testers: 4, think: {exponential: 400ms}}", "{duration: 10s}", 20, 80),
        ("{testers: 4, think: 400ms}", "{warmup: 5s, duration: 10s}", 20, 120),
        ("{testers: 4, every: 1s}", "{duration: 10s}", 10, 40),
        ("{testers: 4, every: 10ms}", "{duration: 10s}", 100, 400),
        ("{testers: 4}", "{duration: 10s, until: {each_tester: 3}}", 3, 12),
        # Two testers for 10 s each, in 15 s; two testers in stages, one of them for half of the time.
        ("{ramp: {testers: 2, every: 5s, life: 10s}, every: 1s}", "{drain: 1s}", 10, 20),
        ("{stages: [{for: 5s, testers: 1}, {for: 5s, testers: 2}]}", "{drain: 1s}", 75, 150),
    ],
)
def test_a_tester_makes_a_transaction_in_each_cycle(
    written: str, run: str, per_tester: float, total: float
) -> None:
    found = only(written, run)
    assert found.per_tester == pytest.approx(per_tester)
    assert found.total == pytest.approx(total)


def test_the_window_for_ten_transactions() -> None:
    assert only("{testers: 4, think: 2900ms}").needed_ns == pytest.approx(30 * S)
    # Each of two testers is active for two thirds of the run.
    assert only(
        "{ramp: {testers: 2, every: 5s, life: 10s}, every: 2s}", "{drain: 1s}"
    ).needed_ns == pytest.approx(30 * S)


def test_open_loads_and_runs_without_a_length_have_no_prediction() -> None:
    for written, run in [
        ("{rate: 5/s}", "{duration: 10s}"),
        ("{stages: [{for: 1s, testers: 1}, {for: 1s, rate: 5/s}]}", "{drain: 1s}"),
        ("{testers: 4}", "{until: {each_tester: 5}}"),
    ]:
        assert expected(plan_of(written, run).runs[0].config, {"main": 100 * MS}) == []
    assert expected(plan_of("{testers: 4}").runs[0].config, {"other": 100 * MS}) == []


EARLIER = [
    EarlierRun("0001", {"load.testers": "1"}, 1, {"main": 10.0 * MS}),
    EarlierRun("0002", {"load.testers": "8"}, 8, {"main": 80.0 * MS}),
    EarlierRun("0003", {"load.testers": "100"}, 100, {"main": 2000.0 * MS}),
]


def test_the_most_similar_run_has_the_same_levels_or_the_nearest_number_of_testers() -> None:
    plan = plan_of(
        "{testers: 1}", more="factors: {load.testers: [1, 8, 200]}\ndesign: {order: listed, repetitions: 2}\n"
    )
    assert [most_similar(run, EARLIER).id for run in plan.runs[:3]] == ["0001", "0002", "0003"]
    found = predictions(plan, EARLIER)
    assert [(one.runs, one.like, one.workloads[0].per_tester) for one in found] == [
        (2, "0001", 1000),
        (2, "0002", 125),
        (2, "0003", 5),
    ]
    lines = like_lines(found, Path("earlier"), 200)
    assert lines[1] == (
        "expected: load.testers=1: 1,000 transactions per tester in the window, 1,000 in a run (response time 10 ms, "
        "as in run 0001)"
    )
    assert lines[-1] == (
        "warning: fewer than 10 transactions per tester in 1 of 3 cells (5.0 at least): fairness and saturation are "
        "uncertain there. A window of 20 s has 10"
    )
    assert "1 more cells" in like_lines(found, Path("earlier"), 2)[-1]
    assert "no run has a closed load" in like_lines([], Path("earlier"), 2)[0]


def results_with(directory: Path, runs: list[dict[str, Any]] | None) -> Path:
    plan = {"format": "plimsoll.plan/1", "runs": []}
    (directory / "plan.json").write_text(json.dumps(plan))
    (directory / "environment.json").write_text(json.dumps({"format": "plimsoll.environment/1"}))
    for name in ("experiment.yaml", "effective.yaml"):
        (directory / name).write_text(BASE)
    if runs is not None:
        analysis = {"format": "plimsoll.analysis/1", "runs": runs}
        (directory / "analysis.json").write_text(json.dumps(analysis))
    return directory


def test_earlier_results_are_read_from_their_analysis(tmp_path: Path) -> None:
    run = {
        "id": "0001",
        "cell": {},
        "valid": True,
        "testers": [{}] * 4,
        "workloads": [],
        "response_ms": {"mean": 5.0},
    }
    bad = {**run, "id": "0002", "valid": False}
    assert earlier_runs(results_with(tmp_path, [bad, run])) == [EarlierRun("0001", {}, 4, {"main": 5.0 * MS})]
    for runs, message in [
        (None, "has no analysis.json: run `plimsoll analyse"),
        ([bad], "has no valid run with response times"),
    ]:
        directory = tmp_path / str(len(message))
        directory.mkdir()
        with pytest.raises(BadInput, match=message):
            earlier_runs(results_with(directory, runs))
    with pytest.raises(PlimsollError, match="not a results directory"):
        empty = tmp_path / "empty"
        empty.mkdir()
        earlier_runs(empty)
