"""Bounds of error rates, from counts per run: a run is the unit, not the request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.stats.distributions import beta_quantile, normal_quantile, t_quantile


def wilson(
    count: float, total: float, *, confidence: float = 0.95, df: float | None = None
) -> tuple[float, float]:
    """Two-sided Wilson score interval of `count` (may be fractional) in `total` (> 0): Wilson, JASA 22 (1927) 209.
    `df`: degrees of freedom of an estimated variance, for the quantile of Student's t. Raises ValueError if `total` is
    not above 0."""
    if total <= 0:
        raise ValueError("a proportion needs a total above 0")
    z = normal_quantile(0.5 + confidence / 2) if df is None else t_quantile(0.5 + confidence / 2, df)
    p = count / total
    centre = p + z * z / (2 * total)
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if count == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if count == total else min(1.0, (centre + half) / scale)
    return low, high


def clopper_pearson(count: int, total: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact interval: its coverage is at least its level. Clopper and Pearson, Biometrika 26 (1934) 404.
    Raises ValueError if `total` is not above 0."""
    if total <= 0:
        raise ValueError("a proportion needs a total above 0")
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else beta_quantile(tail, count, total - count + 1)
    high = 1.0 if count == total else beta_quantile(1 - tail, count + 1, total - count)
    return low, high


@dataclass(frozen=True)
class Rate:
    """An error rate with bounds. `design_effect`: variance between runs / that of independent requests (at least 1; 1
    for a single run)."""

    rate: float
    low: float
    high: float
    design_effect: float


def error_rate(
    errors: Sequence[int], totals: Sequence[int], *, confidence: float = 0.95, few_runs: bool = False
) -> Rate | None:
    """Error rate over runs of one cell, from the errors and the ended transactions of each run.

    Errors occur in clusters, so the number of requests is divided by the design effect: the variance between runs over
    that of independent requests (Kish 1965, cluster sampling). `few_runs`: with an effect above 1, the quantile is that
    of Student's t, because the effect is estimated from the runs; also with two runs with errors, which cannot show
    that there is none. None if no transaction ended.
    """
    e = np.asarray(errors, dtype=np.float64)
    n = np.asarray(totals, dtype=np.float64)
    e, n = e[n > 0], n[n > 0]
    if n.size == 0:
        return None
    p = float(e.sum() / n.sum())
    effect = 1.0
    if n.size > 1 and 0 < p < 1:
        between = float(np.sum((e - p * n) ** 2)) * n.size / (n.size - 1) / float(n.sum()) ** 2
        effect = max(1.0, between / (p * (1 - p) / float(n.sum())))
    df = n.size - 1 if few_runs and (effect > 1 or (n.size == 2 and p > 0)) else None
    low, high = wilson(float(e.sum()) / effect, float(n.sum()) / effect, confidence=confidence, df=df)
    return Rate(p, low, high, effect)
