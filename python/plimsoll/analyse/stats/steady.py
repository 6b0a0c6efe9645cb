"""Warm-up, trend and peak window of one run: is what was measured a steady state?"""

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

FEWEST_BINS = 20
FEWEST_INDEPENDENT = 5.0
ALPHA = 0.001
"""Of one series: 24 runs with two series each have 48, and 5 % false alarms together."""
DIFFERS = 5.0
"""Standard errors: at most 3 % of stationary series have a note then, from simulations."""
MIN_CHANGE = 0.05
"""A drift below this share of the mean over the whole window is no drift, however certain."""


@dataclass(frozen=True)
class WarmUp:
    """Advice on the length of the warm-up. `cut` in the unit of `bin_s`; None where no steady state was found.
    `supported`: what is before the cut is shown to differ from what is after it."""

    cut_s: float | None
    remark: str
    supported: bool = False


def mser5(values: Sequence[float] | Array, *, bin_s: float = 1.0, group: int = 5) -> WarmUp:
    """Cut of counts per bin by MSER-5 (White, Cobb and Spratt 2000): of all cuts, the one with the smallest
    standard error of the mean of what is left, over means of five bins. A cut in the second half of the run means that
    there is no steady state. It can fail on queueing transients (Wang and Glynn 2016), so it advises, and decides
    nothing.
    """
    y = np.asarray(values, dtype=np.float64)
    k = y.size // group
    if k < 4:
        return WarmUp(None, f"too short to tell: {y.size} bins, {4 * group} are needed")
    means = y[: k * group].reshape(k, group).mean(axis=1)
    left = np.arange(k, 0, -1)
    total = np.cumsum(means[::-1])[::-1]
    # about the overall mean, so that the difference of squares keeps its digits
    centred = means - means.mean()
    square = np.cumsum((centred**2)[::-1])[::-1] - np.cumsum(centred[::-1])[::-1] ** 2 / left
    statistic = np.maximum(square, 0.0) / left.astype(np.float64) ** 2
    usable = k - 2  # the last points are decided by two or three groups, and always look steady
    best = int(np.argmin(statistic[:usable]))
    if best > k // 2:
        return WarmUp(None, "no steady state: the best cut would leave less than half of the run")
    cut = best * group * bin_s
    remark = f"steady from {cut:g} s on (mean {total[best] / left[best] / bin_s:.4g} requests/s)"
    return WarmUp(cut, remark, _differs(y, best * group))


def _differs(y: Array, cut: int) -> bool:
    """Whether the mean before the cut is over DIFFERS standard errors from that after it. The noise is that of the part
    after it, and counts as n (1 - r) / (1 + r) independent values, r being its lag-1 autocorrelation corrected for its
    bias. Of the cuts of stationary series, which MSER-5 chose for their difference, some are over 10 % of the series in
    up to half of them (docs/methods.md)."""
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
    return abs(float(before.mean() - after.mean())) > DIFFERS * math.sqrt(variance * (1 / first + 1 / rest))


class TrendVerdict(StrEnum):
    """Whether a series still moves."""

    STEADY = "steady"
    TRENDS = "trends"
    TOO_SHORT = "too short to tell"
    BY_PLAN = "changes by plan"


@dataclass(frozen=True)
class Trend:
    """Whether a series still moves. `change` is that from start to end of the window as a share of its mean; `noise`:
    False where the series has none, so that `p_value` was not tested; `metric`: throughput or response time."""

    verdict: TrendVerdict
    change: float | None
    p_value: float | None
    effective_bins: float
    noise: bool = True
    metric: str = ""


CHANGES_BY_PLAN: Final = Trend(TrendVerdict.BY_PLAN, None, None, 0.0)
"""The load changes by plan: a steady state is not looked for."""


def trend(values: Sequence[float] | Array, *, alpha: float = ALPHA, least: float = MIN_CHANGE) -> Trend:
    """Test of the slope of a time series with autocorrelated noise.

    Least squares, with the standard error and degrees of freedom of `_effective` independent values (after Santer et
    al., J. Geophys. Res. 105 (2000) 7337). "trends" needs both p < alpha and a change of at least `least` of the mean.
    Below 20 bins or 5 independent ones there is no verdict.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.size < FEWEST_BINS:
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
        return Trend(_moving(moves), change, 0.0 if moves else 1.0, float(y.size), noise=False)
    effective = _effective(residual, power)
    if effective < FEWEST_INDEPENDENT:
        return Trend(TrendVerdict.TOO_SHORT, change, None, effective)
    se = math.sqrt(power / (effective - 2) / float(x @ x))
    p = 2 * t_tail(abs(slope) / se, effective - 2)
    moves = p < alpha and abs(change) >= least
    return Trend(_moving(moves), change, p, effective)


def _moving(moves: bool) -> TrendVerdict:
    return TrendVerdict.TRENDS if moves else TrendVerdict.STEADY


def _effective(residual: Array, power: float) -> float:
    """n ((1 - r) / (1 + r))^1.5 independent values. r: the lag-1 autocorrelation of the residuals of a line, whose
    estimate has the mean r - (2 + 4r) / n, raised by 30 / n of its standard error, at least 0.

    Santer's exponent is 1, which holds where r is known. In many series r is underestimated in some, and just those
    give the alarms. The exponent and the raise are from simulations (docs/methods.md).
    """
    n = residual.size
    r = (float(residual[1:] @ residual[:-1]) / power + 2 / n) / (1 - 4 / n)
    r = min(0.99, max(0.0, r))
    r = min(0.99, r + 30 / n * math.sqrt((1 - r**2) / n))
    return n * math.pow((1 - r) / (1 + r), 1.5)


@dataclass(frozen=True)
class PeakWindow:
    """Times in ns, as given. `active` is the run's greatest number of active testers."""

    start: int
    end: int
    active: int


def peak_window(starts: Sequence[int], ends: Sequence[int], *, share: float = 0.95) -> PeakWindow | None:
    """Earliest longest interval with at least `share` of the greatest number of active testers (glossary).

    One start and one end (>= start) per tester, in ns. None without a tester that was active for any time.
    """
    times = np.concatenate([np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)])
    steps = np.concatenate([np.ones(len(starts), dtype=np.int64), -np.ones(len(ends), dtype=np.int64)])
    if times.size == 0:
        return None
    moments, place = np.unique(times, return_inverse=True)
    active = np.cumsum(np.bincount(place.reshape(-1), weights=steps)).astype(np.int64)
    top = int(active.max())
    if top <= 0:
        return None
    high = (active >= share * top).astype(np.int8)
    edges = np.diff(np.concatenate([[0], high, [0]]))
    first, last = np.nonzero(edges == 1)[0], np.nonzero(edges == -1)[0]
    lengths = moments[np.minimum(last, moments.size - 1)] - moments[first]
    best = int(np.argmax(lengths))  # the first of equals
    return PeakWindow(int(moments[first[best]]), int(moments[min(int(last[best]), moments.size - 1)]), top)
