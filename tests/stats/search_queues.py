"""Queues in virtual time, and the load at which a trial of the final length has high loss with probability `exceed`.

`TRUTHS` contains the loads that a long simulation found; `python -m tests.stats.search_queues` computes them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tests.stats.queueing import erlang_c

from plimsoll.search.goals import Goal, starts_for_rules, trial_seconds

Array = NDArray[np.float64]
POOLED_STARTS = 2_000_000
"""Starts that are simulated for each load and length, in 250 to 2,000 trials; searches draw from these trials."""


@dataclass(frozen=True, slots=True)
class Objective:
    """`quantile` of the response times below `limit` seconds: at most a share of 1 - quantile is late."""

    quantile: float
    limit: float

    @property
    def name(self) -> str:
        return f"p{100 * self.quantile:g}<{1000 * self.limit:g}ms"

    def goal(self, seconds: float, width: float = 0.05, exceed: float = 0.5) -> Goal:
        starts = starts_for_rules([self.quantile])
        return Goal(self.name, seconds, min(2.0, seconds), 6 * seconds, exceed, width, starts)


@dataclass(frozen=True, slots=True)
class QueueCase:
    """M/M/c that is empty at the start of each trial. `rate`: services per second and server."""

    servers: int
    rate: float
    seconds: float
    objectives: tuple[Objective, ...]
    exceed: float = 0.5

    @property
    def name(self) -> str:
        exceed = "" if self.exceed == 0.5 else f", exceed {self.exceed:g}"
        return f"M/M/{self.servers}, {self.rate:g}/s, trials of {self.seconds:g} s{exceed}"

    def goals(self, width: float = 0.05) -> tuple[Goal, ...]:
        return tuple(objective.goal(self.seconds, width, self.exceed) for objective in self.objectives)


def lateness(case: QueueCase, load: float, seconds: float, trials: int, rng: np.random.Generator) -> Array:
    """Share of the starts within `seconds` that are late: [trial, objective]."""
    count = int(load * seconds + 6 * math.sqrt(load * seconds) + 20)
    late = np.empty((trials, len(case.objectives)))
    block = max(1, 4_000_000 // count)
    for first in range(0, trials, block):
        size = min(block, trials - first)
        arrivals = rng.exponential(1 / load, (size, count)).cumsum(axis=1)
        services = rng.exponential(1 / case.rate, (size, count))
        times = departures(arrivals, services, case.servers) - arrivals
        started = arrivals < seconds
        for k, objective in enumerate(case.objectives):
            missed = ((times > objective.limit) & started).sum(axis=1)
            late[first : first + size, k] = missed / np.maximum(1, started.sum(axis=1))
    return late


def departures(arrivals: Array, services: Array, servers: int) -> Array:
    """Departures of FIFO queues, one queue a row: by Lindley's recursion, or by Kiefer and Wolfowitz' for several
    servers."""
    if servers == 1:
        work = services.cumsum(axis=1)
        return np.asarray(work + np.maximum.accumulate(arrivals - (work - services), axis=1))
    free = np.zeros((arrivals.shape[0], servers))
    rows = np.arange(arrivals.shape[0])
    ends = np.empty_like(arrivals)
    for n in range(arrivals.shape[1]):
        first = free.argmin(axis=1)
        ends[:, n] = np.maximum(arrivals[:, n], free[rows, first]) + services[:, n]
        free[rows, first] = ends[:, n]
    return ends


@dataclass
class Queue:
    """Independent trials of a queue, drawn from pools that are simulated once for each load and length."""

    case: QueueCase
    rng: np.random.Generator
    pooled_starts: int = POOLED_STARTS
    pools: dict[tuple[float, float], Array] = field(default_factory=dict)

    def loss(self, load: float, seconds: float) -> Sequence[float]:
        if (load, seconds) not in self.pools:
            size = min(2000, max(250, round(self.pooled_starts / (load * seconds))))
            self.pools[load, seconds] = lateness(self.case, load, seconds, size, self.rng)
        pool = self.pools[load, seconds]
        drawn = pool[self.rng.integers(len(pool))]
        return [
            float(late / (1 - objective.quantile))
            for late, objective in zip(drawn, self.case.objectives, strict=True)
        ]


P99, P95, P90 = 0.99, 0.95, 0.9
CASES = (
    QueueCase(1, 200, 10, (Objective(P99, 0.05), Objective(P90, 0.05))),
    QueueCase(1, 1000, 10, (Objective(P99, 0.02),)),
    QueueCase(1, 1000, 5, (Objective(P95, 0.05),)),
    QueueCase(1, 400, 20, (Objective(P99, 0.03), Objective(P99, 0.3))),
    QueueCase(4, 100, 10, (Objective(P99, 0.06), Objective(P95, 0.04))),
    QueueCase(16, 20, 10, (Objective(P99, 0.3),)),
    QueueCase(2, 250, 10, (Objective(P99, 0.04),), exceed=0.2),
    QueueCase(1, 100, 5, (Objective(P90, 0.1),)),
)

TRUTHS: Mapping[str, tuple[float, ...]] = {
    "M/M/1, 200/s, trials of 10 s": (113.5, 156.0),
    "M/M/1, 1000/s, trials of 10 s": (779.5,),
    "M/M/1, 1000/s, trials of 5 s": (960.4,),
    "M/M/1, 400/s, trials of 20 s": (249.8, 397.5),
    "M/M/4, 100/s, trials of 10 s": (310.4, 298.2),
    "M/M/16, 20/s, trials of 10 s": (309.5,),
    "M/M/2, 250/s, trials of 10 s, exceed 0.2": (365.3,),
    "M/M/1, 100/s, trials of 5 s": (80.7,),
}
"""By name of the case: one load for each objective. Standard error: 0.1 to 0.3 %."""


def truth(case: QueueCase, k: int, rng: np.random.Generator, trials: int = 2000) -> float:
    """The load at which objective `k` is exceeded with probability `exceed`: bisection, then a logistic regression
    over nine loads around it."""
    objective, goal = case.objectives[k], case.goals()[k]

    def exceeded(load: float, size: int) -> float:
        seconds = trial_seconds(load, case.seconds, goal.starts)
        return float((lateness(case, load, seconds, size, rng)[:, k] > 1 - objective.quantile).mean())

    low, high = 0.2 * steady_load(case, k), 1.5 * case.servers * case.rate
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if exceeded(middle, 200) > case.exceed else (middle, high)
    offsets = np.linspace(-0.04, 0.04, 9)
    loads = math.sqrt(low * high) * np.exp(offsets)
    share = np.clip([exceeded(float(load), trials) for load in loads], 0.005, 0.995)
    logit = np.log(share / (1 - share))
    slope, intercept = np.polyfit(offsets, logit, 1, w=np.sqrt(share * (1 - share)))
    at = (math.log(case.exceed / (1 - case.exceed)) - intercept) / slope
    return float(math.sqrt(low * high) * math.exp(at))


def steady_load(case: QueueCase, k: int) -> float:
    """The load at which the percentile of the steady state equals the limit."""
    objective = case.objectives[k]
    low, high = 0.0, case.servers * case.rate
    for _ in range(60):
        middle = (low + high) / 2
        late = response_tail(middle, case.rate, case.servers, objective.limit)
        low, high = (low, middle) if late > 1 - objective.quantile else (middle, high)
    return low


def response_tail(arrivals: float, rate: float, servers: int, time: float) -> float:
    """P(response time > `time`) of M/M/c in the steady state (Kleinrock, Queueing Systems I, 3.5 and problem 3.13)."""
    offered = arrivals / rate
    spare = servers - 1 - offered
    waits = erlang_c(offered, servers)
    factor = rate * time if abs(spare) < 1e-9 else (1 - math.exp(-rate * time * spare)) / spare
    return math.exp(-rate * time) * (1 + waits * factor)


if __name__ == "__main__":
    for each in CASES:
        generator = np.random.default_rng(20)
        found = [truth(each, k, generator) for k in range(len(each.objectives))]
        ratios = [load / steady_load(each, k) for k, load in enumerate(found)]
        print(
            f'    "{each.name}": {tuple(round(load, 1) for load in found)},  # {np.round(ratios, 3)}',
            flush=True,
        )
