"""Tests of a few groups or a straight line by their sums of squares.

They are short, and `scipy.stats`, which has them too, adds a second of processor time to every command that imports it.
`tests/stats/test_anova.py` compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import f_tail, t_tail

Array = NDArray[np.float64]


def equal_means_p(groups: Sequence[Array]) -> float:
    """p-value of the F test of equal means (one-way analysis of variance; Jain 20.5), 0..1. `groups`: two or more
    arrays of at least one value. NaN if no group has two values, or if all values are equal."""
    sizes = np.array([group.size for group in groups])
    values = np.concatenate(groups)
    means = np.array([group.mean() for group in groups])
    df, error_df = len(groups) - 1, values.size - len(groups)
    between = float(np.sum(sizes * (means - values.mean()) ** 2))
    within = float(np.sum((values - np.repeat(means, sizes)) ** 2))
    if error_df < 1 or between == within == 0.0:
        return math.nan
    return f_tail(between / df / (within / error_df), df, error_df) if within else 0.0


def equal_spreads_p(groups: Sequence[Array]) -> float:
    """p-value of Levene's test of equal variances with deviations from the median, 0..1; as `equal_means_p`.

    Source: M. B. Brown and A. B. Forsythe (1974), Robust tests for the equality of variances, JASA 69, 364-367,
    doi:10.1080/01621459.1974.10482955.
    """
    return equal_means_p([np.abs(group - np.median(group)) for group in groups])


def slope_and_p(y: Array) -> tuple[float, float]:
    """Slope of the least-squares line through equally spaced values (per step), and the two-sided p-value of slope 0.
    `y`: three or more values. The p-value of values on a line is 0."""
    x = np.arange(y.size) - (y.size - 1) / 2
    spread = float(x @ x)
    slope = float(x @ y) / spread
    rest = y - y.mean() - slope * x
    error = math.sqrt(float(rest @ rest) / (y.size - 2) / spread)
    return slope, 2.0 * t_tail(abs(slope) / error, y.size - 2) if error else 0.0
