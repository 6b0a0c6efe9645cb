"""Cell means and the checks of their residuals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from plimsoll.analyse.answer.explained import model_reason
from plimsoll.analyse.effects.diagnostics import diagnose, equal_variances_p
from plimsoll.analyse.results.verdicts import ModelReason
from plimsoll.analyse.stats.blocks import error_with_blocks
from plimsoll.analyse.stats.means import POOLED, SEPARATE, SINGLE, cell_intervals, mean_interval, pooled_error
from plimsoll.analyse.stats.proportion import wilson


def test_t_interval() -> None:
    """By hand, with t[0.95; 7] = 1.895 (Jain, table A.4)."""
    y = 3.90 + 0.71 * stats.zscore(np.arange(8.0), ddof=1)
    interval = mean_interval(y, None, confidence=0.90)
    half = 1.895 * 0.71 / math.sqrt(8)
    assert interval is not None
    assert interval.low is not None and interval.high is not None
    assert (interval.low, interval.high) == pytest.approx((3.90 - half, 3.90 + half), abs=1e-3)
    assert interval.df == 7 and interval.method == SEPARATE


def test_pooled_over_the_design() -> None:
    cells = [[10.0, 12.0], [20.0, 22.0], [30.0, 34.0], [40.0]]
    error = pooled_error(cells)
    assert error is not None and error.df == 3
    assert error.sd == pytest.approx(math.sqrt((2 + 2 + 8) / 3))
    intervals = cell_intervals(cells)
    single = intervals[3]
    assert single is not None and single.low is not None and single.high is not None
    half = stats.t.ppf(0.975, 3) * error.sd
    assert single.high - single.mean == pytest.approx(half), "a cell run once borrows the error of the others"
    assert all(i is not None and i.df == 3 and i.method == POOLED for i in intervals)


def test_one_repetition_has_no_interval() -> None:
    intervals = cell_intervals([[1.0], [2.0], []])
    assert intervals[2] is None
    for interval in intervals[:2]:
        assert interval is not None
        assert (interval.low, interval.high, interval.df, interval.method) == (None, None, None, SINGLE)


def test_log_intervals_keep_a_constant_relative_width() -> None:
    intervals = cell_intervals([[99.0, 101.0], [990.0, 1010.0]], log=True)
    widths = []
    for interval in intervals:
        assert interval is not None and interval.low is not None and interval.high is not None
        widths.append(interval.high / interval.low)
    assert widths[0] == pytest.approx(widths[1])
    assert intervals[1] is not None and intervals[1].mean == 1000
    zero = cell_intervals([[0.0, 1.0], [5.0, 6.0]], log=True)
    assert zero[0] is not None and zero[0].method == POOLED, "falls back to the plain scale"


def test_pooled_intervals_cover() -> None:
    rng = np.random.default_rng(12)
    hits = trials = 0
    for _ in range(200):
        cells = [rng.normal(truth, 1, 2) for truth in (1.0, 5.0, 9.0)]
        for truth, interval in zip((1.0, 5.0, 9.0), cell_intervals(cells), strict=True):
            assert interval is not None and interval.low is not None and interval.high is not None
            hits += interval.low <= truth <= interval.high
            trials += 1
    assert 0.92 <= hits / trials <= 0.98


def test_levene_agrees_with_scipy_where_cells_have_three_runs() -> None:
    rng = np.random.default_rng(4)
    groups = [rng.normal(0, s, 6) for s in (1, 1, 8)]
    residuals = np.concatenate([g - g.mean() for g in groups])
    cells = [i for i in range(3) for _ in range(6)]
    p = equal_variances_p(residuals, cells, {})
    assert p == pytest.approx(float(stats.levene(*groups, center="median").pvalue))


@pytest.mark.parametrize("repetitions", [2, 3, 5])
def test_levene_rarely_rejects_equal_variances(repetitions: int) -> None:
    rng = np.random.default_rng(repetitions)
    cells = [i for i in range(12) for _ in range(repetitions)]
    factors = {"a": [str(c % 3) for c in cells], "b": [str(c // 3) for c in cells]}
    alarms = 0
    for _ in range(200):
        y = rng.normal(0, 1, (12, repetitions))
        p = equal_variances_p((y - y.mean(axis=1, keepdims=True)).reshape(-1), cells, factors)
        alarms += p is not None and p < 0.01
    assert alarms <= 8


def test_levene_detects_a_factor_that_changes_the_variance_with_two_runs_per_cell() -> None:
    rng = np.random.default_rng(3)
    cells = [i for i in range(24) for _ in range(2)]
    load = [str(c % 4) for c in cells]
    y = rng.normal(0, 1, (24, 2)) * np.array([1.0, 3.0, 9.0, 27.0])[np.arange(24) % 4][:, None]
    residuals = (y - y.mean(axis=1, keepdims=True)).reshape(-1)
    p = equal_variances_p(residuals, cells, {"load": load})
    assert p is not None and p < 0.01


@pytest.mark.parametrize(("blocks", "of_blocks"), [(2, 0.0), (2, 1.0), (3, 1.0), (5, 3.0)])
def test_the_mean_of_a_cell_has_the_variance_of_few_blocks(blocks: int, of_blocks: float) -> None:
    """Six cells, each once in each block; `of_blocks`: deviation of the blocks over that of a run."""
    rng, names, held, experiments = np.random.default_rng(5), [str(i) for i in range(blocks)], 0, 600
    for _ in range(experiments):
        cells = rng.normal(0, 1, (6, blocks)) + rng.normal(0, of_blocks, blocks)
        intervals = cell_intervals(
            list(cells),
            error=lambda values: error_with_blocks([list(zip(names, cell, strict=True)) for cell in values]),
        )[0]
        assert intervals is not None and intervals.low is not None and intervals.high is not None
        held += intervals.low <= 0 <= intervals.high
    assert wilson(held, experiments, confidence=0.98)[1] >= 0.95, held


def test_without_blocks_the_error_is_that_within_cells() -> None:
    cells = [[1.0, 2.0], [4.0, 7.0]]
    assert error_with_blocks([[(None, value) for value in cell] for cell in cells]) == pooled_error(cells)


def test_equal_runs_of_cells_have_degrees_of_freedom() -> None:
    """Jain's index of runs that were all fair: rounding makes the sum of squares within blocks the larger one."""
    logs = (0.0, 0.0, -0.00017776197718145302, -0.000533191161658835, 0.0, 0.0, 0.0, -0.00017776197718123095)
    error = error_with_blocks([[(name, value) for name in "abc"] for value in logs])
    assert error is not None and error.sd < 1e-15 and error.df >= 1
    cells = [[math.exp(value)] * 3 for value in logs]
    for interval in cell_intervals(cells, log=True, error=lambda _: error):
        assert interval is not None and interval.low == pytest.approx(interval.mean)


def test_diagnose_reports_each_violation() -> None:
    rng = np.random.default_rng(9)
    cells = [i // 4 for i in range(40)]
    e = rng.normal(0, 1, 40)
    fine = diagnose(100 + e, e, cells, factors={}, order=list(range(40)))
    assert fine.reasons == ()
    drifting = e + np.linspace(-5, 5, 40)
    checks = diagnose(100 + drifting, drifting, cells, factors={}, order=list(range(40)))
    assert checks.drift == pytest.approx(10, abs=2)
    assert ModelReason.DRIFT in [r.code for r in checks.reasons]
    assert checks.lag1 is not None and checks.lag1 > 0.5
    wide = diagnose(np.linspace(1, 50, 40), e, cells, factors={}, scale="linear")
    assert [model_reason(r) for r in wide.reasons] == [
        "the greatest response is 50.0 times the smallest: consider scale: log"
    ]
    spiked = e.copy()
    spiked[7] = 40
    assert diagnose(100 + spiked, spiked, cells, factors={}).outliers == (7,)


def test_diagnose_of_perfect_data() -> None:
    checks = diagnose([5.0] * 8, [0.0] * 8, [0, 0, 1, 1, 2, 2, 3, 3], factors={}, order=list(range(8)))
    assert checks.reasons == () and not checks.variances_differ and checks.outliers == ()


def test_values_that_differ_by_many_orders_of_magnitude_have_no_interval() -> None:
    (found,) = cell_intervals([[1e-60, 1.0]], log=True)
    assert found is not None and found.mean == pytest.approx(0.5)
    assert found.low is None and found.high is None
