"""Checks of the assumptions of a factorial model by its residuals (Jain 14.7, 18.5): equal variances, no drift in run
order, a scale on which effects are additive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from plimsoll.analyse.results.verdict_rules import CHECKS_OF_MODELS, rule
from plimsoll.analyse.results.verdicts import ModelReason, Reason, Severity, Value
from plimsoll.analyse.stats.anova import equal_means_p, equal_spreads_p, slope_and_p
from plimsoll.analyse.stats.linear import Array, codes

RATIO_FOR_LOG = 10.0
"""Greatest / smallest response above which the logarithm is advised (Jain 18.7 states "large", without a number)."""


@dataclass(frozen=True)
class Diagnostics:
    """Results of the checks. p-values are None if there are too few data. `drift`: change of the residual from first to
    last run."""

    variances_p: float | None
    variances_differ: bool
    drift: float | None
    drift_p: float | None
    lag1: float | None
    """Autocorrelation of the residuals between successive runs."""
    max_over_min: float | None
    outliers: tuple[int, ...]
    """Positions of runs whose residual is over 3.5 robust standard deviations."""
    reasons: tuple[Reason, ...]


def diagnose(
    responses: ArrayLike,
    residuals: ArrayLike,
    cells: Sequence[int],
    *,
    factors: Mapping[str, Sequence[str | None]],
    order: Sequence[int] | None = None,
    scale: str = "linear",
    alpha: float = 0.01,
) -> Diagnostics:
    """Checks a fit. All sequences have one entry per run; `order`: position of the run in time (None: no check of
    drift); `alpha`: significance level."""
    y = np.asarray(responses, dtype=np.float64)
    e = np.asarray(residuals, dtype=np.float64)
    reasons: list[Reason] = []
    p = equal_variances_p(e, cells, factors)
    differ = p is not None and p < alpha
    if differ:
        reasons.append(_reason(ModelReason.VARIANCES_DIFFER, p=p, linear=scale == "linear"))
    drift, drift_p, lag1 = _over_time(e, order)
    if drift is not None and drift_p is not None and drift_p < alpha:
        reasons.append(_reason(ModelReason.DRIFT, drift=drift, p=drift_p))
    ratio = float(y.max() / y.min()) if y.size and float(y.min()) > 0 else None
    if scale == "linear" and ratio is not None and ratio > RATIO_FOR_LOG:
        reasons.append(_reason(ModelReason.LOG_SCALE, ratio=ratio))
    outliers = _outliers(e)
    if outliers:
        reasons.append(_reason(ModelReason.OUTLIERS, runs=len(outliers)))
    return Diagnostics(p, differ, drift, drift_p, lag1, ratio, outliers, tuple(reasons))


def _reason(code: ModelReason, **values: Value) -> Reason:
    return Reason(code, Severity.NOTE, values, rule(CHECKS_OF_MODELS[code]))


def equal_variances_p(
    residuals: Array, cells: Sequence[int], factors: Mapping[str, Sequence[str | None]]
) -> float | None:
    """p-value of Levene's test (Brown and Forsythe's form, about the median); None if there are too few data.

    Cells of three or more runs are compared directly. A cell of two runs has only one absolute deviation (the other
    equals it). In this case the deviations of the cells are compared between the levels of each factor, and the
    smallest p-value, times the number of factors (Bonferroni), is returned.
    """
    number = np.asarray(cells)
    groups = [residuals[number == c] for c in np.unique(number)]
    if float(np.abs(residuals).max(initial=0.0)) == 0.0 or all(g.size < 2 for g in groups):
        return None
    if len(groups) > 1 and all(g.size >= 3 for g in groups):
        return _finite(equal_spreads_p(groups))
    if any(g.size < 2 for g in groups):
        return None
    spread = np.array([float(np.mean(np.abs(g))) for g in groups])
    first = np.array([int(np.nonzero(number == c)[0][0]) for c in np.unique(number)])
    p_values = []
    for labels in factors.values():
        index, names = codes([labels[i] for i in first])
        parts = [spread[index == level] for level in range(len(names))]
        if len(parts) > 1 and all(part.size >= 3 for part in parts):
            p_values.append(_finite(equal_means_p(parts)))
    usable = [p for p in p_values if p is not None]
    return min(1.0, min(usable) * len(usable)) if usable else None


def _finite(p: float) -> float | None:
    return p if math.isfinite(p) else None


def _over_time(e: Array, order: Sequence[int] | None) -> tuple[float | None, float | None, float | None]:
    """Drift from first to last run with its p-value, and the lag-1 autocorrelation, of residuals in run order."""
    if order is None or e.size < 6:
        return None, None, None
    by_time = e[np.argsort(np.asarray(order), kind="stable")]
    power = float(by_time @ by_time)
    if power == 0.0:
        return None, None, None
    slope, p = slope_and_p(by_time)
    lag1 = float(by_time[1:] @ by_time[:-1]) / power
    return slope * (e.size - 1), p, lag1


def _outliers(e: Array) -> tuple[int, ...]:
    """Positions of the outliers by the median of the absolute residuals. The factor 1.4826 makes it a standard
    deviation for a normal distribution."""
    scale = 1.4826 * float(np.median(np.abs(e)))
    if e.size < 8 or scale == 0.0:
        return ()
    return tuple(int(i) for i in np.nonzero(np.abs(e) > 3.5 * scale)[0])
