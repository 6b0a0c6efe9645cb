"""The memory of services against the number of testers: a point for each run, and the least-squares line."""

from __future__ import annotations

from typing import Final

import altair as alt

from plimsoll.analyse.results.components.memory import MemoryGrowth
from plimsoll.analyse.results.wording import scale
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import (
    HEIGHT,
    WIDTH,
    Chart,
    Rows,
    axis_format,
    chart_of,
    combination_colour,
    combination_dash,
    combination_shape,
    finish,
    level,
)
from plimsoll.report.labels import ONLY, Labels
from plimsoll.report.tables.resources import memory as tables

MAX_PANELS: Final = 6
MAX_TICKS: Final = 12
NEAR: Final = 1.5
"""The size at which memory is full is drawn up to this multiple of the greatest value; a greater one would make the
points flat."""


def memory(labels: Labels) -> Figure | None:
    """A panel for each service whose memory grows; None if none does."""
    growths = tables.growing(labels)
    if not growths:
        return None
    services = list(dict.fromkeys(growth.component for growth in growths))[:MAX_PANELS]
    panels: list[Chart] = []
    data: dict[str, Rows] = {}
    for at, service in enumerate(services):
        of_service = [growth for growth in growths if growth.component == service]
        most = max((point.memory for growth in of_service for point in growth.points), default=0.0)
        factor, unit = scale(most, "bytes")
        points, lines = _points(labels, of_service, factor), _lines(labels, of_service, factor)
        data |= {f"memory{at}": points, f"memory{at}_lines": lines}
        sizes = [growth.capacity for growth in of_service if growth.capacity is not None]
        near = [size * factor for size in sizes if size <= NEAR * most]
        panels.append(
            _panel(labels, f"memory{at}", points, f"own memory of {service} ({unit})", sorted(set(near)))
        )
    chart: Chart = panels[0] if len(panels) == 1 else alt.vconcat(*panels)
    return Figure(
        key="memory",
        title="Memory against the number of testers",
        chart=finish(chart, **data),
        alt="; ".join(_words(labels, growth) for growth in growths[:16]),
        table=tables.points(labels),
        caption="Each point is the mean of one run; the line is the least-squares line over the runs, drawn over the "
        "numbers of testers that were tried. A dashed horizontal line is the size at which memory is full.",
    )


def _words(labels: Labels, growth: MemoryGrowth) -> str:
    label = labels.combination(growth.combination)
    where = "" if label == ONLY else f" ({label})"
    return f"{growth.component}{where}: {growth.verdict}, {tables.slope_words(growth.slope)} per tester"


def _points(labels: Labels, growths: list[MemoryGrowth], factor: float) -> Rows:
    return [
        {
            "testers": point.testers,
            "memory": point.memory * factor,
            "combination": labels.combination(growth.combination),
            "run": point.run,
        }
        for growth in growths
        for point in growth.points
    ]


def _lines(labels: Labels, growths: list[MemoryGrowth], factor: float) -> Rows:
    return [
        {
            "testers": testers,
            "memory": (growth.intercept + growth.slope.mean * testers) * factor,
            "combination": labels.combination(growth.combination),
        }
        for growth in growths
        if growth.intercept is not None
        for testers in (growth.loads[0], growth.loads[-1])
    ]


def _panel(labels: Labels, name: str, rows: Rows, title: str, full: list[float]) -> Chart:
    tried = sorted({row["testers"] for row in rows})
    ticks = tried if len(tried) <= MAX_TICKS else alt.Undefined
    x = alt.X(
        "testers:Q",
        title="number of testers",
        scale=alt.Scale(domainMin=0),
        axis=alt.Axis(grid=False, format=axis_format(tried), values=ticks, labelOverlap=True),
    )
    y = alt.Y(
        "memory:Q",
        title=title,
        scale=alt.Scale(domainMin=0),
        axis=alt.Axis(tickCount=6, format=axis_format(row["memory"] for row in rows)),
    )
    colour, dash = combination_colour(labels), combination_dash(labels)
    line = chart_of(f"{name}_lines").mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
    points = (
        chart_of(name)
        .mark_point(filled=True, size=45, opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=combination_shape(labels),
            tooltip=[
                alt.Tooltip("combination:N"),
                alt.Tooltip("run:N"),
                alt.Tooltip("testers:Q"),
                alt.Tooltip("memory:Q", title=title, format=".4~r"),
            ],
        )
    )
    drawn: Chart = alt.layer(line, points, *(level("y", size) for size in full))
    return drawn.properties(width=WIDTH, height=HEIGHT * 3 // 4)
