"""Levels and changes of each metric over the directories of a history.

Changes are those of E-divisive with a test that allows for correlated values (`analyse.stats.change_points`), on
logarithms for ratios. A marked change ends a level without a test; Conbench's lookback z-score has the same idea: the
mean is estimated again, the noise is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from plimsoll.analyse.stats.change_points import MIN_SEGMENT, Change, change_points
from plimsoll.compare.history.model import LatestPoint, Level, MetricHistory, Series, Step
from plimsoll.compare.history.noise import Array, Noise, noise_of
from plimsoll.compare.metrics import DEFAULT_MARGIN, Better, ComparedMetric, Scale
from plimsoll.compare.model import Limits, Verdict

TEST_LEVEL: Final = 0.02
"""Of all tests of a history together. docs/methods.md has the simulated rate of histories with a false change."""
INTERVAL_LEVEL: Final = 0.95
LATEST_LEVEL: Final = 0.99


def histories(
    series: Iterable[Series], marked: Iterable[int] = (), margin: float = DEFAULT_MARGIN
) -> tuple[MetricHistory, ...]:
    """The history of each series that has a value. `marked`: positions of the directories with which new levels
    begin; `margin`: the smallest change of a ratio that matters."""
    scaled = [(one, y) for one in series if np.isfinite(y := _scaled(one)).any()]
    starts = sorted({0, *marked})
    limits = [_limit(one.metric, margin) for one, _ in scaled]
    found = _changes([y for _, y in scaled], limits, starts)
    return tuple(
        _history(one, y, starts, margin, limit, p_values)
        for (one, y), limit, p_values in zip(scaled, limits, found, strict=True)
    )


def _changes(rows: Sequence[Array], limits: Sequence[float], starts: Sequence[int]) -> list[dict[int, float]]:
    """The p of each change that is at least the limit, by its position; one mapping per row.

    The parts of all rows between marks are tested together: the level of a test is TEST_LEVEL k / m, m being the number
    of tests and k that of tests with a change at this level (Y. Benjamini and Y. Hochberg, J. R. Statist. Soc. B 57
    (1995) 289). It decreases from k = m until it fits.
    """
    tests = [
        _Test(row, first, y[first:stop], limit)
        for row, (y, limit) in enumerate(zip(rows, limits, strict=True))
        for first, stop in pairwise([*starts, y.size])
        if _finite(y[first:stop]).size >= 2 * MIN_SEGMENT
    ]
    changed, level = [(test, test.changes(TEST_LEVEL)) for test in tests], TEST_LEVEL
    while (found := sum(bool(changes) for _, changes in changed)) < len(changed):
        level = TEST_LEVEL * found / len(tests)
        changed = [(test, test.changes(level)) for test, changes in changed if changes]
    out: list[dict[int, float]] = [{} for _ in rows]
    for test, changes in changed:
        out[test.row] |= {test.first + change.index: change.p for change in changes}
    return out


@dataclass(frozen=True, slots=True)
class _Test:
    """The values of a row between two marks; `first`: position of the first one."""

    row: int
    first: int
    values: Array
    limit: float

    def changes(self, level: float) -> list[Change]:
        return change_points(self.values, level=level, min_change=self.limit, is_relative=False)


def _history(
    series: Series,
    y: Array,
    starts: Sequence[int],
    margin: float,
    limit: float,
    p_values: Mapping[int, float],
) -> MetricHistory:
    metric = series.metric
    borders = pairwise([*sorted({*starts, *p_values}), y.size])
    parts = [
        _Part(first, stop - 1, known) for first, stop in borders if (known := _finite(y[first:stop])).size
    ]
    noise = noise_of([part.values for part in parts])
    return MetricHistory(
        metric=metric.metric,
        cell=series.cell,
        better=metric.better,
        scale=metric.scale,
        margin=margin if metric.margin is None else metric.margin,
        values=series.values,
        levels=tuple(_level(metric, part, noise) for part in parts),
        steps=tuple(
            _step(metric, before, after, p_values[after.first], noise)
            for before, after in pairwise(parts)
            if after.first in p_values
        ),
        latest=_latest(metric, parts, limit, int(np.flatnonzero(np.isfinite(y))[-1])),
        lag1=None if noise is None else noise.lag1,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """The values of a level on the scale of the changes; `first`, `last`: positions of its directories."""

    first: int
    last: int
    values: Array

    @property
    def mean(self) -> float:
        return float(self.values.mean())


def _scaled(series: Series) -> Array:
    """The values on the scale of the changes; nan: unknown, or without a logarithm."""
    values = np.array([math.nan if value is None else value for value in series.values])
    if series.metric.scale is Scale.DIFFERENCE:
        return values
    return np.log(np.where(values > 0, values, math.nan))


def _finite(y: Array) -> Array:
    kept: Array = y[np.isfinite(y)]
    return kept


def _limit(metric: ComparedMetric, margin: float) -> float:
    """The margin on the scale of the changes."""
    margin = margin if metric.margin is None else metric.margin
    return math.log1p(margin) if metric.scale is Scale.RATIO else margin


def _shown(metric: ComparedMetric, value: float) -> float:
    return math.exp(value) if metric.scale is Scale.RATIO else value


def _limits(metric: ComparedMetric, value: float, half: float, level: float) -> Limits:
    return Limits(level, _shown(metric, value - half), _shown(metric, value + half))


def _level(metric: ComparedMetric, part: _Part, noise: Noise | None) -> Level:
    interval = None
    if noise is not None:
        half = noise.half_width(noise.variance_of_mean(part.values.size), INTERVAL_LEVEL)
        interval = _limits(metric, part.mean, half, INTERVAL_LEVEL)
    return Level(part.first, part.last, part.values.size, _shown(metric, part.mean), interval)


def _step(metric: ComparedMetric, before: _Part, after: _Part, p: float, noise: Noise | None) -> Step:
    size, interval = after.mean - before.mean, None
    if noise is not None:
        variance = math.fsum(noise.variance_of_mean(part.values.size) for part in (before, after))
        interval = _limits(metric, size, noise.half_width(variance, INTERVAL_LEVEL), INTERVAL_LEVEL)
    is_better = (size > 0) == (metric.better is Better.HIGHER)
    verdict = Verdict.FASTER if is_better else Verdict.SLOWER
    return Step(after.first, _shown(metric, size), interval, p, verdict)


def _latest(metric: ComparedMetric, parts: Sequence[_Part], limit: float, position: int) -> LatestPoint:
    """The newest value against the level of the values before it, which it must not widen."""
    value, others = float(parts[-1].values[-1]), parts[-1].values[:-1]
    noise = noise_of([*(part.values for part in parts[:-1]), others])
    if noise is None or not others.size:
        return LatestPoint(position, _shown(metric, value), None, is_outside=False)
    mean = float(others.mean())
    half = noise.half_width(noise.deviation**2 + noise.variance_of_mean(others.size), LATEST_LEVEL)
    return LatestPoint(
        position,
        _shown(metric, value),
        _limits(metric, mean, half, LATEST_LEVEL),
        is_outside=abs(value - mean) > max(half, limit),
    )
