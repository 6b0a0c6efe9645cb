"""Change points: published and independently computed figures, false alarms and power on correlated series, limits."""

from __future__ import annotations

import time
import tracemalloc
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.stats import within_run
from tests.stats.reference import DATA

from plimsoll.analyse.stats.change_points import MAX_VALUES, Split, best_split, change_points, p_value
from plimsoll.analyse.stats.proportion import wilson

Array = NDArray[np.float64]


@cache
def nile() -> Array:
    flow: Array = np.loadtxt(DATA / "nile.csv", delimiter=",", skiprows=1)[:, 1]
    return flow


def statistic(left: Array, right: Array) -> float:
    """Q by its definition: sums over pairs of values."""

    def distances(first: Array, second: Array) -> float:
        return float(sum(abs(a - b) for a in first for b in second))

    t, m = left.size, right.size
    within = distances(left, left) / (t * (t - 1)) + distances(right, right) / (m * (m - 1))
    return t * m / (t + m) * (2 * distances(left, right) / (t * m) - within)


def test_the_nile_changes_after_1898() -> None:
    """Q 4807.5213 of the whole series, and 4916.5908 with the right part up to value 83."""
    y = nile()
    at_end = {index: statistic(y[:index], y[index:]) for index in range(3, 98)}
    best = max(at_end, key=at_end.__getitem__)
    assert (best, round(at_end[best], 4)) == (28, 4807.5213)
    split = best_split(y)
    assert split is not None
    assert (split.index, split.end, round(split.statistic, 4)) == (28, 83, 4916.5908)
    assert split.statistic == pytest.approx(statistic(y[:28], y[28:83]))
    (change,) = change_points(y)
    assert (change.index, change.p) == (28, 0.005)
    assert (change.before, round(change.after, 2)) == (1097.75, 849.97)
    assert change.ratio == pytest.approx(849.9722 / 1097.75 - 1, abs=1e-6)


def test_the_next_splits_of_the_nile_are_not_significant() -> None:
    for part in (nile()[:28], nile()[28:]):
        split = best_split(part)
        assert split is not None
        p = p_value(part, split, level=0.99, min_segment=3, random=np.random.default_rng(1))
        assert p > 0.1


@pytest.mark.parametrize("least", [2, 3, 5])
def test_the_best_split_is_the_largest_of_all_pairs(least: int) -> None:
    y = np.random.default_rng(3).normal(size=14)
    split = best_split(y, least)
    assert split is not None
    found = {
        (index, end): statistic(y[:index], y[index:end])
        for index in range(least, 15)
        for end in range(index + least, 15)
    }
    assert (split.index, split.end) == max(found, key=found.__getitem__)
    assert split.statistic == pytest.approx(max(found.values()))


def test_several_changes_have_the_means_between_them() -> None:
    y = 100 + np.random.default_rng(4).normal(0, 2, 160)
    y[60:100] = y[60:100] * 0.6
    changes = change_points(y)
    assert [change.index for change in changes] == [60, 100]
    assert all(first.after == second.before for first, second in pairwise(changes))
    assert changes[0].ratio == pytest.approx(-0.4, abs=0.02)
    assert changes == change_points(y)


def test_small_changes_are_not_reported() -> None:
    y = 100 + np.random.default_rng(4).normal(0, 1, 120)
    y[60:] -= 4
    assert len(change_points(y, min_change=0.02)) == 1
    assert change_points(y, min_change=0.05) == []


def test_missing_values_keep_the_position_of_a_change() -> None:
    y = 100 + np.random.default_rng(5).normal(0, 2, 120)
    y[70:] -= 30
    y[[3, 10, 11, 50, 69]] = np.nan
    y[90] = np.inf
    (change,) = change_points(y)
    assert change.index == 70


def test_series_without_change_or_without_values() -> None:
    assert change_points([]) == []
    assert change_points([1.0] * 5) == []
    assert change_points([np.nan] * 50) == []
    for constant in (0.0, 7.0, 0.1 + 0.2, -1e12):
        assert change_points([constant] * 50) == []
    assert best_split(np.zeros(5)) is None


def test_a_step_without_noise_is_a_change() -> None:
    (change,) = change_points([0.0] * 20 + [4.0] * 20)
    assert (change.index, change.before, change.after, change.ratio) == (20, 0.0, 4.0, np.inf)
    assert change.p == 0.005


def test_long_series_are_tested_in_groups() -> None:
    """The change is found at its value, not at the limit of a group of 20."""
    y = 100 + np.random.default_rng(6).normal(0, 2, 2010)
    y[1207:] -= 20
    (change,) = change_points(y, max_values=101)
    assert change.index == 1207
    assert [change.before, change.after] == pytest.approx([100.0, 80.0], abs=0.3)


def test_time_and_memory_are_bounded() -> None:
    """Measured at 600 values: 1.5 s of processor time for a significant split, 0.03 s for none, 9 MB."""
    y = 100 + np.random.default_rng(7).normal(0, 2, MAX_VALUES)
    began = time.process_time()
    assert change_points(y) == []
    assert time.process_time() - began < 2.0
    y[MAX_VALUES // 2 :] -= 20
    assert len(change_points(y)) == 1
    assert time.process_time() - began < 15.0
    tracemalloc.start()
    best_split(y)
    p_value(y, Split(10, MAX_VALUES, 0.1), level=0.01, min_segment=3, random=np.random.default_rng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def series(n: int, phi: float, count: int, seed: int) -> Array:
    """Correlated noise of 5 % about 100; one row per series."""
    noise = within_run.autoregressive(np.random.default_rng(seed), count, n, phi) * np.sqrt(1 - phi**2)
    values: Array = 100 + 5 * noise
    return values


def false_changes(n: int, phi: float, count: int) -> int:
    return sum(bool(change_points(y, min_change=0.0)) for y in series(n, phi, count, seed=11))


def found(n: int, phi: float, count: int, step: float) -> float:
    """Share of series in which a step in the middle is found within 3 values."""
    hits = 0
    for y in series(n, phi, count, seed=12):
        y[n // 2 :] -= step
        hits += any(abs(change.index - n // 2) <= 3 for change in change_points(y, min_change=0.0))
    return hits / count


@pytest.mark.parametrize(("n", "phi"), [(30, 0.0), (40, 0.3), (60, 0.6)])
def test_series_without_a_change_rarely_have_one(n: int, phi: float) -> None:
    false = false_changes(n, phi, 80)
    assert wilson(false, 80, confidence=0.90)[0] <= 0.02, false


def test_steps_are_found() -> None:
    assert found(40, 0.0, 25, step=20) >= 0.9
    assert found(60, 0.3, 25, step=20) >= 0.8


@pytest.mark.long
@pytest.mark.parametrize("n", [30, 40, 60, 120])
@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.8])
def test_false_changes_and_power_of_the_table(n: int, phi: float) -> None:
    """The table of docs/methods.md: at a level of 1 %, at most 2.5 % of series have a false change."""
    false = false_changes(n, phi, 400)
    assert wilson(false, 400, confidence=0.90)[0] <= 0.025, false
    if n >= 60 and phi <= 0.3:
        assert found(n, phi, 50, step=20) >= 0.9
