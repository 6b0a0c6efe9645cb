"""Intervals within a run cover the truth as often as they say, on series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from plimsoll.analyse.batch import FEWEST, batch_mean, ratio_mean


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
        found = batch_mean(autoregressive(rng, 2000, phi))
        assert found is not None and found.interval.low is not None and found.interval.high is not None
        hits += found.interval.low <= 10 <= found.interval.high
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
        found = ratio_mean(sums, counts, variance=float(response[keep].var()))
        assert found is not None and found.interval.low is not None and found.interval.high is not None
        hits += found.interval.low <= 2.0 <= found.interval.high
        assert found.effective is not None and found.effective < 0.7 * keep.sum(), (
            "requests of a queue depend"
        )
    assert hits >= 88


def test_correlated_batches_are_merged_and_what_is_left_is_said() -> None:
    rng = np.random.default_rng(1)
    free = batch_mean(rng.normal(size=3000))
    assert free is not None and free.batches == 30 and free.independent
    slow = batch_mean(np.sin(np.linspace(0, 3, 3000)))
    assert slow is not None
    assert slow.batches >= FEWEST
    assert not slow.independent
    assert "too narrow" in slow.interval.method


def test_effective_samples_of_independent_values_are_about_all_of_them() -> None:
    found = batch_mean(np.random.default_rng(8).normal(size=30_000))
    assert found is not None and found.effective is not None
    assert 10_000 < found.effective <= 30_000


def test_too_few_values_have_no_interval() -> None:
    assert batch_mean([1.0] * 9) is None
    assert ratio_mean([0.0] * 240, [0.0] * 240) is None
    assert ratio_mean([5.0] + [0.0] * 239, [3.0] + [0.0] * 239) is None


def test_constant_values() -> None:
    found = batch_mean([4.0] * 100)
    assert found is not None
    assert (found.interval.low, found.interval.high) == (4.0, 4.0)
    assert found.effective == 100
