"""Intervals of cells that are repeated until the interval is narrow enough.

A look after each repetition is a chance to stop at a variance that is too small by accident. If the width alone decides
when to stop, the t interval at a nominal level of .970 contains the mean in at least 95 % of the cells, with looks from
the 5th to the 40th repetition (simulation: tests/stats/test_until_tight.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import cell_intervals

NOMINAL: Final = 0.970
LEVEL: Final = 0.95
METHOD: Final = "separate variances, repeated until tight"


def sequential_intervals(
    cells: Sequence[Sequence[float] | NDArray[np.float64]], *, log: bool = False
) -> list[Interval | None]:
    """Mean and interval of each cell by its own variance (a sequence of one value per run), in the order given. `log`:
    the interval is symmetric on the logarithm, if all values are above zero."""
    found = cell_intervals(cells, separate=True, log=log, confidence=NOMINAL)
    return [
        None
        if interval is None
        else replace(interval, level=LEVEL, method=METHOD if interval.df else interval.method)
        for interval in found
    ]


def relative_half_width(interval: Interval | None) -> float | None:
    """The greater distance between the mean and an end of its interval, as a share of the mean; None without interval,
    infinite if the mean is 0 and the interval is not."""
    if interval is None or interval.low is None or interval.high is None:
        return None
    half = max(interval.high - interval.mean, interval.mean - interval.low)
    if half == 0:
        return 0.0
    return math.inf if interval.mean == 0 else half / abs(interval.mean)
