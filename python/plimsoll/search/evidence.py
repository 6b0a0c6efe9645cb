"""The load at which a trial exceeds a goal with probability `exceed`, with an interval, from all trials of full length.

A trial is one Bernoulli draw. Its probability of high loss p increases with the load x, a logarithm; near the load
sought it is well described by a logistic curve of unknown location x0, spread s and skewness k,

    p(x) = lapse + (1 - 2 lapse) (1 + exp(-(x - x0)/s - c))^-k,    with c such that p(x0) = exceed.

A priori x0 and log s are uniform, and k is 0.4, 1 or 2.5: queues have a longer tail at low loads, k < 1. The
posterior on a grid yields the interval of x0, and with it the statement on each load L: P(p(L) >= exceed) = P(x0 <=
L). A load is an end of the bracket if this probability is below or above the level. The trials of all loads count,
so no load needs to be decided alone: one near the load sought never is.

The method is that of psychometric functions: N. Prins, The psi-marginal adaptive method, J. Vision 13(7) (2013) 3;
L. Kontsevich, C. Tyler, Vision Research 39 (1999) 2729.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from plimsoll.search.goals import Goal
from plimsoll.search.grid import STEPS_PER_WIDTH, LoadGrid, step_of
from plimsoll.search.trials import TrialResult

Array = NDArray[np.float64]

LEVEL = 0.98
"""Probability of the interval of the load sought. Above 0.95, because the search stops when the interval is narrow: the
coverage is then that of 0.95 or more (tests/stats/search_truths.py)."""
LAPSE = 0.01
"""Probability that a trial does not depend on its load: a hiccup of the machine, or luck."""
SPREADS = 8
SKEWNESS = (0.4, 1.0, 2.5)
MAX_SPREAD = 0.4
"""In log load: at the load sought, half of the trials exceed; at 1.5 times the load three quarters."""
MARGIN = 0.25
"""The posterior extends this far, in log load, beyond the lowest load with high loss and the highest load without."""
CANDIDATES = 16
DEPENDENCE_Z = 2.33
"""Deviation, in standard errors, of the lag-1 correlation from which trials count as dependent (1 % one-sided)."""


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def exceed_interval(high: float, total: float, *, confidence: float = 0.95) -> Interval:
    """Beta interval of the exceed probability from `high` high-loss trials of `total` at one load: Jeffreys' prior
    Beta(1/2, 1/2), with the ends 0 and 1 where no or every trial has high loss (L. Brown, T. Cai, A. DasGupta,
    Statistical Science 16 (2001) 101). Fractions are allowed. Without a trial it is 0 to 1."""
    if total <= 0:
        return Interval(0.0, 1.0)
    tail = (1 - confidence) / 2
    a, b = high + 0.5, total - high + 0.5
    low = 0.0 if high <= 0 else float(special.betaincinv(a, b, tail))
    return Interval(low, 1.0 if high >= total else float(special.betaincinv(a, b, 1 - tail)))


@dataclass(frozen=True, slots=True)
class Axes:
    """The grid of a posterior. `start`, `step`, `count`: logs of the load sought. `width`: that of the goal, in log
    load, which sets the smallest spread."""

    start: float
    step: float
    count: int
    width: float
    exceed: float

    @property
    def x(self) -> Array:
        return self.start + self.step * np.arange(self.count, dtype=np.float64)

    @property
    def shapes(self) -> Array:
        """Pairs of spread and skewness."""
        return _shapes(self.width)


@lru_cache(maxsize=16)
def _shapes(width: float) -> Array:
    spreads = np.geomspace(width / 10, max(MAX_SPREAD, width), SPREADS)
    return np.array([(spread, k) for spread in spreads for k in SKEWNESS], dtype=np.float64)


@lru_cache(maxsize=512)
def _curve(axes: Axes, load: float) -> tuple[Array, Array, Array]:
    """Probability p of high loss at a load [x0, shape], log p, log(1 - p). Kept, because each trial needs those of all
    loads again."""
    inner = min(max((axes.exceed - LAPSE) / (1 - 2 * LAPSE), 1e-3), 1 - 1e-3)
    shapes = axes.shapes
    spread, k = shapes[:, 0], shapes[:, 1]
    z = (math.log(load) - axes.x[:, None]) / spread + special.logit(inner ** (1 / k))
    p = np.asarray(LAPSE + (1 - 2 * LAPSE) * np.exp(k * special.log_expit(z)), dtype=np.float64)
    return p, np.log(p), np.log1p(-p)


@dataclass(frozen=True)
class Posterior:
    """What the trials say about one goal. `weight[x0, shape]`: posterior, sum 1. `inflation`: variance of the number of
    high-loss trials over that of independent trials."""

    axes: Axes
    weight: Array
    inflation: float

    @cached_property
    def location(self) -> Array:
        """Cumulative posterior of the load sought."""
        return np.cumsum(self.weight.sum(axis=1))

    def quantile(self, p: float) -> float:
        """Load below which the load sought lies with probability `p`."""
        index = min(self.axes.count - 1, int(np.searchsorted(self.location, p)))
        return math.exp(self.axes.start + self.axes.step * index)

    @property
    def median(self) -> float:
        """Median of the load sought, interpolated within its cell of the grid: the medians of several searches would
        otherwise often be equal, and their interval too narrow."""
        index = min(self.axes.count - 1, int(np.searchsorted(self.location, 0.5)))
        below = float(self.location[index - 1]) if index else 0.0
        share = (0.5 - below) / max(float(self.location[index]) - below, 1e-12)
        return math.exp(self.axes.start + self.axes.step * (index - 0.5 + min(1.0, share)))

    def bracket(self, grid: LoadGrid, level: float = LEVEL) -> Interval:
        """Loads of the grid around the interval of the load sought: outwards, so it is at least as probable."""
        half = self.axes.step / 2
        tail = (1 - level) / 2
        low, high = self.quantile(tail), self.quantile(1 - tail)
        return Interval(grid.at_most(low * math.exp(-half)), grid.at_least(high * math.exp(half)))

    def exceed_at(self, load: float, confidence: float = LEVEL) -> Interval:
        """Beta interval of the exceed probability at a load, from the trials of all loads: the beta distribution with
        the mean and variance of the posterior of p(load)."""
        p, _, _ = _curve(self.axes, load)
        mean = float((self.weight * p).sum())
        variance = max(float((self.weight * (p - mean) ** 2).sum()), 1e-12)
        size = max(mean * (1 - mean) / variance - 1, 1e-6)
        tail = (1 - confidence) / 2
        a, b = mean * size, (1 - mean) * size
        return Interval(float(special.betaincinv(a, b, tail)), float(special.betaincinv(a, b, 1 - tail)))

    def most_informative(self, grid: LoadGrid) -> float:
        """The load at which one more trial is expected to leave the least uncertainty of the load sought (entropy)."""
        loads = grid.between(self.quantile(0.02), self.quantile(0.98)) or (grid.at_most(self.quantile(0.5)),)
        loads = loads[:: math.ceil(len(loads) / CANDIDATES)]
        p = np.stack([_curve(self.axes, load)[0] for load in loads])
        expected = np.zeros(len(loads))
        for chance in (p, 1 - p):
            joint = (self.weight * chance).sum(axis=2)
            total = joint.sum(axis=1, keepdims=True)
            expected += (-special.xlogy(joint, joint / total)).sum(axis=1)
        return loads[int(np.argmin(expected))]


def full_length(trials: Iterable[TrialResult], goal: Goal) -> list[TrialResult]:
    """The trials of full length that count for the goal. Short trials may have other loss."""
    return [t for t in trials if t.counts_for(goal.name) and t.seconds >= goal.final_seconds]


def evidence(trials: Iterable[TrialResult], goal: Goal) -> list[TrialResult]:
    """The trials that count for the posterior. Invalid ones that met the goal do not: those that missed it are unknown,
    so counting the others would move the load sought upwards."""
    return [trial for trial in full_length(trials, goal) if trial.invalid is None]


def posterior(trials: Sequence[TrialResult], goal: Goal, grid: LoadGrid) -> Posterior | None:
    """Posterior from the trials of full length, in the order in which they were made. None without such trials or with
    an `exceed` of 0, which no load has.

    If trials depend on their predecessors (lag-1 correlation r of the residuals, significant at 1 %), the log
    likelihood is multiplied by (1 - r)/(1 + r), the variance ratio of an AR(1) series.
    """
    counted = evidence(trials, goal)
    if not counted or not goal.exceed > 0:
        return None
    loads = np.array([trial.load for trial in counted])
    high = np.array([trial.outcomes[goal.name].high_loss for trial in counted])
    width = step_of(goal.width)
    step = width / STEPS_PER_WIDTH / 2
    first = loads[high].min(initial=loads.max())
    last = max(first, loads[~high].max(initial=loads.min()))
    start = max(math.log(grid.low) - step, math.log(first) - MARGIN)
    end = min(math.log(grid.high) + step, math.log(last) + MARGIN)
    axes = Axes(start, step, max(2, math.ceil((end - start) / step) + 1), width, goal.exceed)
    distinct, index = np.unique(loads, return_inverse=True)
    bad = np.bincount(index, weights=high, minlength=distinct.size)
    good = np.bincount(index, minlength=distinct.size) - bad
    curves = [_curve(axes, float(load)) for load in distinct]
    log_likelihood = sum(
        b * log_p + g * log_q for b, g, (_, log_p, log_q) in zip(bad, good, curves, strict=True)
    )
    weight = _normalized(log_likelihood)
    fitted = np.array([float((weight * p).sum()) for p, _, _ in curves])[index]
    inflation = _inflation((high - fitted) / np.sqrt(fitted * (1 - fitted)))
    if inflation > 1:
        weight = _normalized(log_likelihood / inflation)
    return Posterior(axes, weight, inflation)


def _normalized(log_likelihood: Array) -> Array:
    weight = np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def _inflation(residuals: Array) -> float:
    """(1 + r)/(1 - r), if the lag-1 correlation r of the residuals is significant; else 1."""
    n = residuals.size
    if n < 10:
        return 1.0
    r = float(residuals[1:] @ residuals[:-1]) / float(residuals @ residuals)
    if r * math.sqrt(n) < DEPENDENCE_Z:
        return 1.0
    r = min(r, 0.9)
    return (1 + r) / (1 - r)
