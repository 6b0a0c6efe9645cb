"""How many trials, seconds and requests a search may need, before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plimsoll.search.capacity import CapacitySearch
from plimsoll.search.goals import Axis, Goal, shortest, trial_seconds
from plimsoll.search.grid import LoadGrid
from plimsoll.search.strategy import GROWTH


@dataclass(frozen=True, slots=True)
class WorstCase:
    """`bound_trials`, `bound_seconds`: largest number of trials, and time, until one search has the bounds of RFC 9971
    for all goals, if no coarser target is wrong. `trials`, `seconds`, `requests`: of everything, whatever the trials
    measure. The time limit bounds them, because the search adds trials until the bracket is narrow, and counts each
    trial with at least the shortest length. The last trial may take longer than expected. `requests` (expected number)
    is None for loads in testers."""

    bound_trials: int
    bound_seconds: float
    trials: int
    seconds: float
    requests: float | None


def worst_case(search: CapacitySearch) -> WorstCase:
    """Bounds of a search. Seconds contain the overhead of each trial."""
    overhead = search.limits.overhead_seconds
    lengths = [length for goal in search.goals for length in _bound_trials(search, goal)]
    least, seconds = shortest(search.goals), search.limits.max_seconds
    trials = min(search.limits.max_trials, math.floor(seconds / least))
    warm_up = least + overhead
    return WorstCase(
        bound_trials=1 + len(lengths),
        bound_seconds=warm_up + sum(lengths) + overhead * len(lengths),
        trials=trials,
        seconds=seconds,
        requests=seconds * search.grid.high if search.axis is Axis.RATE else None,
    )


def _bound_trials(search: CapacitySearch, goal: Goal) -> list[float]:
    """Lengths of the trials for one goal: the approach by doubling, the bisection to the coarsest width, and for each
    further target the middle of the interval, one refined end, and one extension."""
    grid, rate = search.grid, search.axis is Axis.RATE
    coarsest, *finer = goal.targets()
    lengths = []
    for load in _approach(grid):
        lengths += _decision(goal, coarsest.seconds, coarsest.sum_seconds, load if rate else None)
    lowest = grid.low if rate else None
    for _ in range(max(0, math.ceil(math.log2(GROWTH / coarsest.log_width)))):
        lengths += _decision(goal, coarsest.seconds, coarsest.sum_seconds, lowest)
    for target in finer:
        for _ in range(3):
            lengths += _decision(goal, target.seconds, target.sum_seconds, lowest)
    return lengths


def _approach(grid: LoadGrid) -> list[float]:
    loads = [grid.low]
    while loads[-1] < grid.high:
        loads.append(grid.up(loads[-1], GROWTH))
    return loads


def _decision(goal: Goal, seconds: float, total: float, rate: float | None) -> list[float]:
    """Trials that decide one load at the latest: their sum is the sum of the target."""
    length = trial_seconds(rate, seconds, goal.starts)
    return [length] * math.ceil(total / length - 1e-9)
