"""Throughput, response time and error rate against the load, or per cell if there is no load factor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import altair as alt

from plimsoll.analyse.results.analysis import CellResult
from plimsoll.analyse.results.metrics import canonical, metric_value
from plimsoll.analyse.results.wording import (
    Metric,
    capitalized,
    describe,
    number,
    percent,
    plus_minus,
    scale,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import (
    HEIGHT,
    INK,
    WIDTH,
    Chart,
    Rows,
    axis_format,
    chart_of,
    combination_colour,
    combination_dash,
    combination_shape,
    finish,
    load_axis,
    log_axis,
)
from plimsoll.report.labels import COLOURS, Labels
from plimsoll.report.tables import analysis as tables

SHOWN_PERCENTILES: Final = ("p50", "p95")
"""Percentiles of the response time that have a chart in every report."""
WIDEST: Final = 100
"""Maximum ratio of the ends of an interval that is drawn."""
WIDE_NOTE: Final = f" Intervals wider than a factor of {WIDEST} have no bar."
LINE_HEIGHT, LINE_GAP = 13, 8
"""Of the names on the axis of bars, px."""
TOOLTIP = [
    alt.Tooltip("cell:N", title="cell"),
    alt.Tooltip("said:N", title="value"),
    alt.Tooltip("what:N", title="shown"),
]


def axis_scale(metric: Metric, values: Iterable[float | None]) -> tuple[float, str]:
    """Factor and unit that suit all values of a metric. Values of None and those that are not finite are ignored."""
    known = [abs(value) for value in values if value is not None and math.isfinite(value)]
    return scale(max(known, default=0.0), metric.kind, metric.unit)


def _title(metric: Metric, unit: str) -> str:
    return f"{metric.title} ({unit})" if unit else metric.title


def _row(
    labels: Labels, cell: CellResult, interval: Interval, metric: Metric, factor: float
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "combination": labels.combination(cell.cell),
        "cell": labels.cell(cell.cell),
        **_bar(labels, cell.cell),
        "load": cell.load,
        "value": interval.mean * factor,
        "said": plus_minus(interval, metric.kind, metric.unit),
        "what": f"mean of {cell.valid} of {cell.repetitions} runs",
    }
    if interval.low is not None and interval.high is not None:
        row |= {"low": interval.low * factor, "high": interval.high * factor}
    return row


def _bar(labels: Labels, cell: Mapping[str, str]) -> dict[str, str]:
    """The group and the name of the bar of a cell; nothing if the load is the axis."""
    return {} if labels.load_factor else {"group": labels.group(cell), "bar": labels.bar(cell)}


def _run_rows(labels: Labels, metric: Metric, factor: float) -> Rows:
    rows: Rows = []
    for run in labels.runs():
        value = metric_value(run, metric.name)
        if value is None or not run.valid:
            continue
        text = plus_minus(Interval(value, None, None), metric.kind, metric.unit)
        rows.append(
            {
                "combination": labels.combination(run.cell),
                "cell": labels.cell(run.cell),
                **_bar(labels, run.cell),
                "load": labels.load(run),
                "value": value * factor,
                "said": text,
                "what": f"run {run.id}",
            }
        )
    return rows


@dataclass(frozen=True)
class _Panel:
    """A chart of cells and runs. Its rows are `NAME_cells` with value, low and high, and `NAME_runs` with value."""

    name: str
    title: str
    cells: Rows
    runs: Rows

    @property
    def datasets(self) -> dict[str, Rows]:
        """The rows by the names that the chart uses."""
        return {f"{self.name}_cells": self.cells, f"{self.name}_runs": self.runs}

    @property
    def has_intervals(self) -> bool:
        """Whether any cell has one."""
        return any("low" in row for row in self.cells)

    @property
    def values(self) -> list[float | None]:
        """All values on the axis."""
        return [row.get(key) for row in (*self.cells, *self.runs) for key in ("value", "low", "high")]


def against_load(labels: Labels, panel: _Panel, domain: list[float] | None) -> Chart:
    """Means with intervals, joined by lines, and every run as a faint point. A `domain` makes the y axis
    logarithmic."""
    title = panel.title
    x = load_axis(labels)
    if domain:
        scale = alt.Scale(type="log", domain=domain, nice=False)
        axis = alt.Axis(format=",~f", values=log_axis(domain)[1])
    else:
        scale, axis = alt.Scale(zero=True, nice=True), alt.Axis(format=axis_format(panel.values), tickCount=6)
    y = alt.Y("value:Q", title=title, scale=scale, axis=axis)
    colour, dash = combination_colour(labels), combination_dash(labels)
    base = chart_of(f"{panel.name}_cells")
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)
    bars = (
        base.transform_filter("isValid(datum.low)")
        .mark_errorbar(ticks=alt.MarkConfig(width=9), thickness=1.5)
        .encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    )
    points = base.mark_point(size=55, filled=True, opacity=1).encode(
        x=x, y=y, color=colour, shape=combination_shape(labels), tooltip=TOOLTIP
    )
    layers = [line, bars, points] if panel.has_intervals else [line, points]
    if panel.runs:
        run_points = chart_of(f"{panel.name}_runs").mark_circle(size=18, opacity=0.45)
        layers.insert(0, run_points.encode(x=x, y=y, color=colour, tooltip=TOOLTIP))
    return alt.layer(*layers)


def per_cell(labels: Labels, panel: _Panel) -> Chart:
    """A bar for each cell, from zero, with the interval of the mean and every run. The bars of the levels of the last
    factor form a group and have a colour each."""
    is_grouped = labels.inner_factor is not None
    groups = list(dict.fromkeys(labels.group(cell.cell) for cell in labels.cells()))
    # A line for each factor, so that labels are not cut on a narrow page.
    lines = "split(datum.label, ', ')" if is_grouped else alt.Undefined
    # The first line of a name would be at the middle of its group, and the others below it.
    most = max((name.count(", ") for name in groups), default=0) if is_grouped else 0
    axis = alt.Axis(labelLimit=260, labelExpr=lines, labelOffset=-most * LINE_HEIGHT / 2)
    y = alt.Y("group:N", title=None, sort=groups, axis=axis)
    offset = (
        alt.YOffset("bar:N", sort=list(labels.bars), scale=alt.Scale(paddingInner=0.12))
        if is_grouped
        else alt.Undefined
    )
    x = alt.X(
        "value:Q",
        title=panel.title,
        scale=alt.Scale(zero=True),
        axis=alt.Axis(format=axis_format(panel.values), tickCount=6),
    )
    colours = COLOURS if is_grouped else labels.colours
    colour = alt.Color(
        "bar:N",
        scale=alt.Scale(
            domain=list(labels.bars), range=[colours[at % len(colours)] for at in range(len(labels.bars))]
        ),
        legend=alt.Legend(title=None, symbolOpacity=1)
        if is_grouped
        else None,  # otherwise the axis has the names
    )
    base = chart_of(f"{panel.name}_cells")
    bars = base.mark_bar(opacity=0.75).encode(x=x, y=y, yOffset=offset, color=colour, tooltip=TOOLTIP)
    layers: list[alt.Chart] = [bars]
    if panel.runs:
        run_points = chart_of(f"{panel.name}_runs").mark_circle(size=18, opacity=0.55, color=INK)
        layers.append(run_points.encode(x=x, y=y, yOffset=offset, tooltip=TOOLTIP))
    if panel.has_intervals:
        intervals = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        ends = {"x": alt.X("low:Q", title=panel.title), "x2": "high:Q"}
        layers.append(intervals.encode(**ends, y=y, yOffset=offset))
    return alt.layer(*layers)


def _height_of_names(labels: Labels) -> int:
    """Of the axis of `per_cell`, px: the names of its groups have a line for each factor."""
    if labels.inner_factor is None:
        return 0
    names = {labels.group(cell.cell) for cell in labels.cells()}
    return sum(LINE_HEIGHT * (name.count(", ") + 1) + LINE_GAP for name in names)


def _draw(labels: Labels, panel: _Panel, *, domain: list[float] | None = None, width: int = WIDTH) -> Chart:
    if labels.load_factor is None:
        height = max(min(900, max(70, 22 * len(labels.analysis.cells))), _height_of_names(labels))
        return per_cell(labels, panel).properties(width=WIDTH - 120, height=height)
    return against_load(labels, panel, domain).properties(width=width, height=HEIGHT)


def throughput(labels: Labels) -> Figure | None:
    """Throughput against load per combination, with intervals; None if no valid run has a throughput."""
    metric = labels.throughput
    means = [(cell, cell.responses[metric.name]) for cell in labels.cells() if metric.name in cell.responses]
    factor, unit = axis_scale(metric, [interval.mean for _, interval in means])
    cells = [_row(labels, cell, interval, metric, factor) for cell, interval in means]
    runs = _run_rows(labels, metric, factor)
    if not cells and not runs:
        return None
    panel = _Panel("throughput", _title(metric, unit), cells, runs)
    offered = _offered(labels, metric, factor)
    chart = _draw(labels, panel)
    if offered:
        chart = alt.layer(_equal(panel.title), chart).properties(width=WIDTH, height=HEIGHT)
    against = f"against {labels.load_word}" if labels.load_factor else "per cell"
    return Figure(
        key="throughput",
        title=f"{metric.title.capitalize()} {against}",
        chart=finish(chart, **panel.datasets, **({"offered": offered} if offered else {})),
        alt=f"{metric.title.capitalize()} {against} for {len(labels.combinations)} combinations. "
        + "; ".join(f"{row['cell']}: {row['said']}" for row in cells[:16]),
        table=tables.throughput(labels),
        caption=_caption(labels, cells)
        + (" Dashed: throughput equal to the offered rate." if offered else ""),
    )


def responses(labels: Labels) -> list[Figure]:
    """A figure for each response of the experiment that the other figures do not show: its cells and runs."""
    shown = {labels.throughput.name, *(f"response_ms_{name}" for name in SHOWN_PERCENTILES)}
    names = [canonical(metric) for metric in labels.analysis.experiment.responses]
    wanted = [name for name in dict.fromkeys(names) if name is not None and name not in shown]
    figures = (_metric(labels, describe(name), at) for at, name in enumerate(wanted, start=1))
    return [figure for figure in figures if figure is not None]


def _metric(labels: Labels, metric: Metric, position: int) -> Figure | None:
    """A metric against the load, or per cell; None if no valid run has it. `position`: for the key of the figure."""
    means = [(cell, cell.responses[metric.name]) for cell in labels.cells() if metric.name in cell.responses]
    factor, unit = axis_scale(metric, [interval.mean for _, interval in means])
    cells = [_row(labels, cell, interval, metric, factor) for cell, interval in means]
    runs = _run_rows(labels, metric, factor)
    if not cells and not runs:
        return None
    panel = _Panel(f"metric_{position}", _title(metric, unit), cells, runs)
    against = f"against {labels.load_word}" if labels.load_factor else "per cell"
    title = f"{capitalized(metric.title)} {against}"
    return Figure(
        key=f"metric-{position}",
        title=title,
        chart=finish(_draw(labels, panel), **panel.datasets),
        alt=f"{title}. " + "; ".join(f"{row['cell']}: {row['said']}" for row in cells[:16]),
        table=tables.metric(labels, metric),
        caption=_caption(labels, cells),
    )


def _offered(labels: Labels, metric: Metric, factor: float) -> Rows:
    """Two points of the line on which throughput equals the offered rate. Empty if the load factor is not a rate, or if
    it is not the whole load of a run."""
    if not labels.is_rate or metric.name != "throughput_per_s" or len(labels.loads) < 2:
        return []
    if any(run.open_load != "all" for run in labels.runs()):
        return []
    return [{"load": load, "value": load * factor} for load in (labels.loads[0], labels.loads[-1])]


def _equal(title: str) -> alt.Chart:
    drawn: alt.Chart = (
        chart_of("offered")
        .mark_line(strokeDash=[4, 3], strokeWidth=1.2, opacity=0.6, color=INK)
        .encode(x=alt.X("load:Q"), y=alt.Y("value:Q", title=title))
    )
    return drawn


def _caption(labels: Labels, cells: Rows) -> str:
    mark, bars = ("Points", "bars") if labels.load_factor else ("Bars", "lines across")
    if any("low" in row for row in cells):
        return f"{mark}: means over the valid runs of a cell; {bars}: 95 % intervals; faint points: the runs."
    return f"{mark}: means over the valid runs of a cell, without intervals; faint points: the runs."


def response(labels: Labels) -> Figure | None:
    """Median and p95 of the response time against load, side by side on one scale; None if no request succeeded."""
    panels = [_response_panel(labels, statistic) for statistic in SHOWN_PERCENTILES]
    panels = [panel for panel in panels if panel.cells]
    if not panels:
        return None
    values = [value for panel in panels for value in panel.values]
    factor, unit = axis_scale(describe("response_ms"), [_middle(values)])
    panels = [
        replace(
            panel,
            title=f"{panel.title} ({unit})",
            cells=_scaled(panel.cells, factor),
            runs=_scaled(panel.runs, factor),
        )
        for panel in panels
    ]
    known = [value * factor for value in values if value and math.isfinite(value)]
    log = bool(known) and min(known) > 0 and max(known) / min(known) > 30 and labels.load_factor is not None
    domain = log_axis(known)[0] if log else None
    drawn = [_draw(labels, panel, domain=domain, width=WIDTH // 2 - 40) for panel in panels]
    datasets = {name: rows for panel in panels for name, rows in panel.datasets.items()}
    chart = alt.hconcat(*drawn).resolve_scale(y="shared") if labels.load_factor else alt.vconcat(*drawn)
    against = f"against {labels.load_word}" if labels.load_factor else "per cell"
    guided = not any("low" in row for panel in panels for row in panel.cells)
    return Figure(
        key="response",
        title=f"Response time {against}",
        chart=finish(chart, **datasets),
        alt=f"Median (left) and 95th percentile (right) of the response time {against}, in {unit}.",
        table=tables.response(labels),
        caption="Response time counts from the scheduled start, so the delay of a late tester shows in it."
        + (" Logarithmic scale." if log else "")
        + (WIDE_NOTE if any(map(_is_wide, panels)) else "")
        + (" Faint points: the runs; the others mark the middle of a cell's runs." if guided else ""),
    )


def _is_wide(panel: _Panel) -> bool:
    return any("wide" in row for row in panel.cells)


def narrowed(row: dict[str, Any]) -> dict[str, Any]:
    """The row without its interval if that is so wide that all points would lie on one line, and with the key
    `wide` then."""
    low, high = row.get("low"), row.get("high")
    if low is None or high is None or (low > 0 and high / low <= WIDEST):
        return row
    return {key: value for key, value in row.items() if key not in ("low", "high")} | {"wide": True}


def _middle(values: Sequence[float | None]) -> float:
    """The median of the known values. Its unit suits a wide range better than that of the greatest value, which
    results in labels such as 0.001 s."""
    known = sorted(value for value in values if value is not None and math.isfinite(value))
    return known[len(known) // 2] if known else 0.0


def _response_panel(labels: Labels, statistic: str) -> _Panel:
    """The cells of the analysis, or the middle of their runs if it has none; in milliseconds."""
    metric = describe(f"response_ms_{statistic}")
    cells = [
        narrowed(_row(labels, cell, interval, metric, 1.0))
        for cell in labels.cells()
        if (interval := cell.responses.get(metric.name))
    ]
    runs = _run_rows(labels, metric, 1.0)
    return _Panel(statistic, metric.title, cells or _guides(runs), runs)


def _scaled(rows: Rows, factor: float) -> Rows:
    numbers = ("value", "low", "high")
    return [row | {name: row[name] * factor for name in numbers if name in row} for row in rows]


def _guides(runs: Rows) -> Rows:
    """For each cell, the middle between its lowest and its highest run, to guide the eye.

    It is used if the analysis has no cell mean of a percentile, because percentiles are not averaged.
    """
    rows_by_cell: dict[str, Rows] = {}
    for row in runs:
        rows_by_cell.setdefault(str(row["cell"]), []).append(row)
    guides = []
    for rows in rows_by_cell.values():
        values = [float(row["value"]) for row in rows]
        ends = f"{number(min(values))} to {number(max(values))} ms"
        middle = {
            "value": (min(values) + max(values)) / 2,
            "said": ends,
            "what": f"range of {len(rows)} runs",
        }
        guides.append(rows[0] | middle)
    return guides


def errors(labels: Labels) -> Figure | None:
    """Error rate against load with its upper bound; None if no request of a valid run failed."""
    cells: Rows = []
    for cell in labels.cells():
        if cell.error_rate is None:
            continue
        row: dict[str, object] = {
            "combination": labels.combination(cell.cell),
            "cell": labels.cell(cell.cell),
            **_bar(labels, cell.cell),
            "load": cell.load,
            "value": cell.error_rate * 100,
            "said": f"{percent(cell.error_rate)}, at most {percent(cell.error_rate_upper)}",
            "what": "error rate and its upper bound",
        }
        if cell.error_rate_upper is not None:
            row |= {"low": cell.error_rate * 100, "high": cell.error_rate_upper * 100}
        cells.append(row)
    if not any(row["value"] for row in cells):
        return None
    panel = _Panel("errors", "error rate (%)", cells, [])
    chart = _draw(labels, panel)
    failed = [row for row in cells if row["value"]]
    return Figure(
        key="errors",
        title=f"Error rate against {labels.load_word}" if labels.load_factor else "Error rate per cell",
        chart=finish(chart.properties(height=200) if labels.load_factor else chart, **panel.datasets),
        alt=f"Error rate of {len(cells)} cells; errors were met in {len(failed)} of them.",
        table=tables.errors(labels),
        caption=f"{'Bars' if labels.load_factor else 'Lines across'} reach up to the upper 95 % bound (Wilson).",
    )
