"""Change points of a time series: where its distribution changes, without assumptions about its shape (E-divisive).

The split is that of Matteson and James. Its test is another one, because their permutations assume independent values:
values of neighbouring seconds are correlated. Permutations of blocks of 10 values need long series: the blocks of one
side can be exchanged without a change of the statistic, so that p of a step in the middle of 40 values is at least .03.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Int = NDArray[np.int64]

LEVEL: Final = 0.01
"""Of each split. The simulated rate of false splits is in docs/methods.md."""
MIN_SEGMENT: Final = 3
"""Minimum number of values on each side of a change; a caller may set 2 or more."""
MAX_VALUES: Final = 600
"""Longer series are averaged in groups of neighbours: time and memory increase with the square of the length."""
MIN_SERIES: Final = 199
"""Minimum number of simulated series of a test; more if `level` needs them."""
MAX_CORRELATION: Final = 0.95
_BURN_IN: Final = 60
"""Values before each simulated series: at the maximum correlation, 5 % of its first value remain."""
_FIRST_BATCH: Final = 8
_MAX_BATCH: Final = 400_000
"""Maximum number of distances of the simulated series that are compared at a time: 3 MB a matrix."""


@dataclass(frozen=True, slots=True)
class Change:
    """`index`: of the first value after the change; `before`, `after`: means from the previous change to the next;
    `p`: of the test of the split, above 0."""

    index: int
    before: float
    after: float
    p: float

    @property
    def ratio(self) -> float:
        """after / before - 1; infinite if `before` is 0."""
        return self.after / self.before - 1.0 if self.before else math.inf


@dataclass(frozen=True, slots=True)
class Split:
    """The best split of a series. `index`: of the first value to the right; `end`: of the first value after the right
    part; `statistic`: Q of Matteson and James, in the unit of the series."""

    index: int
    end: int
    statistic: float


def best_split(values: Array, min_segment: int = MIN_SEGMENT) -> Split | None:
    """The split with the largest energy statistic Q over all splits and all ends of the right part. None if the series
    is shorter than two segments. Values must be finite.

    Source: D. S. Matteson and N. A. James (2014), A nonparametric approach for multiple change point analysis of
    multivariate data, JASA 109, 334-345, doi:10.1080/01621459.2013.849605; exponent 1. Time and memory: O(n^2).
    """
    y = np.asarray(values, dtype=np.float64)
    if y.size < 2 * min_segment:
        return None
    index, end, statistic = _best_splits(y[None, :], min_segment)
    return Split(int(index[0]), int(end[0]), float(statistic[0]))


def change_points(
    values: Array | Sequence[float],
    *,
    level: float = LEVEL,
    min_segment: int = MIN_SEGMENT,
    min_change: float = 0.05,
    is_relative: bool = True,
    max_values: int = MAX_VALUES,
    seed: int = 1,
) -> list[Change]:
    """Changes of a series of equally spaced values, in order of time. Values that are not finite are left out.

    A split is significant if its p is at most `level` (0..1). Each side of a significant split is then split again.
    Splits whose means differ by less than `min_change` of the mean before are not changes: 0.05 for 5 %. If
    `is_relative` is false, `min_change` is a difference in the unit of the values. The result depends on values and
    `seed` only. For the test, a series longer than `max_values` is averaged in groups of neighbours.
    """
    y = np.asarray(values, dtype=np.float64)
    positions = np.nonzero(np.isfinite(y))[0]
    y = y[positions]
    group = max(1, math.ceil(y.size / max_values))
    grouped = y[: y.size // group * group].reshape(-1, group).mean(axis=1) if group > 1 else y
    splits = _significant_splits(grouped, level, min_segment, np.random.default_rng(seed))
    if group > 1:
        splits = _refined(y, splits, group)
    return [
        Change(int(positions[index]), before, after, splits[index])
        for index, before, after in _large_changes(y, sorted(splits), min_change, is_relative)
    ]


def _significant_splits(
    y: Array, level: float, min_segment: int, random: np.random.Generator
) -> dict[int, float]:
    """The p of each significant split, by its index."""
    splits: dict[int, float] = {}
    pending = [(0, y.size)]
    while pending:
        start, stop = pending.pop()
        split = best_split(y[start:stop], min_segment)
        if split is None:
            continue
        p = p_value(y[start:stop], split, level=level, min_segment=min_segment, random=random)
        if p > level:
            continue
        index = start + split.index
        splits[index] = p
        pending += [(start, index), (index, stop)]
    return splits


def _refined(y: Array, splits: dict[int, float], group: int) -> dict[int, float]:
    """The splits between groups, moved to the value within one group that fits the means of both sides best."""
    edges = [0, *(index * group for index in sorted(splits)), y.size]
    refined = {}
    for before, at, after in zip(edges, edges[1:], edges[2:], strict=False):
        left, right = float(y[before : at - group].mean()), float(y[at + group : after].mean())
        near = y[at - group : at + group]
        gain = np.concatenate([[0.0], np.cumsum(np.abs(near - right) - np.abs(near - left))])
        refined[at - group + int(gain.argmax())] = splits[at // group]
    return refined


def p_value(y: Array, split: Split, *, level: float, min_segment: int, random: np.random.Generator) -> float:
    """p of the best split of a series: the share of series without a change whose Q / mean absolute residual is as
    large, (count + 1) / (number + 1).

    The series without a change are autoregressive of order 1. Their correlation is that of the residuals about the
    split, and their innovations are drawn from those of the residuals. The simulation ends as soon as p is known to be
    above `level`: p is then a lower bound.
    """
    residuals, parts = _residuals(y, split, min_segment)
    scale = float(np.abs(residuals).mean())
    # Not ceil(1 / level) - 1: after rounding, the smallest p could then be above the level.
    number = max(MIN_SERIES, math.floor(1.0 / level))
    if split.statistic <= 0.0 or scale <= 1e-12 * float(np.abs(y).max()):
        return 1.0 / (number + 1) if split.statistic > 1e-9 * float(np.abs(y).max()) else 1.0
    correlation = _correlation(residuals, parts)
    innovations = _innovations(residuals, parts, correlation)
    largest = math.floor(level * (number + 1)) - 1
    larger, simulated, batch = 0, 0, _FIRST_BATCH
    while simulated < number and larger <= largest:
        batch = min(batch, number - simulated, max(1, _MAX_BATCH // y.size**2))
        series = _autoregressive(innovations, correlation, (batch, y.size), random)
        index, end, statistic = _best_splits(series, min_segment)
        scales = _mean_absolute_residuals(series, index, end, min_segment)
        larger += int(np.count_nonzero(statistic * scale >= split.statistic * scales))
        simulated += batch
        batch *= 2
    return (larger + 1) / (number + 1)


def _best_splits(series: Array, min_segment: int) -> tuple[Int, Int, Array]:
    """Index, end and Q of the best split of each row of `series` (number of series x n values)."""
    count, n = series.shape
    between_factor, left_factor, right_factor, excluded = _factors(n, min_segment)
    # area[k, i - 1, j - 1]: sum of the distances of the first i values to the first j values.
    area = np.abs(series[:, :, None] - series[:, None, :])
    np.cumsum(area, axis=1, out=area)
    np.cumsum(area, axis=2, out=area)
    own = np.diagonal(area, axis1=1, axis2=2).copy()
    # Q = 2 B / (l + r) - 2 r WL / ((l + r)(l - 1)) - 2 l WR / ((l + r)(r - 1)) in terms of the areas; B: sum of the
    # distances between both sides, WL, WR: within each side, of l and r values.
    rows = slice(min_segment - 1, n - min_segment)
    q = area[:, rows, :]
    q *= between_factor
    term = np.empty_like(q)
    q -= np.multiply(own[:, rows, None], left_factor, out=term)
    q -= np.multiply(own[:, None, :], right_factor, out=term)
    q += excluded
    flat = q.reshape(count, -1)
    best = flat.argmax(axis=1)
    row, column = np.divmod(best, n)
    return row + min_segment, column + 1, flat[np.arange(count), best]


@lru_cache(maxsize=8)
def _factors(n: int, min_segment: int) -> tuple[Array, Array, Array, Array]:
    """Factors of the areas in Q, for each number of values to the left (rows, from `min_segment`) and each end
    (columns, from 1), and minus infinity for each pair with fewer than `min_segment` values to the right."""
    left = np.arange(min_segment, n - min_segment + 1, dtype=np.float64)[:, None]
    right = np.arange(1, n + 1, dtype=np.float64)[None, :] - left
    allowed = right >= min_segment
    right = np.where(allowed, right, float(min_segment))
    total = left + right
    within_left = right / (total * (left - 1.0))
    within_right = left / (total * (right - 1.0))
    return (
        2.0 / total + 2.0 * within_right,
        2.0 / total + within_left + within_right,
        within_right,
        np.where(allowed, 0.0, -np.inf),
    )


def _edges(n: int, index: int, end: int, min_segment: int) -> tuple[int, ...]:
    """Limits of the parts of a split series. A rest after the right part is a part of its own, as it may differ."""
    return (0, index, end, n) if n - end >= min_segment else (0, index, n)


def _residuals(y: Array, split: Split, min_segment: int) -> tuple[Array, tuple[int, ...]]:
    edges = _edges(y.size, split.index, split.end, min_segment)
    means = [y[first:last].mean() for first, last in itertools.pairwise(edges)]
    return y - np.repeat(means, np.diff(edges)), edges


def _mean_absolute_residuals(series: Array, index: Int, end: Int, min_segment: int) -> Array:
    """Mean absolute residual of each row about the means of its parts."""
    return np.array(
        [
            np.abs(_residuals(row, Split(int(first), int(last), 0.0), min_segment)[0]).mean()
            for row, first, last in zip(series, index, end, strict=True)
        ]
    )


def _correlation(residuals: Array, edges: tuple[int, ...]) -> float:
    """Lag-1 correlation within the parts, corrected for its bias and raised by its standard error.

    The parts are chosen to fit the series. For n = 30 to 240 and a correlation r of 0 to 0.9, the simulated mean of the
    estimate is r - (1.7 ln n - 1 + 11.5 r) / n within 0.03. An estimate that is too low causes false changes.
    """
    pairs = (residuals[1:] * residuals[:-1])[_within(residuals.size, edges)]
    n = residuals.size
    factor = n / max(1.0, n - 11.5)
    estimate = (float(pairs.sum() / (residuals**2).sum()) + (1.7 * math.log(n) - 1.0) / n) * factor
    estimate = min(MAX_CORRELATION, max(0.0, estimate))
    return min(MAX_CORRELATION, estimate + factor * math.sqrt((1.0 - estimate**2) / n))


def _within(n: int, edges: tuple[int, ...]) -> NDArray[np.bool_]:
    """Pairs of neighbours that are in the same part, by their first value."""
    within = np.ones(n - 1, dtype=np.bool_)
    within[np.array(edges[1:-1], dtype=np.int64) - 1] = False
    return within


def _innovations(residuals: Array, edges: tuple[int, ...], correlation: float) -> Array:
    innovations = (residuals[1:] - correlation * residuals[:-1])[_within(residuals.size, edges)]
    centred: Array = innovations - innovations.mean()
    return centred


def _autoregressive(
    innovations: Array, correlation: float, shape: tuple[int, int], random: np.random.Generator
) -> Array:
    """Series of values x(t) = correlation x(t-1) + an innovation; shape: number of series, number of values."""
    count, n = shape
    drawn = innovations[random.integers(innovations.size, size=(n + _BURN_IN, count))]
    for at in range(1, n + _BURN_IN):
        drawn[at] += correlation * drawn[at - 1]
    return np.ascontiguousarray(drawn[_BURN_IN:].T)


def _large_changes(
    y: Array, at: list[int], min_change: float, is_relative: bool
) -> list[tuple[int, float, float]]:
    """Index, mean before and mean after each change. The smallest change below `min_change` is removed until none is
    below it, so that the means are those between the changes that remain."""
    while at:
        edges = [0, *at, y.size]
        means = [float(y[first:last].mean()) for first, last in itertools.pairwise(edges)]
        sizes = [_size(before, after, is_relative) for before, after in itertools.pairwise(means)]
        if min(sizes) >= min_change:
            return list(zip(at, means, means[1:], strict=False))
        at = [index for position, index in enumerate(at) if position != int(np.argmin(sizes))]
    return []


def _size(before: float, after: float, is_relative: bool) -> float:
    if not is_relative:
        return abs(after - before)
    return abs(after / before - 1.0) if before else math.inf
