"""Intervals within a run cover the true value at their level, on series with a known mean."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.stats import within_run

from plimsoll.analyse.stats.batch import BatchMean, batch_mean, ratio_mean
from plimsoll.analyse.stats.proportion import wilson


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> NDArray[np.float64]:
    """AR(1) with mean 10 and unit variance of its innovations, in its steady state."""
    out = np.empty(n)
    value = rng.normal() / np.sqrt(1 - phi**2)
    for i, step in enumerate(rng.normal(size=n)):
        value = phi * value + step
        out[i] = value
    return out + 10


@pytest.mark.parametrize(("phi", "least"), [(0.0, 0.92), (0.5, 0.91), (0.9, 0.88)])
def test_coverage(phi: float, least: float) -> None:
    """Published for 2000 values: 0.94 at 0.5 and 0.91 at 0.9 with 20 batches; 0.74 and 0.29 for the i.i.d. formula."""
    rng = np.random.default_rng(20061)
    trials = 250
    hits = 0
    for _ in range(trials):
        mean = batch_mean(autoregressive(rng, 2000, phi))
        assert mean is not None and mean.interval.low is not None and mean.interval.high is not None
        hits += mean.interval.low <= 10 <= mean.interval.high
    assert least <= hits / trials <= 0.99


def test_ratio_covers_the_mean_response_time_of_a_queue() -> None:
    """M/M/1 at load 0.5 by Lindley's recursion: mean response time 1 / (1 - 0.5) = 2, binned by time."""
    rng = np.random.default_rng(3)
    hits, trials = 0, 100
    for _ in range(trials):
        n = 6000
        gaps, services = rng.exponential(2.0, n), rng.exponential(1.0, n)
        arrival = np.cumsum(gaps)
        end = np.empty(n)
        free = 0.0
        for i in range(n):
            free = max(free, arrival[i]) + services[i]
            end[i] = free
        response = end - arrival
        keep = (end > 500) & (end < 11000)
        bins = ((end[keep] - 500) / (10500 / 240)).astype(np.int64)
        sums: NDArray[np.float64] = np.bincount(bins, weights=response[keep], minlength=240).astype(
            np.float64
        )
        counts = np.bincount(bins, minlength=240).astype(float)
        mean = ratio_mean(sums, counts, variance=float(response[keep].var()))
        assert mean is not None and mean.interval.low is not None and mean.interval.high is not None
        hits += mean.interval.low <= 2.0 <= mean.interval.high
        assert mean.effective is not None and mean.effective < 0.7 * keep.sum(), "requests of a queue depend"
    assert hits >= 88


MIN_COVERAGE = 0.93
FLAGGED_AT_MOST = 0.10
NEEDED = 30.0
"""Number of independent samples from which on the flag must be rare."""
SERIES = [(n, phi) for n in (60, 240, 600) for phi in (0.2, 0.5, 0.8, 0.9, 0.95)]
QUEUES = [(load, seconds) for load in (0.8, 0.9) for seconds in (20.0, 60.0, 120.0, 300.0)]


def check(means: Iterable[BatchMean | None], truth: float, independent: float) -> None:
    """Coverage among the intervals that are not flagged, and how many are. A rate that is above its limit, or below, by
    no more than the error of the simulation (one-sided 95 %) passes."""
    covered, flagged, trials = 0, 0, 0
    for mean in means:
        assert mean is not None and mean.interval.low is not None and mean.interval.high is not None
        trials += 1
        flagged += not mean.independent
        covered += mean.independent and mean.interval.low <= truth <= mean.interval.high
    print(
        f"{covered / (trials - flagged):.3f} covered, {flagged / trials:.3f} flagged, {independent:.1f} independent"
    )
    assert wilson(covered, trials - flagged, confidence=0.90)[1] >= MIN_COVERAGE
    assert independent < NEEDED or wilson(flagged, trials, confidence=0.90)[0] <= FLAGGED_AT_MOST


def check_series(length: int, phi: float, series: int) -> None:
    values = within_run.autoregressive(np.random.default_rng(25), series, length, phi)
    check(map(batch_mean, values), 0.0, length * (1 - phi) / (1 + phi))


def check_queue(load: float, seconds: float, runs: int) -> None:
    means = (
        ratio_mean(sums, counts, variance=variance, of_times=True)
        for sums, counts, variance in within_run.queues(np.random.default_rng(26), runs, load, seconds)
    )
    check(means, within_run.mean_response(load), within_run.independent_requests(load, seconds))


@pytest.mark.parametrize(("length", "phi"), SERIES)
def test_coverage_on_short_dependent_series(length: int, phi: float) -> None:
    check_series(length, phi, 400)


@pytest.mark.parametrize(("load", "seconds"), QUEUES)
def test_coverage_on_the_response_times_of_a_loaded_queue(load: float, seconds: float) -> None:
    check_queue(load, seconds, 200)


@pytest.mark.long
@pytest.mark.parametrize(("length", "phi"), SERIES)
def test_coverage_on_many_short_dependent_series(length: int, phi: float) -> None:
    check_series(length, phi, 10_000)


@pytest.mark.long
@pytest.mark.parametrize(("load", "seconds"), QUEUES)
def test_coverage_on_the_response_times_of_many_loaded_queues(load: float, seconds: float) -> None:
    check_queue(load, seconds, 4_000)


def test_the_interval_of_a_mean_time_reaches_further_up_and_stays_above_zero() -> None:
    sums = np.array([1.0] * 20 + [2.0] * 4 + [60.0] * 6)
    times = ratio_mean(sums, np.ones(30), of_times=True)
    assert times is not None and times.interval.low is not None and times.interval.high is not None
    assert times.interval.low > 0
    assert times.interval.high - times.interval.mean > times.interval.mean - times.interval.low


def test_one_slow_movement_is_flagged() -> None:
    rng = np.random.default_rng(1)
    free = batch_mean(rng.normal(size=3000))
    assert free is not None and free.batches == 30 and free.independent
    slow = batch_mean(np.sin(np.linspace(0, 3, 3000)))
    assert slow is not None
    assert not slow.independent
    assert "too narrow" in slow.interval.method


def test_effective_samples_of_independent_values_are_about_all_of_them() -> None:
    mean = batch_mean(np.random.default_rng(8).normal(size=30_000))
    assert mean is not None and mean.effective is not None
    assert 10_000 < mean.effective <= 30_000


def test_too_few_values_have_no_interval() -> None:
    assert batch_mean([1.0] * 9) is None
    assert ratio_mean([0.0] * 240, [0.0] * 240) is None
    assert ratio_mean([5.0] + [0.0] * 239, [3.0] + [0.0] * 239) is None


def test_constant_values() -> None:
    mean = batch_mean([4.0] * 100)
    assert mean is not None
    assert (mean.interval.low, mean.interval.high) == (4.0, 4.0)
    assert mean.effective == 100
