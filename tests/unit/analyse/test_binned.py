"""Samples, counters and gauges in bins: values that can be computed by hand, and an integral that must be kept."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from plimsoll.analyse.components.binned import bins_of_counter, bins_of_gauge, bins_of_samples

Array = NDArray[np.float64]
EDGES = np.arange(6.0)


def array(*values: float) -> Array:
    return np.array(values, dtype=np.float64)


def test_samples_on_whole_seconds_are_the_bins() -> None:
    assert bins_of_samples(array(1, 2, 3, 4, 5), array(5, 3, 8, 0, 1), EDGES).tolist() == [5, 3, 8, 0, 1]


def test_a_sample_is_divided_between_the_bins_that_it_covers() -> None:
    # The sample of 2 ends at 1.25, so it covers a quarter of the second bin; the sample of 6 covers the rest of it.
    found = bins_of_samples(array(0.25, 1.25, 2.25), array(0, 2, 6), array(0, 1, 2))
    assert found.tolist() == pytest.approx([0.25 * 0 + 0.75 * 2, 0.25 * 2 + 0.75 * 6])


def test_seconds_without_samples_are_unknown() -> None:
    # The sample at 4 covers 1.5 s, from 2.5 on: half of the bin from 2 to 3.
    found = bins_of_samples(array(1, 4, 5), array(7, 9, 2), EDGES)
    assert found[[0, 2, 3, 4]].tolist() == [7, 9, 9, 2]
    assert np.isnan(found[1])


def test_a_bin_of_several_seconds_is_the_mean_of_its_samples() -> None:
    ends = np.arange(1.0, 21.0)
    found = bins_of_samples(ends, ends, np.arange(0, 21, 5.0))
    assert found.tolist() == pytest.approx([3, 8, 13, 18])


def test_a_counter_keeps_its_increase() -> None:
    noise = np.random.default_rng(3)
    times = np.concatenate([[-0.05], np.arange(1, 40) + noise.uniform(-0.2, 0.2, 39), [40.1]])
    values = np.cumsum(noise.poisson(80, times.size)).astype(np.float64)
    edges = np.arange(0, 41, 4.0)
    found = bins_of_counter(times, values, edges)
    straight = np.diff(np.interp(edges, times, values)) / 4
    assert found.tolist() == pytest.approx(straight.tolist())


def test_a_counter_that_decreased_was_reset() -> None:
    found = bins_of_counter(array(0, 1, 2, 3, 4, 5), array(10, 30, 50, 7, 27, 47), EDGES)
    assert found.tolist() == [20, 20, 7, 20, 20]


def test_a_counter_is_unknown_in_a_gap() -> None:
    # A service was down from 2 to 7: what it counted since its start at 6 does not belong to this time.
    found = bins_of_counter(array(0, 1, 2, 7, 8, 9), array(10, 20, 30, 5, 15, 25), np.arange(10.0))
    assert found[[0, 1, 7, 8]].tolist() == [10, 10, 10, 10]
    assert np.isnan(found[2:7]).all()


def test_a_gauge_has_the_value_of_the_next_reading() -> None:
    assert bins_of_gauge(array(0, 1, 2), array(3, 4, 6), array(0, 1, 2)).tolist() == [4, 6]


@pytest.mark.parametrize("bins_of", [bins_of_samples, bins_of_counter, bins_of_gauge])
def test_nothing_is_known_without_values(bins_of: object) -> None:
    assert callable(bins_of)
    for times, values in ((array(), array()), (array(1, 2), array(np.nan, np.nan))):
        assert np.isnan(bins_of(times, values, EDGES)).all()
    assert np.isnan(bins_of_counter(array(1), array(5), EDGES)).all()
