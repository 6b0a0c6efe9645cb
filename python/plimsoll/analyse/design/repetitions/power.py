"""Repetitions that an interval of a wanted width is expected to need, the change that they can show, and the power of
a paired comparison.

From the standard deviation s of the logarithm of a run about its cell. An interval that is looked at after each
repetition has the half width t(0.985; n - 1) s / sqrt(n) (`stats/sequential.py`). The difference of two cells of n runs
each, in common blocks, is found with a probability of 80 % in a test at 5 % if it is at least
(t(0.975; df) + t(0.80; df)) s sqrt(2 / n), df = n - 1 (Box, Hunter and Hunter, chapter 3, with t for the normal
quantiles).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from plimsoll.analyse.stats.distributions import noncentral_t_tail, t_quantile
from plimsoll.analyse.stats.means import pooled_error
from plimsoll.analyse.stats.sequential import NOMINAL

POWER: Final = 0.80


@dataclass(frozen=True, slots=True)
class ExpectedRepetitions:
    """`sd`: of the logarithm of a run about its cell, with `df` degrees of freedom; `repetitions`: None if more than
    the maximum are expected; `detectable`: smallest ratio of two cells minus 1 that these repetitions can show."""

    metric: str
    sd: float
    df: float
    repetitions: int | None
    detectable: float


def expected_repetitions(
    metric: str, cells: Sequence[Sequence[float]], wanted: float, at_least: int, at_most: int
) -> ExpectedRepetitions | None:
    """The repetitions after which the half width is at most `wanted` (a share of the estimate). `cells`: the values of
    the earlier runs of each cell. None without two runs of a cell, or if a value is not above 0."""
    if any(value <= 0 for cell in cells for value in cell):
        return None
    error = pooled_error([np.log(cell) for cell in cells if cell])
    if error is None:
        return None
    numbers = range(at_least, at_most + 1)
    found = next((n for n in numbers if half_width(error.sd, n) <= wanted), None)
    return ExpectedRepetitions(
        metric, error.sd, error.df, found, detectable_change(error.sd, at_most if found is None else found)
    )


def half_width(sd: float, repetitions: int) -> float:
    """Upper half width, as a share of the estimate, of a cell that is repeated until it is tight."""
    return math.expm1(t_quantile(0.5 + NOMINAL / 2, repetitions - 1) * sd / math.sqrt(repetitions))


def detectable_change(sd: float, repetitions: int) -> float:
    """Smallest ratio of two cells minus 1 that is found with a probability of 80 %."""
    df = repetitions - 1
    return math.expm1((t_quantile(0.975, df) + t_quantile(POWER, df)) * sd * math.sqrt(2 / repetitions))


@dataclass(frozen=True, slots=True)
class PairPower:
    """`sd`: of the logarithm of new / old in a pair, with `df` degrees of freedom; `change`: the smallest ratio minus 1
    that `pairs` pairs show with a probability of 80 %."""

    metric: str
    sd: float
    df: float
    pairs: int
    change: float


def power_of_pairs(sd: float, pairs: int, change: float, margin: float, comparisons: int) -> float:
    """Probability that the true ratio 1 + `change` of one metric is found to be beyond the margin, if nothing else
    differs: the interval at Holm's first level, 1 - 0.05 / `comparisons`, lies above 1 + `margin`. The t statistic of
    the pairs is noncentral (Montgomery, Design and Analysis of Experiments, chapter 2.4)."""
    if sd == 0:
        return float(change > margin)
    critical = t_quantile(1 - 0.025 / comparisons, pairs - 1)
    beyond = math.log1p(change) - math.log1p(margin)
    return noncentral_t_tail(critical, pairs - 1, beyond * math.sqrt(pairs) / sd)


def change_shown_by_pairs(sd: float, pairs: int, margin: float, comparisons: int) -> float:
    """The smallest change that is found with a probability of 80 %; at most e^20 - 1."""
    low, high = math.log1p(margin), 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        is_found = power_of_pairs(sd, pairs, math.expm1(middle), margin, comparisons) >= POWER
        low, high = (low, middle) if is_found else (middle, high)
    return math.expm1(high)
