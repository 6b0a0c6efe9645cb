"""The steps of a ramp of testers: the parts of the run with the same number of active testers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plimsoll.analyse.window.load_profile import MAX_BINS, Joins
from plimsoll.analyse.window.transactions import Window

MIN_NS = 10**9
"""Minimum length of a step with figures of its own, ns. A shorter one is merged with its neighbour."""
MIN_COUNT = 30
"""Minimum number of transactions of such a step."""
MAX_EVENTS = 100_000
"""Maximum number of joins and leaves. A ramp with more of them has no steps, only bins."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the run in which the number of active testers is `low`, or between `low` and `high` if it contains
    several steps of the plan (`merged`). Times in ns."""

    start: int
    end: int
    low: int
    high: int
    merged: int = 1


def planned_steps(joins: Joins, measured: Window) -> list[Step]:
    """The parts of the measured window with the same number of active testers, in order of time. Empty if their number
    never changes, or with more than MAX_EVENTS events."""
    if joins.testers * 2 > MAX_EVENTS:
        return []
    changes: dict[int, int] = {}
    for tester in range(joins.testers):
        at = tester * joins.every
        changes[at] = changes.get(at, 0) + 1
        if joins.life is not None:
            changes[at + joins.life] = changes.get(at + joins.life, 0) - 1
    edges = sorted(at for at, change in changes.items() if change)
    active = 0
    steps = []
    for start, end in pairwise([*edges, measured.end if joins.life is None else edges[-1]]):
        active += changes[start]
        low, high = max(start, measured.start), min(end, measured.end)
        if high > low:
            steps.append(Step(low, high, active, active))
    return steps if len({step.low for step in steps}) > 1 else []


def min_length_ns(total_ns: int) -> int:
    """Minimum length of a step of a ramp of this length: there are about MAX_BINS steps at most."""
    return max(MIN_NS, -(-total_ns // MAX_BINS))


def merged_steps(steps: Sequence[Step], count: Callable[[int, int], float]) -> list[Step]:
    """The steps, with those merged that are too short or have too few transactions for figures of their own: with the
    next ones, or at the end of a rise or fall with the one before. A rise, a fall and the time between them remain
    apart. `count`: number of transactions that ended between two times, ns."""
    least = min_length_ns(sum(step.end - step.start for step in steps))
    merged: list[Step] = []
    for part in _monotonous(steps):
        done: list[Step] = []
        current: Step | None = None
        for step in part:
            current = step if current is None else _joined(current, step)
            if current.end - current.start >= least and count(current.start, current.end) >= MIN_COUNT:
                done.append(current)
                current = None
        if current is not None:
            done = [*done[:-1], _joined(done[-1], current)] if done else [current]
        merged += done
    return merged


def _joined(first: Step, second: Step) -> Step:
    low, high = min(first.low, second.low), max(first.high, second.high)
    return Step(first.start, second.end, low, high, first.merged + second.merged)


def _monotonous(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps before the highest load, those of the highest load, and those after it."""
    top = max((step.low for step in steps), default=0)
    at = [index for index, step in enumerate(steps) if step.low == top]
    if not at:
        return []
    first, last = at[0], at[-1] + 1
    return [part for part in (list(steps[:first]), list(steps[first:last]), list(steps[last:])) if part]
