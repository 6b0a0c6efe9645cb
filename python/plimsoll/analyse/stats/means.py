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
COMBINED = "mean of cells"
MAX_HALF_LOG = 300.0
"""Half width of an interval of logarithms beyond which its ends exceed the range of a double: there is no interval."""


@dataclass(frozen=True)
class PooledError:
    """Standard deviation of one run about its cell, from all cells that were repeated, and its degrees of freedom."""

    sd: float
    df: float


@dataclass(frozen=True)
class MeanError:
    """Standard error of a mean of cells, and its degrees of freedom."""

    error: float
    df: float


CommonError = Callable[[NDArray[np.float64], bool], MeanError | None]
"""From the weights of the cells of a mean, and whether the scale is that of logarithms: its error if the cells are not
independent; None if they are."""


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
    if interval.low is None or interval.high is None or interval.high - interval.mean > MAX_HALF_LOG:
        return Interval(mean, None, None, interval.level, interval.df, interval.method)
    low, high = (mean * math.exp(edge - interval.mean) for edge in (interval.low, interval.high))
    return Interval(mean, low, high, interval.level, interval.df, interval.method)


def mean_of_cells(
    intervals: Sequence[Interval],
    *,
    log: bool = False,
    error: CommonError | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The mean of several cells, with equal weights, from the means of the cells with their intervals. `log`: the
    geometric mean; it needs means above 0. There is no interval if a cell has none.

    Intervals that are symmetric on the logarithm (a constant relative error) have the weights mean_i / sum(mean); the
    result is then symmetric on the logarithm, too, so that it does not extend below 0. Independent cells with weights
    w_i and standard errors s_i have the error sqrt(sum (w_i s_i)^2). Its degrees of freedom are those of the error that
    the cells share, else those of Welch and Satterthwaite (Jain 13.4): (sum (w_i s_i)^2)^2 / sum((w_i s_i)^4 / df_i).
    `error` is asked first, as cells measured in the same blocks are not independent.
    """
    if len(intervals) == 1:
        return intervals[0]
    means = np.array([interval.mean for interval in intervals])
    centre = float(np.exp(np.log(means).mean()) if log else means.mean())
    relative = [s for interval in intervals if (s := _relative_error(interval)) is not None]
    absolute = [s for interval in intervals if (s := _standard_error(interval)) is not None]
    is_relative = len(relative) == len(intervals)
    if not is_relative and (log or len(absolute) < len(intervals)):
        return Interval(centre, None, None, confidence, None, COMBINED)
    weights = (means / centre if is_relative and not log else np.ones(means.size)) / means.size
    found = None if error is None else error(weights, is_relative)
    if found is None:
        found = _independent(intervals, weights * np.array(relative if is_relative else absolute))
    half = t_quantile(0.5 + confidence / 2, found.df) * found.error
    low, high = (
        (centre * math.exp(-half), centre * math.exp(half)) if is_relative else (centre - half, centre + half)
    )
    return Interval(centre, low, high, confidence, found.df, COMBINED)


def _independent(intervals: Sequence[Interval], errors: NDArray[np.float64]) -> MeanError:
    """The error of a sum of independent means with these intervals and weighted standard errors."""
    dfs = np.array([interval.df for interval in intervals], dtype=np.float64)
    squares = errors**2
    below = float(np.sum(squares**2 / dfs))
    pooled = all(interval.method == POOLED for interval in intervals)
    df = float(dfs[0]) if pooled or below == 0 else float(squares.sum()) ** 2 / below
    return MeanError(math.sqrt(float(squares.sum())), df)


def _relative_error(interval: Interval) -> float | None:
    """The standard error of the logarithm of a mean, from an interval that is symmetric on the logarithm."""
    low, high, df = interval.low, interval.high, interval.df
    if low is None or high is None or df is None or low <= 0 or not math.isfinite(high):
        return None
    up, down = math.log(high / interval.mean), math.log(interval.mean / low)
    return up / t_quantile(0.5 + interval.level / 2, df) if math.isclose(up, down, rel_tol=1e-6) else None


def _standard_error(interval: Interval) -> float | None:
    """The standard error of a mean, from the half width of its interval."""
    low, high, df = interval.low, interval.high, interval.df
    if low is None or high is None or df is None:
        return None
    return (high - low) / 2 / t_quantile(0.5 + interval.level / 2, df)
