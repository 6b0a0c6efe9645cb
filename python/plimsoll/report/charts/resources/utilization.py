"""Utilization of each component and throughput: the component that is full when throughput stops increasing."""

from __future__ import annotations

from typing import Any

import altair as alt

from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.wording import percent, quantity
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.load import axis_scale
from plimsoll.report.charts.theme import (
    WIDTH,
    Chart,
    Rows,
    axis_format,
    chart_of,
    combination_colour,
    finish,
    level,
    load_axis,
)
from plimsoll.report.labels import SHAPES, Labels
from plimsoll.report.tables import analysis as tables

COLUMNS = 3
COMPONENT_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
MAX_COMBINATIONS = 9
BAR = 13
"""Height of a bar with the gap below it, px. The text in it is placed at half of it: a text mark does not use the
middle of the band of its offset."""


def components(labels: Labels) -> list[str]:
    """Names of all components with a utilization, in the order of the runs."""
    return list(dict.fromkeys(usage.component for run in labels.analysis.runs for usage in run.utilization))


def utilization(labels: Labels) -> Figure | None:
    """Throughput above, utilization below, a column per combination; None if no component has a utilization."""
    names = components(labels)
    if not names:
        return None
    shown = labels.combinations[:MAX_COMBINATIONS]
    throughput, busy, unit = _rows(labels, shown)
    if not busy:
        return None
    if labels.load_factor is None:
        chart: Chart = _bars(labels, busy)
    else:
        groups = [shown[at : at + COLUMNS] for at in range(0, len(shown), COLUMNS)]
        chart = alt.vconcat(*(_group(labels, group, throughput, busy, unit, names) for group in groups))
    left = len(labels.combinations) - len(shown)
    return Figure(
        key="utilization",
        title="Utilization and throughput" if labels.load_factor else "Utilization",
        chart=finish(chart, throughput=throughput, busy=busy),
        alt=f"Busy share of {len(names)} components"
        + (", below the throughput, against the load." if labels.load_factor else "."),
        table=tables.utilization(labels),
        caption=("Points: the runs; lines: means of the repetitions. " if labels.load_factor else "")
        + "A service with one busy thread is full when that thread is."
        + (f" {left} more combinations are in the table only." if left else ""),
    )


def _rows(labels: Labels, shown: tuple[str, ...]) -> tuple[Rows, Rows, str]:
    metric = labels.throughput
    runs = [run for run in labels.runs() if run.valid and labels.combination(run.cell) in shown]
    factor, unit = axis_scale(metric, [metric_value(run, metric.name) for run in runs])
    throughput: Rows = []
    busy: Rows = []
    for run in runs:
        fixed = {
            "combination": labels.combination(run.cell),
            "cell": labels.cell(run.cell),
            "load": labels.load(run),
            "run": run.id,
        }
        value = metric_value(run, metric.name)
        if value is not None:
            text = quantity(value, metric.kind, metric.unit)
            throughput.append(fixed | {"value": value * factor, "said": text})
        for usage in run.utilization:
            text = f"{percent(usage.mean, 2)} ({usage.resource})"
            busy.append(fixed | {"component": usage.component, "busy": usage.mean * 100, "said": text})
    return throughput, busy, f"{metric.title} ({unit})" if unit else metric.title


def _group(
    labels: Labels, group: tuple[str, ...], throughput: Rows, busy: Rows, unit: str, names: list[str]
) -> alt.VConcatChart:
    """Several combinations side by side: throughput above utilization, on the same loads."""
    width = (WIDTH - 60) // max(2, len(group)) - 16
    top = max((row["value"] for row in throughput), default=1.0)
    colour = combination_colour(labels, legend=False)
    upper = _joined(
        labels,
        "",
        "value",
        colour,
        {
            "title": unit,
            "scale": alt.Scale(domain=[0, top], nice=True),
            "axis": alt.Axis(format=axis_format([top]), tickCount=4),
        },
    )
    lower = _joined(
        labels,
        None,
        "busy",
        colour,
        {
            "title": "utilization (%)",
            "scale": alt.Scale(domain=[0, _top(busy)]),
            "axis": alt.Axis(tickCount=5),
        },
        _component_signs(names),
    )
    only = alt.FieldOneOfPredicate(field="combination", oneOf=list(group))
    named = len(labels.combinations) > 1
    heads = alt.Header(title=None) if named else alt.Header(title=None, labels=False)
    bare = alt.Header(title=None, labels=False)
    both: alt.VConcatChart = alt.vconcat(
        alt.layer(*upper, data=alt.NamedData("throughput"))
        .properties(width=width, height=130)
        .facet(column=alt.Column("combination:N", sort=list(group), header=heads))
        .transform_filter(only),
        alt.layer(level("y", 100), *lower, data=alt.NamedData("busy"))
        .properties(width=width, height=160)
        .facet(column=alt.Column("combination:N", sort=list(group), header=bare))
        .transform_filter(only),
    ).resolve_scale(shape="independent", strokeDash="independent")
    return both


def _top(busy: Rows) -> float:
    return max(105.0, *(row["busy"] for row in busy)) if busy else 105.0


def _joined(
    labels: Labels,
    title: str | None,
    field: str,
    colour: alt.Color,
    how: dict[str, Any],
    signs: dict[str, Any] | None = None,
) -> tuple[alt.Chart, alt.Chart]:
    """The runs as points, their mean per load as a line. `signs`: shape and dash, if there are several lines."""
    shape, dash = (signs or {}).get("shape"), (signs or {}).get("strokeDash")
    x = load_axis(labels, title)
    tooltip = [alt.Tooltip("cell:N"), alt.Tooltip("said:N", title="value"), alt.Tooltip("run:N")]
    base = alt.Chart()
    line = base.mark_line(strokeWidth=2).encode(x=x, y=alt.Y(f"mean({field}):Q", **how), color=colour)
    points = base.mark_point(size=30, opacity=0.75, filled=True).encode(
        x=x, y=alt.Y(f"{field}:Q", **how), color=colour, tooltip=tooltip
    )
    return (line, points) if shape is None else (line.encode(strokeDash=dash), points.encode(shape=shape))


def _component_signs(names: list[str]) -> dict[str, Any]:
    """Shape and dash of the components. Colours are not used, because they stand for combinations on the whole page."""
    shapes = [SHAPES[at % len(SHAPES)] for at in range(len(names))]
    dashes = [COMPONENT_DASHES[at % len(COMPONENT_DASHES)] for at in range(len(names))]
    legend = alt.Legend(title=None, symbolOpacity=1)
    return {
        "shape": alt.Shape("component:N", scale=alt.Scale(domain=names, range=shapes), legend=legend),
        "strokeDash": alt.StrokeDash(
            "component:N", scale=alt.Scale(domain=names, range=dashes), legend=legend
        ),
    }


def _bars(labels: Labels, busy: Rows) -> Chart:
    """The chart for an experiment without a load factor: a bar per component and cell, in the colour of the cell."""
    cells = list(dict.fromkeys(row["cell"] for row in busy))
    scale = alt.Scale(domain=[0, _top(busy)])
    axis = None if len(cells) == 1 else alt.Axis(labelLimit=260)
    y = alt.Y("cell:N", title=None, scale=alt.Scale(domain=cells), axis=axis)
    offset = alt.YOffset("component:N", scale=alt.Scale(domain=components(labels)))
    names = (
        chart_of("busy")
        .mark_text(align="left", dx=4, dy=BAR / 2, fontSize=10)
        .encode(x=alt.XDatum(0), y=y, yOffset=offset, text="component:N")
    )
    bars = (
        chart_of("busy")
        .mark_bar(height={"band": 0.8}, opacity=0.6)
        .encode(
            x=alt.X(
                "mean(busy):Q", title="utilization (%)", scale=scale, stack=None, axis=alt.Axis(tickCount=6)
            ),
            y=y,
            yOffset=offset,
            color=combination_colour(labels, legend=False),
            tooltip=[
                alt.Tooltip("cell:N"),
                alt.Tooltip("component:N"),
                alt.Tooltip("mean(busy):Q", title="utilization (%)", format=".3g"),
            ],
        )
        .properties(
            width=WIDTH - 120,
            height=max(80, 1.25 * BAR * len({(row["cell"], row["component"]) for row in busy}) + 20),
        )
    )
    return alt.layer(bars, names, level("x", 100))
