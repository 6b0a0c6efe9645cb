"""Intervals within one run, by batch means (Jain 25.5.2; Law, Simulation Modeling and Analysis, 9.5.3).

Requests of a run depend on each other, so the interval of independent samples is far too narrow (it covers the truth
29 times in 100 at an autocorrelation of 0.9). There is no function here that takes requests and returns such an
interval: the interface knows batches only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.distributions import t_quantile
from plimsoll.analyse.results import Interval

Array = NDArray[np.float64]

BATCHES = 30
"""Batches to begin with; 20 to 30 are advised (Law 9.5.3)."""
FEWEST = 7
"""Batches are not merged below this."""
LAG1_LIMIT = 0.2
"""Batch means that are correlated more than this are merged two by two."""
METHOD = "batch means within the run"


@dataclass(frozen=True)
class BatchMean:
    """A mean within a run. `independent` is False where even the largest batches still depend on each other: the
    interval is then too narrow, and says so in its method. `effective` is the number of independent samples that would
    give the same interval (None if the variance of single values was not given)."""

    interval: Interval
    batches: int
    lag1: float
    independent: bool
    effective: float | None


def batch_mean(values: Sequence[float] | Array, *, confidence: float = 0.95) -> BatchMean | None:
    """Mean of values in time order, such as a time series of one-second throughputs. None below 10 values."""
    y = np.asarray(values, dtype=np.float64)
    return ratio_mean(
        y, np.ones_like(y), variance=float(y.var(ddof=1)) if y.size > 1 else None, confidence=confidence
    )


def ratio_mean(
    sums: Sequence[float] | Array,
    counts: Sequence[float] | Array,
    *,
    variance: float | None = None,
    confidence: float = 0.95,
) -> BatchMean | None:
    """Mean per count, from sums and counts in bins of equal length in time order (at least 10, some of them not empty).

    For response times: sum of the response times and number of the transactions that ended in each bin. The error of
    the ratio is that of the residuals sum - ratio x count (Law 9.5.3, regenerative form; delta method).
    `variance`: of single values, for the effective number of samples.
    """
    s = np.asarray(sums, dtype=np.float64)
    n = np.asarray(counts, dtype=np.float64)
    total = float(n.sum())
    if s.size < 10 or total <= 0 or np.count_nonzero(n) < 10:
        return None
    ratio = float(s.sum()) / total
    residual = s - ratio * n
    d, lag1 = _merge(residual)
    k = d.size
    se = float(d.std(ddof=1)) * math.sqrt(k) / total
    independent = lag1 < LAG1_LIMIT
    half = t_quantile(0.5 + confidence / 2, k - 1) * se
    method = METHOD if independent else f"{METHOD}, which still depend on each other: too narrow"
    interval = Interval(ratio, ratio - half, ratio + half, confidence, float(k - 1), method)
    return BatchMean(interval, k, lag1, independent, _effective(variance, se, total))


def _merge(residual: Array) -> tuple[Array, float]:
    """Sums of residuals over batches as many as are independent, and their lag-1 autocorrelation."""
    k = min(BATCHES, residual.size)
    while True:
        edges = np.linspace(0, residual.size, k + 1).astype(np.int64)[:-1]
        d = np.add.reduceat(residual, edges)
        lag1 = lag_one(d)
        if lag1 < LAG1_LIMIT or k // 2 < FEWEST:
            return d, lag1
        k //= 2


def lag_one(values: Array) -> float:
    """Lag-1 autocorrelation; 0 for a constant series."""
    d = values - values.mean()
    power = float(d @ d)
    return float(d[1:] @ d[:-1]) / power if power > 0 else 0.0


def _effective(variance: float | None, se: float, total: float) -> float | None:
    """n_eff = variance of single values / variance of the mean, between 1 and n."""
    if variance is None:
        return None
    if se <= 0:
        return total
    return min(total, max(1.0, variance / se**2))
