"""The trials of a search: in their order, with the bounds as they close in, and response time against load."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import altair as alt

from plimsoll.analyse.answer.load.search import capacity_words
from plimsoll.analyse.results.load.search import (
    FoundCapacity,
    SearchCell,
    SearchResult,
    SearchTrial,
    SoughtGoal,
)
from plimsoll.analyse.results.wording import level_words, plural
from plimsoll.plan import Rule, parse_rule
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
_COLOURS: Final = {HELD: "#0a84c6", EXCEEDED: "#d55e00", INVALID: "#6b7785"}
_SHAPES: Final = {HELD: "circle", EXCEEDED: "triangle-up", INVALID: "cross"}
Panels = Sequence[tuple[SearchCell, SoughtGoal]]


def figures(labels: Labels) -> list[Figure]:
    """The trials in their order, with the bounds, and the percentile that each goal limits against the load; none
    without a search, or without a trial. Each has a panel for each goal in each cell."""
    result = labels.analysis.search
    if result is None or not result.cells:
        return []
    shown = [(cell, goal) for cell in result.cells for goal in result.goals][:MAX_PANELS]
    limited = [(cell, goal) for cell, goal in shown if any(goal.name in t.percentile_ms for t in cell.trials)]
    drawn = [_trials(labels, result, shown)]
    return [*drawn, _percentiles(labels, result, limited)] if limited else drawn


def _trials(labels: Labels, result: SearchResult, shown: Panels) -> Figure:
    names = [f"trials{at}" for at, _ in enumerate(shown)]
    data = {name: _rows(cell, goal) for name, (cell, goal) in zip(names, shown, strict=True)}
    panels = [
        _panel(name, data[name], _title(cell, goal), _found(cell, goal), labels.load_title)
        for name, (cell, goal) in zip(names, shown, strict=True)
    ]
    words = [
        f"{_title(cell, goal)}: {capacity_words(result, goal, found)}"
        for cell, goal in shown
        if (found := _found(cell, goal)) is not None
    ]
    return Figure(
        key="trials",
        title="Trials of the search",
        chart=finish(_stacked(panels), **data),
        alt="; ".join(words) or "The search is not finished.",
        table=tables.trials(result),
        caption="Each point is a trial; its area grows with its length. The steps are the lower and the upper bound "
        "of each search after each trial. The horizontal lines are the ends of the reported bracket, or of the "
        f"interval over several searches.{_left(result, shown)}",
    )


def _percentiles(labels: Labels, result: SearchResult, shown: Panels) -> Figure:
    names = [f"percentiles{at}" for at, _ in enumerate(shown)]
    panels, data, has_beyond = [], {}, False
    for name, (cell, goal) in zip(names, shown, strict=True):
        limit = parse_rule(goal.response, "response")
        rows, is_beyond = _percentile_rows(cell, goal, limit.value * 1000)
        data[name], has_beyond = rows, has_beyond or is_beyond
        panels.append(_percentile_panel(name, rows, _title(cell, goal), limit, labels.load_title))
    beyond = (
        " A point at the upper edge: the percentile is among the starts that failed or did not take place."
        if has_beyond
        else ""
    )
    return Figure(
        key="percentiles",
        title="Response time of the trials against the load",
        chart=finish(_stacked(panels), **data),
        alt="; ".join(f"{_title(cell, goal)}: limit {goal.response}" for cell, goal in shown),
        table=tables.percentiles(result),
        caption="Each point is a trial: the percentile that the goal limits, over all planned starts. The dashed line "
        f"is the limit. Trials can also exceed a goal by errors.{beyond}{_left(result, shown)}",
    )


def _stacked(panels: list[Chart]) -> Chart:
    return panels[0] if len(panels) == 1 else alt.vconcat(*panels)


def _left(result: SearchResult, shown: Panels) -> str:
    left = len(result.cells) * len(result.goals) - len(shown)
    return f" {plural(left, 'panel')} more: see the table." if left > 0 and len(shown) == MAX_PANELS else ""


def _title(cell: SearchCell, goal: SoughtGoal) -> str:
    return ", ".join(part for part in (goal.name, level_words(cell.cell)) if part)


def _found(cell: SearchCell, goal: SoughtGoal) -> FoundCapacity | None:
    return next((found for found in cell.capacities if found.goal == goal.name), None)


def _rows(cell: SearchCell, goal: SoughtGoal) -> Rows:
    return [
        {
            "order": order,
            "search": trial.search + 1,
            "lower": trial.bounds.get(goal.name, (None, None))[0],
            "upper": trial.bounds.get(goal.name, (None, None))[1],
            "elapsed": round(elapsed),
            "load": trial.load,
            "outcome": _outcome(trial, goal),
            "loss": trial.loss_ratio.get(goal.name),
            "percentile": trial.percentile_ms.get(goal.name),
            "seconds": trial.seconds,
            "run": trial.run,
            "why": trial.reason,
        }
        for order, (trial, elapsed) in enumerate(
            zip(cell.trials, accumulate(trial.spent_s for trial in cell.trials), strict=True), start=1
        )
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
    base = chart_of(name)
    x = alt.X("order:Q", title="trial", axis=alt.Axis(grid=False, format=",~f"))
    points = _marks(base, load_title).encode(x=x, y=_load("load", loads, load_title))
    path = base.mark_line(strokeWidth=0.5, opacity=0.4, color=INK).encode(x=x, y="load:Q")
    steps = [
        base.mark_line(
            interpolate="step-after", strokeWidth=1.5, opacity=0.6, color=_COLOURS[outcome]
        ).encode(x=x, y=f"{end}:Q", detail="search:N")
        for end, outcome in (("lower", HELD), ("upper", EXCEEDED))
    ]
    drawn: Chart = alt.layer(path, *steps, points, *(level("y", end) for end in _ends(found)))
    return drawn.properties(width=WIDTH, height=HEIGHT * 3 // 4, title=title)


def _marks(base: alt.Chart, load_title: str) -> alt.Chart:
    """A mark for each trial, without its position."""
    outcomes = list(_COLOURS)
    marks: alt.Chart = base.mark_point(filled=True, opacity=0.9).encode(
        color=alt.Color(
            "outcome:N", title=None, scale=alt.Scale(domain=outcomes, range=list(_COLOURS.values()))
        ),
        shape=alt.Shape(
            "outcome:N", title=None, scale=alt.Scale(domain=outcomes, range=list(_SHAPES.values()))
        ),
        size=alt.Size("seconds:Q", legend=None, scale=alt.Scale(range=[20, 120])),
        tooltip=[
            alt.Tooltip("run:N"),
            alt.Tooltip("search:Q"),
            alt.Tooltip("load:Q", title=load_title, format=".4~r"),
            alt.Tooltip("loss:Q", format=".2%"),
            alt.Tooltip("percentile:Q", title="percentile (ms)", format=".3~r"),
            alt.Tooltip("seconds:Q"),
            alt.Tooltip("elapsed:Q", title="seconds spent so far"),
            alt.Tooltip("why:N"),
        ],
    )
    return marks


def _load(field: str, values: list[float], title: str) -> alt.Y:
    domain, ticks = log_axis(values)
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(values=ticks, format=axis_format(values)),
    )


def _percentile_rows(cell: SearchCell, goal: SoughtGoal, limit_ms: float) -> tuple[Rows, bool]:
    """The trials that measured something, and whether a percentile is beyond all measured times: it is drawn at the
    upper end of the axis."""
    rows = [
        row
        for row, trial in zip(_rows(cell, goal), cell.trials, strict=True)
        if goal.name in trial.percentile_ms
    ]
    known = [row["percentile"] for row in rows if row["percentile"] is not None]
    top = log_axis([*known, limit_ms])[0][1]
    shown = [row | {"at": top if row["percentile"] is None else row["percentile"]} for row in rows]
    return shown, len(known) < len(rows)


def _percentile_panel(name: str, rows: Rows, title: str, limit: Rule, load_title: str) -> Chart:
    loads = [row["load"] for row in rows]
    domain, ticks = log_axis(loads)
    x = alt.X(
        "load:Q",
        title=load_title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(values=ticks, format=axis_format(loads), grid=False),
    )
    limit_ms = limit.value * 1000
    what = "median" if limit.arg is None else f"p{limit.arg:g}"
    y = _load("at", [*(row["at"] for row in rows), limit_ms], f"{what} of the response time (ms)")
    points = _marks(chart_of(name), load_title).encode(x=x, y=y)
    drawn: Chart = alt.layer(points, level("y", limit_ms))
    return drawn.properties(width=WIDTH, height=HEIGHT * 3 // 4, title=title)
