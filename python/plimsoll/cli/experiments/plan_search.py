"""What `plimsoll plan` prints of a search: its range, goals and worst case instead of a list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plimsoll.assemble.adaptive.search_request import capacity_search
from plimsoll.assemble.like_search import EarlierCell, expected_search, start_lines
from plimsoll.plan import Plan
from plimsoll.plan.model.search import Search, SearchGoal
from plimsoll.plan.sections.search import load_label
from plimsoll.plan.source.units import NS, about_duration
from plimsoll.search.worst_case import worst_case


def search_lines(plan: Plan, search: Search) -> list[str]:
    """The search of a plan as lines of text."""
    capacity = capacity_search(search, plan.seed)
    worst = worst_case(capacity)
    loads = f"{load_label(search.axis, search.low)} to {load_label(search.axis, search.high)}"
    cells = len(plan.runs)
    each = f" of each of {cells} cells" if cells > 1 else ""
    searches = "1 search" if search.repeat == 1 else f"{search.repeat} searches"
    requests = "" if worst.requests is None else f", {worst.requests * cells:,.0f} requests"
    trials = f"{worst.trials * cells:,} trials"
    lines = [
        f"search: {search.axis} from {loads} ({len(capacity.grid.loads)} loads), {searches}{each}",
        *(f"goal: {_goal(goal)}" for goal in search.goals),
        f"trials: {_time(search.initial_s)} to {_time(search.final_s)}, longer at loads with too few starts; a load is "
        f"decided after {_time(search.sum_s)}",
        f"sought: the load at which {100 * search.exceed:g} % of the trials exceed the goal",
        f"first bounds: at most {worst.bound_trials} trials ({_time(worst.bound_seconds)}){each}",
        f"at most: {_time(search.max_time_s * cells)}, {trials}{requests} (search.max_time{each})",
    ]
    if search.hysteresis:
        lines.append("then: the approach from above")
    if search.confirm:
        lines.append(f"then: {search.confirm} confirming runs at each end of each bracket")
    return lines


def like_search_lines(search: Search, cells: Sequence[EarlierCell], directory: Path) -> list[str]:
    """Where the search of each cell begins, and what all are expected to take, with the assumption."""
    expected = expected_search(search, cells)
    others = ""
    if expected.others:
        what = "1 other cell" if expected.others == 1 else f"{expected.others} other cells, each"
        others = f", and at most {_time(search.max_time_s)} for {what}"
    return [
        f"assumption: a search takes as long as in {directory}, with its trials and widths",
        *(f"start: {line}" for line in start_lines(search, cells, directory)),
        f"expected: {_time(expected.seconds)}, {expected.requests:,.0f} requests{others}",
    ]


def like_document(search: Search, cells: Sequence[EarlierCell]) -> dict[str, Any]:
    """The same as plain data. `start`: null for the lowest load."""
    expected = expected_search(search, cells)
    return {
        "starts": [{"cell": dict(cell.labels), "load": cell.start} for cell in cells],
        "expected_s": expected.seconds,
        "expected_requests": expected.requests,
        "other_cells": expected.others,
    }


def _goal(goal: SearchGoal) -> str:
    rules = [
        *([f"response {goal.response}"] if goal.response else []),
        *([f"errors {goal.errors}"] if goal.errors else []),
    ]
    return f"{goal.name}: {', '.join(rules)}, width {100 * goal.width:g} %"


def _time(seconds: float) -> str:
    return about_duration(seconds * NS["s"])
