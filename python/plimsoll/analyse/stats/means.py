"""Means of cells with intervals: the run is the unit of replication (Jain 13 and 20.5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval

POOLED = "pooled over the design"
SEPARATE = "separate variances"
SINGLE = "one repetition: no interval"


@dataclass(frozen=True)
class PooledError:
    """Standard deviation of one run about its cell, from all cells that were repeated, and its degrees of freedom."""

    sd: float
    df: float


def pooled_error(groups: Sequence[Sequence[float] | NDArray[np.float64]]) -> PooledError | None:
    """Pools the squares within groups. None if no group has two values."""
    square, df = 0.0, 0
    for group in groups:
        values = np.asarray(group, dtype=np.float64)
        if values.size > 1:
            square += float(np.sum((values - values.mean()) ** 2))
            df += int(values.size) - 1
    return PooledError(math.sqrt(square / df), df) if df > 0 else None


def mean_interval(
    values: Sequence[float] | NDArray[np.float64], pooled: PooledError | None, *, confidence: float = 0.95
) -> Interval | None:
    """t interval of the mean of one cell, with the error and df of `pooled`; without it, with the cell's own (n - 1
    df).

    None if there are no values; low and high are None if there is no error term.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.size == 0:
        return None
    mean = float(y.mean())
    if pooled is not None:
        sd, df, method = pooled.sd, float(pooled.df), POOLED
    elif y.size > 1:
        sd, df, method = float(y.std(ddof=1)), float(y.size - 1), SEPARATE
    else:
        return Interval(mean, None, None, confidence, None, SINGLE)
    half = t_quantile(0.5 + confidence / 2, df) * sd / math.sqrt(y.size)
    return Interval(mean, mean - half, mean + half, confidence, df, method)


def cell_intervals(
    cells: Sequence[Sequence[float] | NDArray[np.float64]],
    *,
    separate: bool = False,
    log: bool = False,
    error: Callable[[Sequence[NDArray[np.float64]]], PooledError | None] = pooled_error,
    confidence: float = 0.95,
) -> list[Interval | None]:
    """Mean and interval of every cell (a sequence of one value per run), in the order given.

    `separate`: each cell by its own variance (for cells whose variances differ). `log`: the error is pooled on the
    logarithms, on which a constant relative error is constant. The interval is then that of the geometric mean, moved
    by the ratio of the two means, so that the mean shown is the arithmetic one. If any value is not above zero, the
    plain scale is used for all cells. `error`: the pooled error of one run, from the cells on the scale used.
    """
    arrays = [np.asarray(c, dtype=np.float64) for c in cells]
    use_log = log and all(a.size == 0 or float(a.min()) > 0 for a in arrays)
    if not use_log:
        pooled = None if separate else error(arrays)
        return [mean_interval(a, pooled, confidence=confidence) for a in arrays]
    logs = [np.log(a) for a in arrays]
    pooled = None if separate else error(logs)
    return [
        _from_log(a, mean_interval(b, pooled, confidence=confidence))
        for a, b in zip(arrays, logs, strict=True)
    ]


def _from_log(values: NDArray[np.float64], interval: Interval | None) -> Interval | None:
    if interval is None:
        return None
    mean = float(values.mean())
    if interval.low is None or interval.high is None:
        return Interval(mean, None, None, interval.level, interval.df, interval.method)
    low, high = (mean * math.exp(edge - interval.mean) for edge in (interval.low, interval.high))
    return Interval(mean, low, high, interval.level, interval.df, interval.method)
