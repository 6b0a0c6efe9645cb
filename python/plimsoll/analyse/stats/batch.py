"""Intervals within one run, by batch means (Jain 25.5.2; Law, Simulation Modeling and Analysis, 9.5.3).

Requests of a run depend on each other, so the interval of independent samples is far too narrow (it covers the true
value a third of the time at an autocorrelation of 0.9). No function of this module computes such an interval from
single requests: all functions take batches.

Batches of a short run also depend on each other. Rejected: merging batches until they look independent. The lag-1
autocorrelation of a few batches is biased low, so merging stopped too early in the series that needed it. Instead, the
dependence widens the interval (`_effective_batches`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval

Array = NDArray[np.float64]

BATCHES = 30
"""20 to 30 are advised (Law 9.5.3)."""
MIN_EFFECTIVE = 2.0
"""Fewer independent batches have no variance."""
SKEWNESS_WEIGHT = 0.25
"""Relative widening per unit of skewness of the batches, found by simulation of queues (docs/methods.md)."""
METHOD = "batch means within the run"


@dataclass(frozen=True)
class BatchMean:
    """A mean within a run. `lag1`: autocorrelation of the batches, as measured. `independent` is False if the batches
    are one slow movement, whose variance the sample does not show. The interval is then too narrow, and its method
    states that. `effective` is the number of independent samples with the same standard error (None if the variance of
    single values is not known)."""

    interval: Interval
    batches: int
    lag1: float
    independent: bool
    effective: float | None


def batch_mean(values: Sequence[float] | Array, *, confidence: float = 0.95) -> BatchMean | None:
    """Mean of values in time order, such as a time series of one-second throughputs. None if there are fewer than
    10."""
    y = np.asarray(values, dtype=np.float64)
    return ratio_mean(
        y, np.ones_like(y), variance=float(y.var(ddof=1)) if y.size > 1 else None, confidence=confidence
    )


def ratio_mean(
    sums: Sequence[float] | Array,
    counts: Sequence[float] | Array,
    *,
    variance: float | None = None,
    of_times: bool = False,
    confidence: float = 0.95,
) -> BatchMean | None:
    """Mean per count, from sums and counts in bins of equal length in time order (at least 10, some of them not empty).

    For response times: sum of the response times and number of the transactions that ended in each bin. The error of
    the ratio is that of the residuals sum - ratio x count (Law 9.5.3, regenerative form; delta method).
    `variance`: of single values, for the effective number of samples. `of_times`: the error grows with the mean (see
    `_interval_ends`). None if there are too few bins.
    """
    s = np.asarray(sums, dtype=np.float64)
    n = np.asarray(counts, dtype=np.float64)
    total = float(n.sum())
    if s.size < 10 or total <= 0 or np.count_nonzero(n) < 10:
        return None
    ratio = float(s.sum()) / total
    d = _batch_sums(s - ratio * n)
    k = d.size
    lag1 = lag_one(d)
    effective = _effective_batches(lag1, k)
    # The variance about the sample's own mean is too small by (effective - 1) / effective.
    se = float(d.std()) * k / math.sqrt(effective - 1) / total
    half = t_quantile(0.5 + confidence / 2, effective - 1) * se * (1 + SKEWNESS_WEIGHT * abs(_skewness(d)))
    independent = lag1 < _max_lag_one(k)
    method = METHOD if independent else f"{METHOD}, which still depend on each other: too narrow"
    low, high = _interval_ends(ratio, half, of_times=of_times)
    interval = Interval(ratio, low, high, confidence, effective - 1, method)
    return BatchMean(interval, k, lag1, independent, _effective_samples(variance, se, total))


def _batch_sums(residual: Array) -> Array:
    """Sums over at most BATCHES batches of equal length."""
    edges = np.linspace(0, residual.size, min(BATCHES, residual.size) + 1).astype(np.int64)[:-1]
    sums: Array = np.add.reduceat(residual, edges)
    return sums


def lag_one(values: Array) -> float:
    """Lag-1 autocorrelation; 0 for a constant series."""
    d = values - values.mean()
    power = float(d @ d)
    return float(d[1:] @ d[:-1]) / power if power > 0 else 0.0


def _effective_batches(lag1: float, k: int) -> float:
    """k (1 - r) / (1 + r) independent batches, r the autocorrelation whose estimate has the mean r - (1 + 4r) / k
    (Kendall, Biometrika 41 (1954) 403); at least 2, at most k."""
    r = min(1.0, max(0.0, (lag1 + 1 / k) / (1 - 4 / k)))
    return max(MIN_EFFECTIVE, k * (1 - r) / (1 + r))


def _max_lag_one(k: int) -> float:
    """Autocorrelation of k values that are about half a wave; that of a straight line is 1 - 3 / k."""
    return 1 - 4.5 / k


def _skewness(d: Array) -> float:
    """A sample in which the rare large value did not occur has a mean and a variance that are too small together."""
    sd = float(d.std())
    return float((((d - d.mean()) / sd) ** 3).mean()) if sd > 0 else 0.0


def _interval_ends(mean: float, half: float, *, of_times: bool) -> tuple[float, float]:
    """Ends of the interval. The error of a mean response time grows with the mean: a run in which the queue was short
    by chance has a small mean and a small error. So the interval has those means m that differ from the measured one
    by at most `half` x m / mean, which are mean / (1 + q) to mean / (1 - q) with q = half / mean. The upper end is the
    first four terms of 1 / (1 - q), which is finite where q is above 1, too."""
    if not of_times or mean <= 0:
        return mean - half, mean + half
    q = half / mean
    return mean / (1 + q), mean * (1 + q + q**2 + q**3)


def _effective_samples(variance: float | None, se: float, total: float) -> float | None:
    """n_eff = variance of single values / variance of the mean, between 1 and n."""
    if variance is None:
        return None
    if se <= 0:
        return total
    return min(total, max(1.0, variance / se**2))
