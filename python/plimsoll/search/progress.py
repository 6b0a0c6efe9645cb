"""The bounds of a search after each of its trials, for reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from plimsoll.search.capacity import CapacitySearch
from plimsoll.search.classify import Bounds
from plimsoll.search.strategy import current_target, target_states
from plimsoll.search.trials import Rule, TrialResult


def bounds_after(search: CapacitySearch, results: Sequence[TrialResult]) -> Iterator[dict[str, Bounds]]:
    """By name of the goal, the bounds of the search of each result after it: those of the finest target that has both,
    up to the one that the search works on, else those of the coarsest. Empty for the approach from above and for
    confirming runs."""
    loads: dict[int, dict[float, list[TrialResult]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result.search >= search.repeat:
            yield {}
            continue
        by_load = loads[result.search]
        if result.invalid is None and result.rule is not Rule.WARM_UP:
            by_load[result.load].append(result)
        bounds = {}
        for goal in search.goals:
            states = target_states(by_load, goal, search.grid)
            reached = states[: current_target(states) + 1]
            shown = next((state for state in reversed(reached) if state.is_enclosed), states[0])
            bounds[goal.name] = shown.bounds
        yield bounds
