"""The bootstrap of percentiles from 20 runs a side on: coverage, and agreement of interval and p-value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from plimsoll.compare.bootstrap import BootstrapEffect, resampled
from plimsoll.compare.estimates import Effect, effect
from plimsoll.compare.metrics import COMPARED, ComparedMetric
from plimsoll.compare.model import Method, RunValue, Sample
from plimsoll.compare.verdicts import compare

P99 = next(metric for metric in COMPARED if metric.metric == "response_p99")
THROUGHPUT = COMPARED[0]


def sample(old: np.ndarray, new: np.ndarray, metric: ComparedMetric = P99, *, paired: bool = False) -> Sample:
    sides = [
        tuple(RunValue(float(value), at, order, f"b{order}") for order, value in enumerate(values))
        for at, values in enumerate((old, new))
    ]
    return Sample(metric, {}, sides[0], sides[1], same_blocks=paired)


def boot(one: Sample) -> BootstrapEffect:
    found = resampled(effect(one), one)
    assert isinstance(found, BootstrapEffect)
    return found


def percentiles(rng: np.random.Generator, runs: int, requests: int = 300) -> np.ndarray:
    """p99 of runs of exponential response times, whose scale changes from run to run: skewed at both levels."""
    scales = rng.gamma(20, 1 / 20, runs)
    found: np.ndarray = np.quantile(rng.exponential(scales[:, None], (runs, requests)), 0.99, axis=1)
    return found


@pytest.mark.parametrize("paired", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_interval_covers_the_true_ratio(paired: bool) -> None:
    rng = np.random.default_rng(5)
    inside, sets = 0, 400
    for _ in range(sets):
        drawn = [percentiles(rng, 20), 1.2 * percentiles(rng, 20)]
        low, high = boot(sample(drawn[0], drawn[1], paired=paired)).ends(0.95)
        inside += low <= np.log(1.2) <= high
    # 0.95 +- 2.8 standard errors of a share of 400.
    assert 0.92 <= inside / sets <= 0.98


def test_the_distribution_of_t_is_that_of_scipy_for_normal_runs() -> None:
    rng = np.random.default_rng(6)
    old, new = np.exp(rng.normal(0, 0.1, (2, 60)))
    found = boot(sample(old, new))
    theirs = stats.ttest_ind(np.log(new), np.log(old), equal_var=False).confidence_interval(0.95)
    assert found.ends(0.95) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_the_p_value_belongs_to_the_interval() -> None:
    rng = np.random.default_rng(7)
    found = boot(sample(percentiles(rng, 20), 1.5 * percentiles(rng, 20)))
    for level in (0.5, 0.9, 0.95, 0.99):
        low, _ = found.ends(level)
        assert (
            found.p_beyond(low - 1e-9) <= 1 - level + 2e-4 and found.p_beyond(low + 1e-9) >= 1 - level - 2e-4
        )
    assert found.p_beyond(found.value + 0.1) == 1.0


def test_the_interval_is_the_same_at_each_call() -> None:
    rng = np.random.default_rng(8)
    one = sample(percentiles(rng, 20), percentiles(rng, 20))
    assert compare([one]) == compare([one]) and compare([one])[0].method is Method.BOOTSTRAP


def test_few_runs_other_metrics_and_equal_values_keep_t() -> None:
    rng = np.random.default_rng(9)
    old, new = percentiles(rng, 20), percentiles(rng, 20)
    for one in (sample(old[:19], new), sample(old, new, THROUGHPUT), sample(np.ones(20), np.ones(20))):
        found = resampled(effect(one), one)
        assert isinstance(found, Effect) and not isinstance(found, BootstrapEffect)
