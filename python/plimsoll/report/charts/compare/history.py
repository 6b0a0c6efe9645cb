"""The values of a metric over the directories of a history, with their levels, changes and marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from plimsoll.analyse.results.wording import capitalized, describe, level_words
from plimsoll.compare.history.model import MetricHistory
from plimsoll.compare.history.result import HistoryResult
from plimsoll.compare.metrics import Scale
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.load import axis_scale
from plimsoll.report.charts.theme import HEIGHT, INK, WIDTH, Chart, Rows, chart_of, finish
from plimsoll.report.labels import COLOURS
from plimsoll.report.tables.compare import history as tables
from plimsoll.report.tables.compare.comparison import metric_title, value_words

MAX_PANELS: Final = 6
"""Maximum number of cells of a chart; the tables contain all."""
MAX_OPEN: Final = 2
"""Charts that are not folded: the first ones, and those of metrics with a change or a newest value outside."""
_CHANGED: Final = "change"
_MARKED: Final = "mark"


def figures(result: HistoryResult) -> list[Figure]:
    """A figure for each metric, with a panel for each cell."""
    by_metric: dict[str, list[MetricHistory]] = {}
    for one in result.metrics:
        by_metric.setdefault(one.metric, []).append(one)
    return [
        _figure(result, f"history-{number}", cells, is_first=number <= MAX_OPEN)
        for number, cells in enumerate(by_metric.values(), start=1)
    ]


def _figure(result: HistoryResult, key: str, cells: Sequence[MetricHistory], *, is_first: bool) -> Figure:
    # Cells with a change come first, so that a limit on the panels hides none of them.
    shown = sorted(cells, key=lambda one: not one.steps)[:MAX_PANELS]
    data: dict[str, Rows] = {}
    panels = []
    for number, one in enumerate(shown):
        panel, rows = _panel(result, one, f"{key}-{number}")
        panels.append(panel)
        data |= rows
    is_remarkable = any(one.steps or one.latest.is_outside for one in cells)
    left = len(cells) - len(shown)
    caption = (
        "Points: directories; a hollow point is outside the range that its level predicts. Horizontal lines: levels "
        "with their 95 % intervals. Dashed vertical lines: changes; dotted ones: marks. The vertical axis does not "
        "start at 0."
    )
    return Figure(
        key=key,
        title=capitalized(metric_title(cells[0])),
        chart=finish(panels[0] if len(panels) == 1 else alt.vconcat(*panels), **data),
        alt="; ".join(_alt(result, one) for one in shown),
        table=tables.values_table(result, shown),
        caption=f"{caption} {left} more cells are in the tables." if left else caption,
        on_demand=not (is_first or is_remarkable),
    )


def _alt(result: HistoryResult, one: MetricHistory) -> str:
    level = one.levels[-1]
    since = tables.day(result.directories[level.first])
    cell = f", {level_words(one.cell)}" if one.cell else ""
    return f"{metric_title(one)}{cell}: {value_words(one, level.mean)} since {since}"


def _panel(result: HistoryResult, one: MetricHistory, name: str) -> tuple[Chart, dict[str, Rows]]:
    known = [value for value in one.values if value is not None]
    factor, unit = axis_scale(describe(one.metric), known)
    title = metric_title(one)
    data = {
        f"{name}-values": _value_rows(result, one, factor),
        f"{name}-levels": _level_rows(result, one, factor),
        f"{name}-lines": _line_rows(result, one),
    }
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc", padding=12), axis=alt.Axis(grid=False))
    titled = f"{title} ({unit})" if unit else title

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=titled, scale=alt.Scale(zero=False))

    drawn = alt.layer(
        *_band(f"{name}-levels", x, y("low"), y("value")),
        _lines(f"{name}-lines", x),
        _points(f"{name}-values", x, y("value")),
    ).properties(width=WIDTH, height=HEIGHT * 2 // 3, title=level_words(one.cell))
    return drawn, data


def _value_rows(result: HistoryResult, one: MetricHistory, factor: float) -> Rows:
    rows: Rows = []
    for at, (entry, value) in enumerate(zip(result.directories, one.values, strict=True)):
        if value is not None:
            is_outside = one.latest.is_outside and at == one.latest.position
            rows.append(
                {
                    "at": entry.started,
                    "value": value * factor,
                    "said": value_words(one, value),
                    "directory": tables.directory_name(entry),
                    "outside": int(is_outside),
                }
            )
    return rows


def _level_rows(result: HistoryResult, one: MetricHistory, factor: float) -> Rows:
    """Two rows of each level, at its first and at its last directory."""
    rows: Rows = []
    for number, level in enumerate(one.levels):
        row: dict[str, Any] = {
            "level": number,
            "value": level.mean * factor,
            "said": value_words(one, level.mean),
        }
        row["interval"] = tables.value_limits(one, level.interval)
        if level.interval is not None:
            lowest = 0.0 if one.scale is Scale.DIFFERENCE else level.interval.low
            row |= {"low": max(lowest, level.interval.low) * factor, "high": level.interval.high * factor}
        ends = (result.directories[level.first], result.directories[level.last])
        rows += [row | {"at": entry.started} for entry in ends]
    return rows


def _line_rows(result: HistoryResult, one: MetricHistory) -> Rows:
    """The changes and the marks. Without any, a row that is not visible: Vega warns about empty data."""
    rows: Rows = [
        {"at": result.directories[step.first].started, "kind": _CHANGED, "what": "change", "visible": 1}
        for step in one.steps
    ]
    rows += [
        {"at": entry.started, "kind": _MARKED, "what": entry.mark, "visible": 1}
        for entry in result.directories
        if entry.mark
    ]
    return rows or [{"at": result.directories[0].started, "kind": _MARKED, "what": "", "visible": 0}]


def _band(name: str, x: alt.X, low: alt.Y, y: alt.Y) -> tuple[alt.Chart, alt.Chart]:
    """The interval and the mean of each level."""
    base = chart_of(name).encode(x=x, detail="level:N")
    tooltip = [alt.Tooltip("said:N", title="level"), alt.Tooltip("interval:N", title="95 % interval")]
    return (
        base.mark_area(opacity=0.18, color=COLOURS[0]).encode(y=low, y2="high:Q"),
        base.mark_line(color=COLOURS[0], strokeWidth=1.5).encode(y=y, tooltip=tooltip),
    )


def _lines(name: str, x: alt.X) -> alt.Chart:
    drawn: alt.Chart = (
        chart_of(name)
        .mark_rule(color=INK, strokeWidth=1.2)
        .encode(
            x=x,
            strokeDash=alt.StrokeDash(
                "kind:N", legend=None, scale=alt.Scale(domain=[_CHANGED, _MARKED], range=[[6, 3], [1, 3]])
            ),
            opacity=alt.Opacity("visible:Q", scale=None, legend=None),
            tooltip=[alt.Tooltip("kind:N"), alt.Tooltip("what:N", title="why")],
        )
    )
    return drawn


def _points(name: str, x: alt.X, y: alt.Y) -> alt.Chart:
    drawn: alt.Chart = (
        chart_of(name)
        .mark_point(size=45, strokeWidth=1.8, color=COLOURS[0])
        .encode(
            x=x,
            y=y,
            fill=alt.condition("datum.outside == 1", alt.value("transparent"), alt.value(COLOURS[0])),
            tooltip=[
                alt.Tooltip("directory:N"),
                alt.Tooltip("at:T", title="started", format="%Y-%m-%d %H:%M"),
                alt.Tooltip("said:N", title="value"),
            ],
        )
    )
    return drawn
