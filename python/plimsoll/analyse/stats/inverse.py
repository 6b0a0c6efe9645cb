"""Inverse regression: where a fitted line reaches a level, with Fieller's interval.

E. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954) 175-185; N. Draper, H. Smith, Applied
Regression Analysis, 3rd ed. 1998, 3.2. The interval contains each x at which the confidence band of the line contains
the level. Tested against a search on the band itself and by coverage (tests/stats/test_inverse.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.linear import Array


@dataclass(frozen=True)
class Crossing:
    """The x at which the mean response equals a level."""

    value: float
    low: float
    high: float


def crossing(x: Array, y: Array, level: float, *, confidence: float = 0.95) -> Crossing | None:
    """Where the line through the points (x, y) reaches `level`. None if there are fewer than 3 points, or if the slope
    is not different from 0 at this confidence: then the set of values is not an interval."""
    n = x.size
    around = x - x.mean()
    spread = float(around @ around)
    if n < 3 or spread <= 0:
        return None
    slope = float(around @ y) / spread
    residual = y - y.mean() - slope * around
    variance = float(residual @ residual) / (n - 2)
    t2 = t_quantile(0.5 + confidence / 2, n - 2) ** 2
    quadratic = slope**2 - t2 * variance / spread
    if quadratic <= 0:
        return None
    rise = level - float(y.mean())
    root = math.sqrt(max(0.0, t2 * variance * (quadratic / n + rise**2 / spread)))
    center = float(x.mean())
    ends = ((slope * rise - root) / quadratic, (slope * rise + root) / quadratic)
    return Crossing(center + rise / slope, center + min(ends), center + max(ends))
