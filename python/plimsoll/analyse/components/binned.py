"""Samples and counters in bins of equal length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_SAMPLE_S = 1.5
"""A monitor's sample covers the time since the sample before it, but at most this: about its interval of one second."""
MAX_GAP_RATIO = 2.5
"""Between two readings that are further apart than this many times their median distance, a counter is unknown."""
MIN_COVERAGE = 0.5
"""Minimum share of a bin that is covered by measurements: else its value is unknown."""


def bins_of_samples(ends: Array, values: Array, edges: Array) -> Array:
    """Mean of a sampled quantity in each bin; NaN where it was not sampled.

    A sample is the mean over the interval that ends at its time (s). `edges`: n + 1 increasing times of n bins.
    """
    known = np.isfinite(values)
    return _means(ends[known] - MAX_SAMPLE_S, ends[known], values[known], edges)


def bins_of_counter(times: Array, values: Array, edges: Array) -> Array:
    """Increase per second of a counter in each bin; NaN where it was not read.

    Between two readings the counter is taken to increase evenly. A counter that decreased was reset: its value is the
    increase since then.
    """
    known = np.isfinite(values)
    t, value = times[known], values[known]
    if t.size < 2:
        return np.full(edges.size - 1, np.nan)
    step, width = np.diff(value), np.diff(t)
    is_near = (width > 0) & (width <= MAX_GAP_RATIO * np.median(width))
    increase = np.where(step < 0, value[1:], step)[is_near]
    return _means(t[:-1][is_near], t[1:][is_near], increase / width[is_near], edges)


def bins_of_gauge(times: Array, values: Array, edges: Array) -> Array:
    """Mean of a gauge in each bin; NaN where it was not read. A gauge has the value of a reading from the reading
    before it on."""
    known = np.isfinite(values)
    t, value = times[known], values[known]
    if t.size < 2:
        return np.full(edges.size - 1, np.nan)
    width = np.diff(t)
    is_near = (width > 0) & (width <= MAX_GAP_RATIO * np.median(width))
    return _means(t[:-1][is_near], t[1:][is_near], value[1:][is_near], edges)


def _means(starts: Array, ends: Array, values: Array, edges: Array) -> Array:
    """Mean in each bin of a quantity that is constant on each interval, weighted by the time that the interval and the
    bin have in common. Intervals are in order of their ends; each is cut at the end of the one before it."""
    count = edges.size - 1
    if not ends.size:
        return np.full(count, np.nan)
    starts = np.maximum(starts, np.concatenate([[-np.inf], ends[:-1]]))
    width = np.maximum(ends - starts, 0.0)
    corners = np.stack([starts, np.maximum(starts, ends)], axis=1).ravel()

    def up_to_edges(increase: Array) -> Array:
        total = np.cumsum(increase)
        return np.interp(edges, corners, np.stack([total - increase, total], axis=1).ravel())

    covered = np.diff(up_to_edges(width))
    amount = np.diff(up_to_edges(width * values))
    out = np.full(count, np.nan)
    is_covered = covered >= MIN_COVERAGE * np.diff(edges)
    out[is_covered] = amount[is_covered] / covered[is_covered]
    return out
