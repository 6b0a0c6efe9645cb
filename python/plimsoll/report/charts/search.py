"""The trials of a search in their order: the load of each, and whether it exceeded the goal."""

from __future__ import annotations

from typing import Final

import altair as alt

from plimsoll.analyse.answer.search import capacity_words
from plimsoll.analyse.results.search import FoundCapacity, SearchCell, SearchTrial, SoughtGoal
from plimsoll.analyse.results.wording import level_words
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import (
    HEIGHT,
    INK,
    WIDTH,
    Chart,
    Rows,
    axis_format,
    chart_of,
    finish,
    level,
    log_axis,
)
from plimsoll.report.labels import Labels
from plimsoll.report.tables import search as tables

MAX_PANELS: Final = 6
HELD: Final = "met the goal"
EXCEEDED: Final = "exceeded the goal"
INVALID: Final = "invalid"
_OUTCOMES: Final = (HELD, EXCEEDED, INVALID)


def trials(labels: Labels) -> Figure | None:
    """A panel for each goal in each cell; None without a search, or without a trial."""
    result = labels.analysis.search
    if result is None or not result.cells:
        return None
    shown = [(cell, goal) for cell in result.cells for goal in result.goals][:MAX_PANELS]
    data = {f"trials{at}": _rows(cell, goal) for at, (cell, goal) in enumerate(shown)}
    panels = [
        _panel(f"trials{at}", data[f"trials{at}"], _title(cell, goal), _found(cell, goal), labels.load_title)
        for at, (cell, goal) in enumerate(shown)
    ]
    words = [
        f"{_title(cell, goal)}: {capacity_words(result, goal, found)}"
        for cell, goal in shown
        if (found := _found(cell, goal)) is not None
    ]
    chart: Chart = panels[0] if len(panels) == 1 else alt.vconcat(*panels)
    return Figure(
        key="trials",
        title="Trials of the search",
        chart=finish(chart, **data),
        alt="; ".join(words) or "The search is not finished.",
        table=tables.trials(result),
        caption="Each point is a trial; its area grows with its length. The horizontal lines are the ends of the "
        "reported bracket, or of the interval over several searches.",
    )


def _title(cell: SearchCell, goal: SoughtGoal) -> str:
    return ", ".join(part for part in (goal.name, level_words(cell.cell)) if part)


def _found(cell: SearchCell, goal: SoughtGoal) -> FoundCapacity | None:
    return next((found for found in cell.capacities if found.goal == goal.name), None)


def _rows(cell: SearchCell, goal: SoughtGoal) -> Rows:
    return [
        {
            "order": order,
            "load": trial.load,
            "outcome": _outcome(trial, goal),
            "loss": trial.loss_ratio.get(goal.name),
            "seconds": trial.seconds,
            "run": trial.run,
            "why": trial.reason,
        }
        for order, trial in enumerate(cell.trials, start=1)
    ]


def _outcome(trial: SearchTrial, goal: SoughtGoal) -> str:
    if goal.name not in trial.high_loss:
        return INVALID
    return EXCEEDED if trial.high_loss[goal.name] else HELD


def _ends(found: FoundCapacity | None) -> list[float]:
    if found is None:
        return []
    if found.low is not None and found.high is not None:
        return [found.low, found.high]
    first = next((one for one in found.searches if one.lower and one.upper), found.searches[-1])
    return [end.load for end in (first.lower, first.upper) if end is not None]


def _panel(name: str, rows: Rows, title: str, found: FoundCapacity | None, load_title: str) -> Chart:
    loads = [row["load"] for row in rows]
    domain, ticks = log_axis(loads)
    outcome = alt.Scale(domain=list(_OUTCOMES))
    points = (
        chart_of(name)
        .mark_point(filled=True, opacity=0.9)
        .encode(
            x=alt.X("order:Q", title="trial", axis=alt.Axis(grid=False, format=",~f")),
            y=alt.Y(
                "load:Q",
                title=load_title,
                scale=alt.Scale(type="log", domain=domain, nice=False),
                axis=alt.Axis(values=ticks, format=axis_format(loads)),
            ),
            color=alt.Color("outcome:N", title=None, scale=outcome),
            shape=alt.Shape("outcome:N", title=None, scale=outcome),
            size=alt.Size("seconds:Q", legend=None, scale=alt.Scale(range=[20, 120])),
            tooltip=[
                alt.Tooltip("run:N"),
                alt.Tooltip("load:Q", title=load_title, format=".4~r"),
                alt.Tooltip("loss:Q", format=".2%"),
                alt.Tooltip("seconds:Q"),
                alt.Tooltip("why:N"),
            ],
        )
    )
    path = chart_of(name).mark_line(strokeWidth=0.5, opacity=0.4, color=INK).encode(x="order:Q", y="load:Q")
    drawn: Chart = alt.layer(path, points, *(level("y", end) for end in _ends(found)))
    return drawn.properties(width=WIDTH, height=HEIGHT * 3 // 4, title=title)
