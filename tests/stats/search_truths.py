"""Services whose capacity is known, in virtual time, and searches on them.

The truth of a bracket is the load at which a trial of the final length has high loss with probability `exceed`. The
queues are in `search_queues.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from plimsoll.search.capacity import CapacitySearch, CapacityVerdict
from plimsoll.search.classify import LoadClass, Sums, classify
from plimsoll.search.controller import SearchController
from plimsoll.search.goals import Goal, trial_seconds
from plimsoll.search.trials import GoalOutcome, Invalid, Trial, TrialResult
from plimsoll.search.verdict import Verdict

OVERHEAD = 1.5
"""Seconds of start, drain, rest and bookkeeping of a trial."""


class Service(Protocol):
    """Something on which trials are made."""

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        """Loss ratio of one trial over the limit of each goal: above 1 is high loss."""


@dataclass
class Curve:
    """Independent trials that have high loss with a probability logistic in log load; a step with a spread of 0."""

    at: float
    spread: float
    rng: np.random.Generator

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        distance = math.log(load / self.at)
        noise = self.spread * self.rng.logistic() if self.spread else 0.0
        return [2.0 if distance + noise > 0 else 0.5]


@dataclass
class Autocorrelated:
    """The log of the capacity is an AR(1) series over the trials: coefficient `phi`, standard deviation `sd`."""

    at: float
    sd: float
    phi: float
    rng: np.random.Generator
    state: float | None = None

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        if self.state is None:
            self.state = self.rng.normal()
        self.state = self.phi * self.state + math.sqrt(1 - self.phi**2) * self.rng.normal()
        return [2.0 if math.log(load / self.at) + self.sd * self.state > 0 else 0.5]


@dataclass
class Leak:
    """The capacity falls with the length of the trial: that of `final` seconds is `at`, that of a fifth 1.6 times."""

    at: float
    final: float
    rng: np.random.Generator
    spread: float = 0.02

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        capacity = self.at * (self.final / seconds) ** (math.log(1.6) / math.log(5))
        return Curve(capacity, self.spread, self.rng).loss(load, seconds)


@dataclass
class Metastable:
    """After a load above `trigger` times `at` the capacity is `degraded` times `at`, until a trial has a load below it
    and the service recovers. `recovers_at`: share of the degraded capacity below which it recovers."""

    at: float
    rng: np.random.Generator
    trigger: float = 1.0
    degraded: float = 0.6
    recovers_at: float = 0.7
    spread: float = 0.02
    is_degraded: bool = False

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        if load > self.trigger * self.at:
            self.is_degraded = True
        elif load < self.recovers_at * self.degraded * self.at:
            self.is_degraded = False
        capacity = self.at * (self.degraded if self.is_degraded else 1.0)
        return Curve(capacity, self.spread, self.rng).loss(load, seconds)


@dataclass
class Late:
    """A service whose load generator is late in a share of the trials."""

    service: Service
    share: float
    rng: np.random.Generator
    is_late: bool = False

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        self.is_late = bool(self.rng.random() < self.share)
        return self.service.loss(load, seconds)


def measure(trial: Trial, goals: Sequence[Goal], service: Service, reach: float = math.inf) -> TrialResult:
    """The result of one trial. `reach`: load above which the generator is the limit."""
    if trial.load > reach:
        return TrialResult(
            trial.load,
            trial.seconds,
            {},
            trial.rule,
            trial.search,
            spent_seconds=trial.seconds + OVERHEAD,
            invalid=Invalid.GENERATOR,
        )
    losses = service.loss(trial.load, trial.seconds)
    outcomes = {
        goal.name: GoalOutcome(loss > 1, min(1.0, loss / 100))
        for goal, loss in zip(goals, losses, strict=True)
    }
    is_late = isinstance(service, Late) and service.is_late
    if is_late:  # only the goals that were met count
        outcomes = {name: outcome for name, outcome in outcomes.items() if not outcome.high_loss}
    return TrialResult(
        trial.load,
        trial.seconds,
        outcomes,
        trial.rule,
        trial.search,
        spent_seconds=trial.seconds + OVERHEAD,
        starts=round(trial.load * trial.seconds),
        invalid=Invalid.GENERATOR if is_late else None,
    )


def run_search(
    search: SearchController, service: Service, reach: float = math.inf
) -> tuple[Verdict, list[TrialResult]]:
    """One complete search."""
    results: list[TrialResult] = []
    while isinstance(step := search.next(results), Trial):
        results.append(measure(step, search.goals, service, reach))
    return step, results


def run_capacity(search: CapacitySearch, service: Service) -> tuple[CapacityVerdict, list[TrialResult]]:
    """All searches of a cell."""
    results: list[TrialResult] = []
    while isinstance(step := search.next(results), Trial):
        results.append(measure(step, search.goals, service))
    return step, results


Decision = Callable[[Callable[[], bool], float], bool]
"""Whether a load is too high, from trials of a length in seconds. The first argument makes a trial: whether it has high
loss."""


def bisect(
    goal: Goal, ends: tuple[float, float], is_too_high: Decision, service: Service
) -> tuple[float, float, float]:
    """Bisection in log load with full-length trials, until the interval is as narrow as the bracket of a search: the
    interval, and the seconds spent."""
    low, high = ends
    spent = 0.0
    while 1 - low / high > 2 * goal.width:
        load = math.sqrt(low * high)
        seconds = trial_seconds(load, goal.final_seconds, goal.starts)

        def trial(load: float = load, seconds: float = seconds) -> bool:
            nonlocal spent
            spent += seconds + OVERHEAD
            return service.loss(load, seconds)[0] > 1

        low, high = (low, load) if is_too_high(trial, seconds) else (load, high)
    return low, high, spent


def majority(goal: Goal, trials: int) -> Decision:
    """`trials` trials at each load."""
    return lambda trial, _: sum(trial() for _ in range(trials)) > goal.exceed * trials


def by_class(goal: Goal) -> Decision:
    """Trials at each load until it is a lower or an upper bound of the goal: those that the search makes, too."""

    def is_too_high(trial: Callable[[], bool], seconds: float) -> bool:
        low = high = 0.0
        while (found := classify(Sums(low, high), goal.target)) is LoadClass.UNDECIDED:
            low, high = (low, high + seconds) if trial() else (low + seconds, high)
        return found is LoadClass.UPPER

    return is_too_high
