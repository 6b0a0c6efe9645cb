"""The noise of a history about its levels: its standard deviation and its correlation.

The residuals of all levels are pooled, so that a level of a few values has an interval. They are taken as
autoregressive of order 1, because what disturbs one day of a host often disturbs the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import t_quantile

MAX_LAG1: Final = 0.95
_MIN_FACTOR: Final = 0.25
"""Limit of the correction of the correlation for histories with few values per level."""
_ROUNDING: Final = 1e-12
"""Share of the values below which residuals are rounding errors."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noise:
    """`deviation`: standard deviation of a value about its level; `lag1`: correlation of successive values, 0 to 0.95;
    `df`: degrees of freedom of the deviation, at least 1."""

    deviation: float
    lag1: float
    df: float

    def variance_of_mean(self, n: int) -> float:
        """The variance of the mean of `n` successive values."""
        return self.deviation**2 * _dependence(n, self.lag1) / n

    def half_width(self, variance: float, level: float) -> float:
        """Half of the two-sided t interval of an estimate with this variance."""
        return t_quantile(0.5 + level / 2, self.df) * math.sqrt(variance) if variance else 0.0


def noise_of(levels: Sequence[Array]) -> Noise | None:
    """The noise about the means of these levels. None if no level has two values.

    The lag-1 correlation r of k levels with n values together is corrected for its bias, -(1 + 3r)/n for one level (M.
    Kendall, Biometrika 41 (1954) 403). The variance is corrected for the correlation of the values of a level, and has
    the degrees of freedom of a sum of squares of correlated values (G. Bayley and J. Hammersley, J. Roy. Statist. Soc.
    Suppl. 8 (1946) 184), (n - k)(1 - r^2)/(1 + r^2).
    """
    residuals = [level - level.mean() for level in levels if level.size]
    n, k = sum(part.size for part in residuals), len(residuals)
    if n <= k:
        return None
    square = math.fsum(float(part @ part) for part in residuals)
    if square <= n * (_ROUNDING * max(float(np.abs(level).max()) for level in levels if level.size)) ** 2:
        return Noise(0.0, 0.0, float(n - k))
    lag1 = math.fsum(float(part[1:] @ part[:-1]) for part in residuals) / square
    lag1 = min(MAX_LAG1, max(0.0, (lag1 + k / n) / max(_MIN_FACTOR, 1 - 3 * k / n)))
    independent = n - math.fsum(_dependence(part.size, lag1) for part in residuals)
    df = max(1.0, (n - k) * (1 - lag1**2) / (1 + lag1**2))
    return Noise(math.sqrt(square / independent), lag1, df)


def _dependence(n: int, lag1: float) -> float:
    """n times the variance of the mean of `n` successive values of variance 1: 1 if they are independent."""
    lags = np.arange(1, n)
    return 1.0 + 2.0 * float(((1 - lags / n) * lag1**lags).sum())
