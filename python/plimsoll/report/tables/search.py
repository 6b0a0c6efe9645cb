"""The result of a search, and every trial of it, as tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.answer.load.search import amount, capacity_words, ending_of
from plimsoll.analyse.results.load.search import (
    RATE,
    BracketEnd,
    FoundCapacity,
    SearchCell,
    SearchResult,
    SearchTrial,
)
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    degrees,
    factor_word,
    level_words,
    listing,
    number,
    percent,
    quantity,
)
from plimsoll.plan.source.units import NS, about_duration
from plimsoll.report.tables.table import Table, table_of

FOUND: Final = (
    "The load at which a trial of the final length exceeds the goal with the probability `exceed`. Lower, upper: the "
    "bracket of the first search that has one; in brackets, the trials of the final length at this load that exceeded "
    "the goal, of all of them there. Trials, time: of all goals of the cell, with starts, drains and pauses."
)
RATIOS: Final = (
    "The search is the unit, and the searches with one number form a block. All intervals of a goal together have a "
    "coverage of at least 95 % (Bonferroni)."
)
PERCENTILES: Final = (
    "The percentile that the goal limits, over the planned starts; a failure is longer than any time."
)
TRIALS: Final = (
    "Every trial, in order. Loss: share of the planned starts that failed, did not take place or took longer than the "
    "limit; * more than a rule of the goal allows. Spent: seconds with start, drain and pause."
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
            *([_throughput(one)] if result.axis != RATE else []),
            count(len(cell.trials)),
            about_duration(cell.spent_s * NS["s"]),
        )
        for cell in result.cells
        for one in cell.capacities
    ]
    cell = "Cell|" if _has_cells(result) else ""
    measured = "Requests/s at lower|" if result.axis != RATE else ""
    numbers = f"Lower|Upper|{measured}Trials|Time"
    return table_of("Capacity found", f"{cell}Goal|Load|Ended by", numbers, rows, FOUND)


def ratios(result: SearchResult) -> Table | None:
    """A row for each level that is compared with the first one; None without such levels."""
    has_others = any(one.over for one in result.ratios)
    rows = [
        (
            one.goal,
            level_words({one.factor: one.level}),
            level_words({one.factor: one.base}),
            *((_words(one.over), _words(one.depends_on)) if has_others else ()),
            number(one.ratio.mean),
            f"{number(one.ratio.low)} to {number(one.ratio.high)}",
            degrees(one.ratio.df),
        )
        for one in result.ratios
    ]
    heads = "Goal|Capacity with|Relative to" + ("|Mean over|Depends on" if has_others else "")
    return table_of("Ratios of capacities", heads, "Ratio|95 % interval|df", rows, RATIOS) if rows else None


def _words(factors: Sequence[str]) -> str:
    return listing(map(factor_word, factors)) or UNKNOWN


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
            number(trial.spent_s),
            *(_loss(trial, name) for name in names),
        )
        for cell in result.cells
        for trial in cell.trials
    ]
    cell = "Cell|" if _has_cells(result) else ""
    losses = "|".join(f"Loss ({name})" for name in names)
    return table_of(
        "Trials", f"Run|{cell}Rule|Why", f"Search|Load|Seconds|Spent|{losses}", sorted(rows), TRIALS
    )


def percentiles(result: SearchResult) -> Table:
    """A row for each trial: its load, and the percentile that each goal limits."""
    goals = [goal for goal in result.goals if goal.response]
    rows = [
        (
            trial.run,
            *_cell_words(result, cell),
            amount(trial.load),
            *(_percentile(trial, goal.name) for goal in goals),
        )
        for cell in result.cells
        for trial in cell.trials
    ]
    cell = "|Cell" if _has_cells(result) else ""
    times = "|".join(f"{goal.name} ({goal.response})" for goal in goals)
    return table_of("Response time of the trials", f"Run{cell}", f"Load|{times}", sorted(rows), PERCENTILES)


def _percentile(trial: SearchTrial, goal: str) -> str:
    if goal not in trial.percentile_ms:
        return UNKNOWN
    found = trial.percentile_ms[goal]
    return "failed or not started" if found is None else quantity(found, "ms")


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


def _throughput(found: FoundCapacity) -> str:
    measured = found.throughput
    if measured is None:
        return UNKNOWN
    return f"{number(measured.mean)} ({number(measured.low)} to {number(measured.high)})"


def _end(end: BracketEnd | None) -> str:
    if end is None:
        return UNKNOWN
    return amount(end.load) + (f" ({end.high} of {end.trials})" if end.trials else "")


def _loss(trial: SearchTrial, goal: str) -> str:
    if goal not in trial.loss_ratio:
        return f"invalid ({trial.invalid})" if trial.invalid else UNKNOWN
    return percent(trial.loss_ratio[goal]) + (" *" if trial.high_loss[goal] else "")
