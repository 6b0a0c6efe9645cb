"""What a search looks for: goals, the length of their trials, and the coarser targets that precede a goal.

The terms are those of RFC 9971 (MLRsearch): a trial is high-loss for a goal if any rule of the goal is exceeded; the
exceed ratio is the share of trial seconds that may be high-loss at a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.search.grid import step_of

PRECEDING_TARGETS = 2
"""Number of coarser targets before a goal, as in FD.io's CSIT."""
STARTS_BEYOND_QUANTILE = 10
"""Planned starts beyond the percentile of a rule: 1,000 starts for a p99."""
FAILURES_AT_LIMIT = 3
"""Failures that a trial at the limit of an error rule contains: 3,000 starts for 0.1 %. With fewer, a trial without a
failure says little: the upper 95 % bound of 0 in n is 3/n."""


class Axis(StrEnum):
    """What a load counts. Testers are whole numbers, and their starts per second are known only by measurement."""

    RATE = "load.rate"
    TESTERS = "load.testers"
    PER_HOST = "load.per_host"


@dataclass(frozen=True, slots=True)
class Goal:
    """One objective of a search. Durations in seconds, ratios as fractions of 1.

    `width`: largest relative distance of the two bounds. `starts`: planned starts that a trial must have for its rules
    (`starts_for_rules`). Raises ValueError if a value is outside its range.
    """

    name: str
    final_seconds: float
    initial_seconds: float
    sum_seconds: float
    exceed: float = 0.5
    width: float = 0.05
    starts: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.initial_seconds <= self.final_seconds <= self.sum_seconds:
            raise ValueError(f"{self.name}: expected 0 < initial <= final <= sum, in seconds")
        if not 0 <= self.exceed < 1:
            raise ValueError(f"{self.name}: expected 0 <= exceed < 1, got {self.exceed:g}")
        if not 0 < self.width <= 1:
            raise ValueError(f"{self.name}: expected 0 < width <= 1, got {self.width:g}")
        if self.starts < 0:
            raise ValueError(f"{self.name}: expected starts >= 0, got {self.starts}")

    @property
    def target(self) -> Target:
        """The goal itself as the last of its targets."""
        return Target(self.final_seconds, self.sum_seconds, self.exceed, step_of(self.width))

    def targets(self) -> tuple[Target, ...]:
        """Targets in the order of the search: two coarser ones with shorter trials, less evidence and 4 and 2 times the
        width, then the goal."""
        chain = [self.target]
        shrink = (self.initial_seconds / self.sum_seconds) ** (1 / PRECEDING_TARGETS)
        for count in range(1, PRECEDING_TARGETS + 1):
            total = self.initial_seconds if count == PRECEDING_TARGETS else self.sum_seconds * shrink**count
            seconds = min(self.final_seconds, total)
            chain.insert(0, Target(seconds, total, self.exceed, self.target.log_width * 2**count))
        return tuple(chain)


@dataclass(frozen=True, slots=True)
class Target:
    """What the classification of a load needs. `log_width`: largest distance of the bounds in log load."""

    seconds: float
    sum_seconds: float
    exceed: float
    log_width: float


def shortest(goals: Iterable[Goal]) -> float:
    """Length of the shortest trial, in seconds."""
    return min(goal.initial_seconds for goal in goals)


def starts_for_rules(quantiles: Iterable[float] = (), error_limits: Iterable[float] = ()) -> int:
    """Planned starts that a trial must have: ten beyond each percentile (0.99: 1,000), three failures at each limit of
    an error rate (0.001: 3,000). A limit of 0 needs no minimum. Raises ValueError outside 0 <= value < 1."""
    needed = [0]
    for quantile in quantiles:
        if not 0 <= quantile < 1:
            raise ValueError(f"expected a quantile from 0 to below 1, got {quantile:g}")
        needed.append(_whole(STARTS_BEYOND_QUANTILE / (1 - quantile)))
    for limit in error_limits:
        if not 0 <= limit < 1:
            raise ValueError(f"expected an error limit from 0 to below 1, got {limit:g}")
        needed.append(_whole(FAILURES_AT_LIMIT / limit) if limit > 0 else 0)
    return max(needed)


def trial_seconds(starts_per_second: float | None, seconds: float, starts: int) -> float:
    """Length of a trial: `seconds`, or longer if it would have fewer planned starts than `starts`. A rate of None is
    not known yet. Lengthened trials have tenths of a second."""
    if not starts or not starts_per_second or starts <= starts_per_second * seconds:
        return seconds
    return _whole(10 * starts / starts_per_second) / 10


def _whole(value: float) -> int:
    """Rounded up, without the last bits of a binary fraction: 10 / (1 - 0.99) is 1,000."""
    return math.ceil(round(value, 6))
