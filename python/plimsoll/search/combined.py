"""Several searches for the same goal, combined to one interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from plimsoll.search.evidence import Interval
from plimsoll.search.verdict import GoalVerdict

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Capacity:
    """The answer for one goal over all searches.

    `searches`: their verdicts. `estimate`: geometric mean of their estimates. `interval`: t interval of the mean log
    estimate: the search is the unit of replication, so what differs between searches is contained. None with fewer
    than two searches that have a bracket; then the answer is a bracket, that of the first search.
    """

    goal: str
    searches: tuple[GoalVerdict, ...]
    estimate: float | None
    interval: Interval | None

    @property
    def is_bracket(self) -> bool:
        return self.interval is None


def combine(goal: str, searches: Sequence[GoalVerdict]) -> Capacity:
    """Combines the verdicts of one goal. Searches without an estimate are left out of the mean."""
    logs = np.log([found.estimate for found in searches if found.estimate is not None])
    if logs.size == 0:
        return Capacity(goal, tuple(searches), None, None)
    mean = float(logs.mean())
    if logs.size == 1:
        return Capacity(goal, tuple(searches), math.exp(mean), None)
    t = float(special.stdtrit(logs.size - 1, 0.5 + CONFIDENCE / 2))
    half = t * float(logs.std(ddof=1)) / math.sqrt(logs.size)
    interval = Interval(math.exp(mean - half), math.exp(mean + half))
    return Capacity(goal, tuple(searches), math.exp(mean), interval)
