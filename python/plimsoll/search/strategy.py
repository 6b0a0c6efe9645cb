"""Which load comes next for one target: start, extend, halve, refine, bisect.

The rules are those of FD.io's CSIT, in its order: halve the interval of the coarser target, refine its lower and
then its upper bound, extend beyond it where it was wrong, bisect. All are functions of the results, so a search that
is resumed makes the same trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.search.classify import Bounds, LoadClass, Sums, classify, relevant_bounds
from plimsoll.search.goals import Goal, Target
from plimsoll.search.grid import LoadGrid
from plimsoll.search.trials import Rule, TrialResult

GROWTH = math.log(2)
"""Step of the first approach, in log load: each load is twice the one before."""


@dataclass(frozen=True, slots=True)
class Candidate:
    load: float
    rule: Rule
    reason: str


@dataclass(frozen=True, slots=True)
class TargetState:
    """The bounds of one target, and whether they suffice."""

    target: Target
    classes: Mapping[float, LoadClass]
    bounds: Bounds
    is_done: bool

    @staticmethod
    def of(
        by_load: Mapping[float, Sequence[TrialResult]], goal: str, target: Target, grid: LoadGrid
    ) -> TargetState:
        classes = {
            load: classify(Sums.of(trials, goal, target.seconds), target) for load, trials in by_load.items()
        }
        bounds = relevant_bounds(classes)
        return TargetState(target, classes, bounds, _suffice(bounds, target, grid))

    @property
    def is_enclosed(self) -> bool:
        return self.bounds.lower is not None and self.bounds.upper is not None

    @property
    def has_decided(self) -> bool:
        return self.bounds.lower is not None or self.bounds.upper is not None


def target_states(
    by_load: Mapping[float, Sequence[TrialResult]], goal: Goal, grid: LoadGrid
) -> list[TargetState]:
    return [TargetState.of(by_load, goal.name, target, grid) for target in goal.targets()]


def current_target(states: Sequence[TargetState]) -> int:
    """Index of the target to work on; the number of targets if the last is done. A target that was reached is not left
    for a coarser one again when a later trial contradicts the coarser one."""
    index = 0
    for k, state in enumerate(states):
        if state.is_done:
            index = k + 1
        elif state.has_decided and (states[0].is_enclosed or states[0].is_done):
            index = max(index, k)
    return index


def candidate(
    state: TargetState, before: TargetState | None, grid: LoadGrid, start: float | None
) -> Candidate:
    """The next load for a target that is not done. `before`: the coarser target; `start`: where an earlier search
    found its lower bound."""
    bounds = state.bounds
    coarse = before.bounds if before is not None else Bounds(start, start)
    if before is not None and (halved := _halved(state, before, grid)) is not None:
        return halved
    if bounds.lower is None and bounds.upper is None and before is None:
        return Candidate(start or grid.low, Rule.START, "it is the first load of the search")
    if bounds.lower is None:
        return _lower(bounds.upper, coarse, state, grid)
    if bounds.upper is None:
        return _upper(bounds.lower, coarse, state, grid)
    # The coarser target may be closer: trials of another goal give this one bounds that are far apart.
    if coarse.lower is not None and bounds.lower < coarse.lower < bounds.upper:
        return _lower(bounds.upper, coarse, state, grid)
    if coarse.upper is not None and bounds.lower < coarse.upper < bounds.upper:
        return _upper(bounds.lower, coarse, state, grid)
    middle = grid.middle(bounds.lower, bounds.upper)
    assert middle is not None, "a target whose bounds are neighbours is done"
    reason = f"the bounds {bounds.lower:g} and {bounds.upper:g} are too far apart"
    return Candidate(middle, Rule.BISECT, reason)


def _halved(state: TargetState, before: TargetState, grid: LoadGrid) -> Candidate | None:
    lower, upper = before.bounds.lower, before.bounds.upper
    if lower is None or upper is None:
        return None
    middle = grid.middle(lower, upper)
    if middle is None or state.classes.get(middle, LoadClass.UNDECIDED) is not LoadClass.UNDECIDED:
        return None
    if state.bounds.lower is not None and middle <= state.bounds.lower:
        return None
    if state.bounds.upper is not None and middle >= state.bounds.upper:
        return None
    reason = f"it halves the interval {lower:g} to {upper:g} of the coarser target"
    return Candidate(middle, Rule.HALVE, reason)


def _lower(upper: float | None, coarse: Bounds, state: TargetState, grid: LoadGrid) -> Candidate:
    if coarse.lower is not None and (upper is None or coarse.lower < upper):
        reason = f"{coarse.lower:g} is a lower bound of the coarser target only"
        return Candidate(coarse.lower, Rule.REFINE_LOWER, reason)
    if upper is None:  # neither the coarser target nor this one has a bound below
        assert coarse.upper is not None, "a coarser target that is done has a bound"
        reason = f"{coarse.upper:g} is an upper bound of the coarser target only"
        return Candidate(coarse.upper, Rule.REFINE_UPPER, reason)
    distance = _distance(coarse.lower or coarse.upper, upper, state.target)
    reason = f"{upper:g} is an upper bound, and no lower bound is known"
    return Candidate(grid.down(upper, distance), Rule.EXTEND_DOWN, reason)


def _upper(lower: float, coarse: Bounds, state: TargetState, grid: LoadGrid) -> Candidate:
    if coarse.upper is not None and coarse.upper > lower and coarse.upper <= grid.high:
        reason = f"{coarse.upper:g} is an upper bound of the coarser target only"
        return Candidate(coarse.upper, Rule.REFINE_UPPER, reason)
    distance = _distance(coarse.upper or coarse.lower, lower, state.target)
    reason = f"{lower:g} is a lower bound, and no upper bound is known"
    return Candidate(grid.up(lower, distance), Rule.EXTEND_UP, reason)


def _distance(origin: float | None, bound: float, target: Target) -> float:
    """Step beyond a bound: the width of the target, plus the way already made from where the coarser target was, so
    steps double. Without a coarser target each load is twice, or half, the one before."""
    return GROWTH if origin is None else min(GROWTH, target.log_width + abs(math.log(bound / origin)))


def _suffice(bounds: Bounds, target: Target, grid: LoadGrid) -> bool:
    if bounds.upper is None:
        return bounds.lower is not None and bounds.lower >= grid.high
    if bounds.lower is None:
        return bounds.upper <= grid.low
    return grid.is_narrow(bounds.lower, bounds.upper, target.log_width)
