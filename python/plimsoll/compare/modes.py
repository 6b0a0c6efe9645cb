"""Runs with two modes, such as a service that settles on one of two plans or memory layouts: their mean describes
neither.

The criterion is the widest gap between neighbouring values that has at least three runs and a fifth of the runs on each
side. It is a gap between two modes if it exceeds the pooled standard deviation of both groups by a factor of 60 / n, at
least 2, and the margin of the comparison. The factor is from simulation (`tests/stats/test_modes.py`): at most 2 % of
sets of 10 to 60 runs from a normal, uniform, log-normal or exponential distribution have such a gap. Rejected: the dip
test of J. and P. Hartigan (Annals of Statistics 13 (1985) 70), whose power is low for 10 to 20 values, and Sarle's
bimodality coefficient, which skewed values exceed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from plimsoll.compare.estimates import Effect, NoEffect, pair_differences
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Reason, RunValue, Sample, TwoModes

MIN_RUNS: Final = 10
"""With fewer runs, one mode has too few of them."""
_FACTOR: Final = 60
_MIN_FACTOR: Final = 2
_MIN_RUNS_OF_MODE: Final = 3
_MIN_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Modes:
    """The groups on both sides of the gap, as values in increasing order."""

    low: tuple[float, ...]
    high: tuple[float, ...]


def modes_of(values: Sequence[float], least_gap: float = 0.0) -> Modes | None:
    """The two groups if there is a gap of more than `least_gap`; None with fewer than MIN_RUNS values."""
    ordered = sorted(values)
    n = len(ordered)
    if n < MIN_RUNS:
        return None
    least = max(_MIN_RUNS_OF_MODE, math.floor(_MIN_SHARE * n + 1e-9))
    factor = max(_MIN_FACTOR, _FACTOR / n)
    splits = [(ordered[:at], ordered[at:]) for at in range(least, n - least + 1)]
    found = [
        (high[0] - low[-1], low, high)
        for low, high in splits
        if high[0] - low[-1] > max(least_gap, factor * _pooled_deviation(low, high))
    ]
    if not found:
        return None
    _, low, high = max(found)
    return Modes(tuple(low), tuple(high))


def without_modes(found: Effect | NoEffect, sample: Sample, margin: float) -> Effect | NoEffect:
    """The effect, or the reason why it has none. `margin`: on the scale of the comparison. What counts are the values
    whose mean the effect is: the differences of pairs, else the runs of each side."""
    if isinstance(found, Effect) and any(modes_of(values, margin) for _, values in _groups(sample)):
        return NoEffect(Reason.TWO_MODES, found.value)
    return found


def two_modes(samples: Sequence[Sample], margins: Sequence[float]) -> list[TwoModes]:
    """The sides, or the pairs, with two modes. `margins`: of the samples, on their scales."""
    return [
        TwoModes(sample.metric.metric, sample.cell, what, _shown(sample, modes.low), len(modes.low),
                 _shown(sample, modes.high), len(modes.high))
        for sample, margin in zip(samples, margins, strict=True)
        for what, values in _groups(sample)
        if (modes := modes_of(values, margin)) is not None
    ]  # fmt: skip


def _groups(sample: Sample) -> list[tuple[str, list[float]]]:
    """The values whose mean is compared; none if a value has no logarithm."""
    is_ratio = sample.metric.scale is Scale.RATIO
    if is_ratio and any(run.value is not None and run.value <= 0 for run in (*sample.old, *sample.new)):
        return []
    if differences := pair_differences(sample):
        return [("pairs", differences)]
    return [("old", _values(sample, sample.old)), ("new", _values(sample, sample.new))]


def _values(sample: Sample, side: Sequence[RunValue]) -> list[float]:
    """The values of a side on the scale of the comparison."""
    known = [run.value for run in side if run.value is not None]
    return list(map(math.log, known)) if sample.metric.scale is Scale.RATIO else known


def _shown(sample: Sample, values: Sequence[float]) -> float:
    return math.exp(fmean(values)) if sample.metric.scale is Scale.RATIO else fmean(values)


def _pooled_deviation(low: Sequence[float], high: Sequence[float]) -> float:
    means = fmean(low), fmean(high)
    square = math.fsum(
        (value - mean) ** 2 for mean, group in zip(means, (low, high), strict=True) for value in group
    )
    return math.sqrt(square / (len(low) + len(high) - 2))
