"""A search that begins where an earlier one found its brackets (`--like DIR`), and what it is expected to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from plimsoll.analyse.results.load.search import FoundCapacity, SearchCell
from plimsoll.assemble.adaptive.search_request import capacity_search
from plimsoll.assemble.adaptive.search_result import search_result
from plimsoll.collect.results import Results, open_results
from plimsoll.errors import BadInput
from plimsoll.plan import Plan
from plimsoll.plan.model.search import Search, SearchGoal
from plimsoll.plan.sections.search import load_label
from plimsoll.search.grid import LoadGrid


@dataclass(frozen=True, slots=True)
class EarlierCell:
    """A cell of the plan. `start`: the load of the search at or below the lowest bracket of the earlier search in the
    same cell; None: there is none. `seconds`, `requests`: of one of its complete searches, with starts and pauses."""

    index: int
    labels: Mapping[str, str]
    start: float | None
    seconds: float
    requests: float


@dataclass(frozen=True, slots=True)
class ExpectedSearch:
    """What the searches of the cells that have a start are expected to take, all together. `others`: number of the
    other cells."""

    seconds: float
    requests: float
    others: int


def earlier_cells(plan: Plan, directory: Path) -> list[EarlierCell]:
    """The cells of a plan with a search, with what the results in `directory` say about each. Raises BadInput if these
    have no search, or one on another axis or for other goals, or no bracket of any cell of the plan."""
    search = plan.experiment.search
    if search is None:
        raise BadInput(f"--like {directory}: the experiment file has no `search`")
    results = open_results(directory)
    found = search_result(results)
    if found is None:
        raise BadInput(f"--like {directory}: these results are not those of a search")
    _require_same(search, Search.from_json(results.plan["search"]), directory)
    grid = capacity_search(search, plan.seed).grid
    by_labels = {tuple(sorted(cell.cell.items())): cell for cell in found.cells}
    cells = [
        _earlier(number, dict(cell.labels), by_labels.get(tuple(sorted(cell.labels.items()))), results, grid)
        for number, cell in enumerate(plan.experiment.cells)
    ]
    if all(cell.start is None for cell in cells):
        raise BadInput(f"--like {directory}: no cell of the experiment file has a bracket there")
    return cells


def starts_of(cells: Sequence[EarlierCell]) -> dict[int, float]:
    """The load at which the search of each cell begins, by the index of the cell."""
    return {cell.index: cell.start for cell in cells if cell.start is not None}


def start_lines(search: Search, cells: Sequence[EarlierCell], directory: Path) -> list[str]:
    """Where the search of each cell begins, as text."""
    texts = []
    for cell in cells:
        head = ", ".join(f"{name} {level}" for name, level in cell.labels.items())
        at = search.low if cell.start is None else cell.start
        why = (
            f"no bracket in {directory}"
            if cell.start is None
            else f"the lower end of the bracket in {directory}"
        )
        load = load_label(search.axis, at)
        texts.append(f"{head + ': ' if head else ''}the search begins at {load}, {why}")
    return texts


def expected_search(search: Search, cells: Sequence[EarlierCell]) -> ExpectedSearch:
    """Time and requests of `search.repeat` searches, each like those of the earlier results, within `max_time`."""
    known = [cell for cell in cells if cell.start is not None]
    seconds = requests = 0.0
    for cell in known:
        whole = search.repeat * cell.seconds
        share = min(1.0, search.max_time_s / whole) if whole else 1.0
        seconds += share * whole
        requests += share * search.repeat * cell.requests
    return ExpectedSearch(seconds, requests, len(cells) - len(known))


def _require_same(search: Search, earlier: Search, directory: Path) -> None:
    """Raises BadInput if two searches do not look for the same loads."""
    if earlier.axis != search.axis:
        raise BadInput(
            f"--like {directory}: its search varies {earlier.axis}, that of the file {search.axis}"
        )
    if _rules(earlier.goals) != _rules(search.goals):
        raise BadInput(
            f"--like {directory}: its goals are {_goal_words(earlier.goals)}; those of the file are "
            f"{_goal_words(search.goals)}"
        )


def _rules(goals: Sequence[SearchGoal]) -> dict[str, tuple[str, str]]:
    return {goal.name: (goal.response, goal.errors) for goal in goals}


def _goal_words(goals: Sequence[SearchGoal]) -> str:
    rules = (
        (goal.name, (goal.response and f"response {goal.response}", goal.errors and f"errors {goal.errors}"))
        for goal in goals
    )
    return ", ".join(f"{name} ({', '.join(filter(None, texts))})" for name, texts in rules)


def _earlier(
    index: int, labels: dict[str, str], cell: SearchCell | None, results: Results, grid: LoadGrid
) -> EarlierCell:
    if cell is None:
        return EarlierCell(index, labels, None, 0.0, 0.0)
    ends = [end for found in cell.capacities if (end := _lower_end(found)) is not None]
    seconds, requests = _of_one_search(cell, results)
    start = grid.at_most(min(ends)) if ends else None
    return EarlierCell(index, labels, start, seconds, requests)


def _lower_end(found: FoundCapacity) -> float | None:
    """The lower end of the interval over the searches, or of the first bracket."""
    ends = (one.lower.load for one in found.searches if one.lower is not None)
    return found.low if found.low is not None else next(ends, None)


def _of_one_search(cell: SearchCell, results: Results) -> tuple[float, float]:
    """Mean seconds and planned starts of a complete search. The first one began at the lowest load: it counts only if
    there is no other."""
    repeat = results.plan["search"]["repeat"]
    lines = [
        line
        for line in results.decisions
        if "result" in line and line["cell"] == cell.cell and line["search"] < repeat
    ]
    by_search: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        by_search.setdefault(line["search"], []).append(line["result"])
    later = [own for number, own in by_search.items() if number > 0] or list(by_search.values())
    seconds = fmean(sum(one["spent_s"] for one in own) for own in later)
    requests = fmean(sum(one["starts"] or 0 for one in own) for own in later)
    return seconds, requests
