"""Remarks: dependence between successive runs, and runs that are too short."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from plimsoll.compare.metrics import Better, ComparedMetric
from plimsoll.compare.model import RunValue, Sample
from plimsoll.compare.remarks import MeasuredRun, lag1_of, relaxation_s, serial_dependence, short_runs

TIME = ComparedMetric("response_p50", Better.LOWER)


def test_lag_1_is_that_of_the_formula_and_does_not_cross_sequences() -> None:
    values = [1.0, 2.0, 0.0, -1.0, -2.0, 1.0, 0.5, -0.5, -1.0, 0.0]
    expected = sum(a * b for a, b in pairwise(values)) / sum(v * v for v in values)
    assert lag1_of([(0, at, v) for at, v in enumerate(values)]) == pytest.approx(expected)
    split = [(at // 5, at, v) for at, v in enumerate(values)]
    assert lag1_of(split) == pytest.approx(expected - values[4] * values[5] / sum(v * v for v in values))
    assert lag1_of([(0, at, 1.0) for at in range(9)]) is None


def test_runs_that_drift_are_named_and_runs_that_alternate_are_not() -> None:
    def sides(values: list[float]) -> Sample:
        runs = tuple(RunValue(math.exp(v), 0, at) for at, v in enumerate(values))
        return Sample(TIME, {}, runs[:6], runs[6:])

    [found] = serial_dependence([sides([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5])])
    assert found.metric == "response_p50" and found.lag1 > 0.3 and found.runs == 12
    assert serial_dependence([sides([0.0, 1.0] * 6)]) == []


def test_what_the_runs_of_a_block_have_in_common_is_no_dependence_of_pairs() -> None:
    blocks = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]

    def side(first: int, noise: float) -> tuple[RunValue, ...]:
        return tuple(
            RunValue(math.exp(value + noise * (-1) ** at), 0, 2 * at + first, f"b{at}")
            for at, value in enumerate(blocks)
        )

    old, new = side(0, 0.0), side(1, 0.01)
    assert serial_dependence([Sample(TIME, {}, old, new, same_blocks=True)]) == []
    assert serial_dependence([Sample(TIME, {}, old, new)])[0].lag1 > 0.3


def test_the_relaxation_time_is_that_of_the_queue() -> None:
    # Facts of M/M/1: 37, 56 and 380 service times at utilizations of .7, .75 and .9.
    for utilization, times in ((0.7, 37), (0.75, 56), (0.9, 380)):
        found = relaxation_s(utilization, throughput_per_s=utilization * 1000)
        assert found is not None and found * 1000 == pytest.approx(times, rel=0.02)
    assert relaxation_s(1.0, 10) is None and relaxation_s(0.0, 10) is None


def test_runs_shorter_than_500_relaxation_times_are_named_by_cell() -> None:
    def run(cell: str, window_s: float) -> MeasuredRun:
        return MeasuredRun("old", {"load": cell}, window_s, 900.0, "web", 0.9)

    [short] = short_runs([run("a", 10), run("a", 12), run("b", 300)])
    assert (
        short.cell == {"load": "a"}
        and short.window_s == 11
        and short.relaxation_s == pytest.approx(0.38, rel=0.02)
    )
