"""Warm-up, trend and peak window of one run, and whether the measured window is a steady state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import t_tail

Array = NDArray[np.float64]

MIN_BINS = 20
MIN_INDEPENDENT = 5.0
ALPHA = 0.001
"""Significance level of one series: 24 runs with two series each have 48 series, and together 5 % false alarms."""
MIN_STANDARD_ERRORS = 5.0
"""With this limit at most 3 % of stationary series have a note, from simulations."""
MIN_CHANGE = 0.05
"""A drift over the window below this share of the mean is not reported, for any p-value."""


@dataclass(frozen=True)
class WarmUp:
    """Advice on the length of the warm-up. `cut_s`: None if no steady state was found. `supported`: the values before
    the cut are shown to differ from those after it."""

    cut_s: float | None
    remark: str
    supported: bool = False


def mser5(values: Sequence[float] | Array, *, bin_s: float = 1.0, group: int = 5) -> WarmUp:
    """Cut of counts per bin by MSER-5 (White, Cobb and Spratt 2000): of all cuts, the one with the smallest
    standard error of the mean of the remaining values, over means of five bins. A cut in the second half of the run
    means that there is no steady state. The method can fail on queueing transients (Wang and Glynn 2016), so its result
    is advice and decides nothing.
    """
    y = np.asarray(values, dtype=np.float64)
    k = y.size // group
    if k < 4:
        return WarmUp(None, f"too short to tell: {y.size} bins, {4 * group} are needed")
    means = y[: k * group].reshape(k, group).mean(axis=1)
    left = np.arange(k, 0, -1)
    total = np.cumsum(means[::-1])[::-1]
    # About the overall mean, so that the difference of squares keeps its digits.
    centred = means - means.mean()
    square = np.cumsum((centred**2)[::-1])[::-1] - np.cumsum(centred[::-1])[::-1] ** 2 / left
    statistic = np.maximum(square, 0.0) / left.astype(np.float64) ** 2
    usable = k - 2  # the last points depend on two or three groups only, and always appear steady
    best = int(np.argmin(statistic[:usable]))
    if best > k // 2:
        return WarmUp(None, "no steady state: the best cut would leave less than half of the run")
    cut = best * group * bin_s
    remark = f"steady from {cut:g} s on (mean {total[best] / left[best] / bin_s:.4g} requests/s)"
    return WarmUp(cut, remark, _has_different_start(y, best * group))


def _has_different_start(y: Array, cut: int) -> bool:
    """Whether the means before and after the cut differ by more than MIN_STANDARD_ERRORS standard errors. The noise is
    that of the part after the cut, which counts as n (1 - r) / (1 + r) independent values; r is its lag-1
    autocorrelation, corrected for bias. The test is needed because MSER-5 selects the cut for this difference: in up to
    half of all stationary series its cut is over 10 % of the series (docs/methods.md)."""
    if cut == 0:
        return False
    before, after = y[:cut], y[cut:]
    d = after - after.mean()
    power, n = float(d @ d), after.size
    if power <= 0:
        return bool(before.mean() != after.mean())
    r = min(0.99, max(0.0, (float(d[1:] @ d[:-1]) / power + 1 / n) / (1 - 4 / n)))
    independent = (1 - r) / (1 + r)
    first, rest = max(1.0, cut * independent), max(1.5, n * independent)
    variance = power / n / max(1 - 1 / rest, 0.2)
    return abs(float(before.mean() - after.mean())) > MIN_STANDARD_ERRORS * math.sqrt(
        variance * (1 / first + 1 / rest)
    )


class TrendVerdict(StrEnum):
    """Whether a series has a trend."""

    STEADY = "steady"
    TRENDS = "trends"
    TOO_SHORT = "too short to tell"
    BY_PLAN = "changes by plan"


@dataclass(frozen=True)
class Trend:
    """Whether a series has a trend. `change`: from start to end of the window, as a share of the mean; `noise`: False
    if the series has none, so that `p_value` was not tested; `metric`: throughput or response time."""

    verdict: TrendVerdict
    change: float | None
    p_value: float | None
    effective_bins: float
    noise: bool = True
    metric: str = ""


CHANGES_BY_PLAN: Final = Trend(TrendVerdict.BY_PLAN, None, None, 0.0)
"""The load changes by plan, so there is no test for a steady state."""


def trend(values: Sequence[float] | Array, *, alpha: float = ALPHA, least: float = MIN_CHANGE) -> Trend:
    """Test of the slope of a time series with autocorrelated noise.

    Least squares, with the standard error and degrees of freedom of `_effective_values` independent values (after
    Santer et al., J. Geophys. Res. 105 (2000) 7337). "trends" needs both p < alpha and a change of at least `least` of
    the mean. With fewer than 20 bins or 5 independent values there is no verdict."""
    y = np.asarray(values, dtype=np.float64)
    if y.size < MIN_BINS:
        return Trend(TrendVerdict.TOO_SHORT, None, None, float(y.size))
    x = np.arange(y.size, dtype=np.float64)
    x -= x.mean()
    mean = float(y.mean())
    slope = float(x @ (y - mean)) / float(x @ x)
    residual = y - mean - slope * x
    power = float(residual @ residual)
    change = slope * y.size / abs(mean) if mean else 0.0
    if power <= 1e-20 * max(float(y @ y), 1e-300):
        moves = abs(change) >= least
        return Trend(_verdict_of(moves), change, 0.0 if moves else 1.0, float(y.size), noise=False)
    effective = _effective_values(residual, power)
    if effective < MIN_INDEPENDENT:
        return Trend(TrendVerdict.TOO_SHORT, change, None, effective)
    se = math.sqrt(power / (effective - 2) / float(x @ x))
    p = 2 * t_tail(abs(slope) / se, effective - 2)
    moves = p < alpha and abs(change) >= least
    return Trend(_verdict_of(moves), change, p, effective)


def _verdict_of(moves: bool) -> TrendVerdict:
    return TrendVerdict.TRENDS if moves else TrendVerdict.STEADY


def _effective_values(residual: Array, power: float) -> float:
    """n ((1 - r) / (1 + r))^1.5 independent values. r: the lag-1 autocorrelation of the residuals of a line, whose
    estimate has the mean r - (2 + 4r) / n, raised by 30 / n of its standard error, at least 0.

    Santer's exponent is 1, which holds if r is known. Of many series, r is underestimated in some, and these cause the
    false alarms. The exponent and the increment are from simulations (docs/methods.md).
    """
    n = residual.size
    r = (float(residual[1:] @ residual[:-1]) / power + 2 / n) / (1 - 4 / n)
    r = min(0.99, max(0.0, r))
    r = min(0.99, r + 30 / n * math.sqrt((1 - r**2) / n))
    return n * math.pow((1 - r) / (1 + r), 1.5)


@dataclass(frozen=True)
class PeakWindow:
    """Start and end in ns. `active` is the run's greatest number of active testers."""

    start: int
    end: int
    active: int


def peak_window(starts: Sequence[int], ends: Sequence[int], *, share: float = 0.95) -> PeakWindow | None:
    """Earliest longest interval with at least `share` of the greatest number of active testers (glossary).

    `starts`, `ends` (>= start): one of each per tester, in ns. None if no tester was active for any time.
    """
    times = np.concatenate([np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)])
    steps = np.concatenate([np.ones(len(starts), dtype=np.int64), -np.ones(len(ends), dtype=np.int64)])
    if times.size == 0:
        return None
    moments, index = np.unique(times, return_inverse=True)
    active = np.cumsum(np.bincount(index.reshape(-1), weights=steps)).astype(np.int64)
    top = int(active.max())
    if top <= 0:
        return None
    high = (active >= share * top).astype(np.int8)
    edges = np.diff(np.concatenate([[0], high, [0]]))
    first, last = np.nonzero(edges == 1)[0], np.nonzero(edges == -1)[0]
    lengths = moments[np.minimum(last, moments.size - 1)] - moments[first]
    best = int(np.argmax(lengths))  # the first of equals
    return PeakWindow(int(moments[first[best]]), int(moments[min(int(last[best]), moments.size - 1)]), top)
