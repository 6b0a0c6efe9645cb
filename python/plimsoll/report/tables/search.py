"""The result of a search, and every trial of it, as tables. Pure."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.answer.search import amount, capacity_words, ending_of
from plimsoll.analyse.results.search import BracketEnd, FoundCapacity, SearchCell, SearchResult, SearchTrial
from plimsoll.analyse.results.wording import UNKNOWN, count, level_words, number, percent
from plimsoll.report.tables.table import Table, table_of

FOUND: Final = (
    "The load at which a trial of the final length exceeds the goal with the probability `exceed`. Lower, upper: the "
    "bracket of the first search that has one, with the trials there that exceeded the goal, of those of the final "
    "length."
)
TRIALS: Final = (
    "Every trial, in order. Loss: share of the planned starts that failed, did not take place or took longer than the "
    "limit; * more than a rule of the goal allows."
)


def found(result: SearchResult) -> Table:
    """A row for each goal in each cell."""
    goals = {goal.name: goal for goal in result.goals}
    rows = [
        (
            *_cell_words(result, cell),
            one.goal,
            capacity_words(result, goals[one.goal], one),
            ending_of(one),
            *_ends(one),
        )
        for cell in result.cells
        for one in cell.capacities
    ]
    cell = "Cell|" if _has_cells(result) else ""
    return table_of("Capacity found", f"{cell}Goal|Load|Ended by", "Lower|Upper", rows, FOUND)


def trials(result: SearchResult) -> Table:
    """A row for each trial."""
    names = [goal.name for goal in result.goals]
    rows = [
        (
            trial.run,
            *_cell_words(result, cell),
            trial.why,
            trial.reason,
            count(trial.search + 1),
            amount(trial.load),
            number(trial.seconds),
            *(_loss(trial, name) for name in names),
        )
        for cell in result.cells
        for trial in cell.trials
    ]
    cell = "Cell|" if _has_cells(result) else ""
    losses = "|".join(f"Loss ({name})" for name in names)
    return table_of("Trials", f"Run|{cell}Rule|Why", f"Search|Load|Seconds|{losses}", sorted(rows), TRIALS)


def _has_cells(result: SearchResult) -> bool:
    return any(cell.cell for cell in result.cells)


def _cell_words(result: SearchResult, cell: SearchCell) -> tuple[str, ...]:
    return (level_words(cell.cell),) if _has_cells(result) else ()


def _ends(found: FoundCapacity) -> tuple[str, str]:
    for one in found.searches:
        if one.lower is not None and one.upper is not None:
            return _end(one.lower), _end(one.upper)
    last = found.searches[-1]
    return _end(last.lower), _end(last.upper)


def _end(end: BracketEnd | None) -> str:
    return UNKNOWN if end is None else f"{amount(end.load)} ({end.high} of {end.trials})"


def _loss(trial: SearchTrial, goal: str) -> str:
    if goal not in trial.loss_ratio:
        return f"invalid ({trial.invalid})" if trial.invalid else UNKNOWN
    return percent(trial.loss_ratio[goal]) + (" *" if trial.high_loss[goal] else "")
