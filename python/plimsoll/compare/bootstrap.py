"""Intervals of percentiles from many runs: the studentized bootstrap over runs.

The percentile of a run has a skewed distribution, so t on its logarithms is only approximate. From 20 runs a side (or
20 pairs) on, the distribution of t is that of resamples instead: A. Davison, D. Hinkley, Bootstrap Methods and their
Application (1997), section 5.2.1. Only whole runs are resampled: in hierarchical data the upper level alone reproduces
the variance of the mean (section 3.8), because the scatter within a run is part of that between runs. With fewer runs,
resamples cover too seldom.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.compare.estimates import Effect, NoEffect, pair_differences
from plimsoll.compare.model import Method, RunValue, Sample

MIN_RUNS: Final = 20
RESAMPLES: Final = 19_999
"""Enough for the level of Holm's correction over 500 comparisons."""
_SEED: Final = 20
"""The same runs have the same interval."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BootstrapEffect(Effect):
    """An effect whose t has the distribution of `pivots`, in increasing order, in place of Student's."""

    pivots: tuple[float, ...] = ()

    def ends(self, level: float) -> tuple[float, float]:
        """The two-sided interval: value - quantile of t * error."""
        n = len(self.pivots)
        outside = max(1, math.floor((n + 1) * (1 - level) / 2))
        low, high = self.pivots[outside - 1], self.pivots[n - outside]
        return self.value - high * self.error, self.value - low * self.error

    def p_beyond(self, margin: float) -> float:
        """As that of Effect; at least 2 / (resamples + 1)."""
        if abs(self.value) <= margin:
            return 1.0
        if self.value > 0:
            reached = len(self.pivots) - bisect_left(self.pivots, (self.value - margin) / self.error)
        else:
            reached = bisect_right(self.pivots, (self.value + margin) / self.error)
        return min(1.0, 2 * (reached + 1) / (len(self.pivots) + 1))


def resampled(found: Effect | NoEffect, sample: Sample) -> Effect | NoEffect:
    """The effect of a percentile with the bootstrap's distribution, if there are enough runs that are not all equal."""
    if not isinstance(found, Effect) or not sample.metric.is_percentile or not found.error:
        return found
    differences = pair_differences(sample)
    groups = [differences] if differences else [_logarithms(sample.old), _logarithms(sample.new)]
    if min(map(len, groups)) < MIN_RUNS:
        return found
    pivots = _pivots(groups, found.value)
    return replace(
        BootstrapEffect(found.value, found.error, found.df, Method.BOOTSTRAP, found.pairs), pivots=pivots
    )


def _pivots(groups: Sequence[Sequence[float]], value: float) -> tuple[float, ...]:
    """t of each resample about the effect: of the mean of one group, or of the second minus the first."""
    rng = np.random.default_rng(_SEED)
    mean, square = np.zeros(RESAMPLES), np.zeros(RESAMPLES)
    for sign, group in zip((1.0,) if len(groups) == 1 else (-1.0, 1.0), groups, strict=True):
        drawn = np.array(group)[rng.integers(0, len(group), (RESAMPLES, len(group)))]
        mean += sign * drawn.mean(axis=1)
        square += drawn.var(axis=1, ddof=1) / len(group)
    # A resample of one value, repeated, has no t; twenty runs that are not equal have practically none.
    usable = square > 0
    return tuple(np.sort((mean[usable] - value) / np.sqrt(square[usable])).tolist())


def _logarithms(side: Sequence[RunValue]) -> list[float]:
    return [math.log(run.value) for run in side if run.value is not None]
