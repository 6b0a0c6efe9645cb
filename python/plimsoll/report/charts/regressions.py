"""Fitted lines of the regressions on one quantitative factor, with the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import altair as alt

from plimsoll.analyse.answer.load.regressions import step_of
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.verdicts import RegressionVerdict
from plimsoll.analyse.results.wording import describe, factor_word, plus_minus, quantity
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.load import axis_scale
from plimsoll.report.charts.theme import HEIGHT, WIDTH, Chart, Rows, axis_format, chart_of, finish, log_axis
from plimsoll.report.labels import COLOURS, Labels
from plimsoll.report.tables import regressions as tables

MAX_LINES: Final = len(COLOURS)
"""More lines than colours are not drawn; the table remains."""
MAX_TICKS: Final = 12
MIN_RATIO: Final = 1.5
"""Greatest / smallest value below which a logarithmic axis would have no labelled value in between."""


def figures(labels: Labels) -> list[Figure]:
    """A figure for each regression on one factor. Those of the other responses are folded."""
    drawn = [
        (at, regression)
        for at, regression in enumerate(labels.analysis.regressions, start=1)
        if len(regression.lines) > 0
    ]
    return [_figure(labels.analysis, regression, at, labels.metric.name) for at, regression in drawn]


def _figure(analysis: Analysis, regression: Regression, at: int, leading: str) -> Figure:
    metric = describe(regression.response)
    (name,) = regression.factors
    step, x_unit = step_of(regression, name)
    ends = [end for line in regression.lines for point in line.points for end in (point.mean, point.high)]
    factor, unit = axis_scale(metric, ends)
    lines: Rows = [
        {
            "at": point.x / step,
            "mean": point.mean * factor,
            **({} if point.low is None else {"low": point.low * factor}),
            **({} if point.high is None else {"high": point.high * factor}),
            "others": _words(line.combination),
            "said": plus_minus(Interval(point.mean, point.low, point.high), metric.kind, metric.unit),
        }
        for line in regression.lines[:MAX_LINES]
        for point in line.points
    ]
    runs = _run_rows(analysis, regression, factor, step)
    is_log = regression.fit.form == "log-log"
    x_title = f"{factor_word(name)} ({x_unit})" if x_unit else factor_word(name)
    y_title = f"{metric.title} ({unit})" if unit else metric.title
    x = _axis("at", x_title, sorted({value / step for value in regression.levels[name].values()}), is_log)
    heights = [row[key] for row in lines for key in ("mean", "low", "high") if key in row]
    heights += [row["value"] for row in runs]
    chart = _layers(regression, x, y_title, heights, is_log)
    return Figure(
        key=f"regression-{at}",
        title=f"{tables.title(regression)}: regression",
        chart=finish(chart, fitted=lines, measured=runs),
        alt=regression.text,
        table=tables.table(regression),
        caption=_caption(regression),
        on_demand=regression.response != leading,
    )


def _words(combination: Mapping[str, str]) -> str:
    return ", ".join(f"{factor_word(name)} {level}" for name, level in combination.items()) or "all runs"


def _run_rows(analysis: Analysis, regression: Regression, factor: float, step: float) -> Rows:
    metric = describe(regression.response)
    (name,) = regression.factors
    shown = {_words(line.combination) for line in regression.lines[:MAX_LINES]}
    rows: Rows = []
    for run in analysis.runs:
        value = metric_value(run, regression.response)
        level = run.cell.get(name)
        others = _words({other: run.cell[other] for other in regression.others if other in run.cell})
        if run.valid and value is not None and level is not None and others in shown:
            rows.append(
                {
                    "at": regression.levels[name][level] / step,
                    "value": value * factor,
                    "others": others,
                    "run": run.id,
                    "said": quantity(value, metric.kind, metric.unit),
                }
            )
    return rows


def _axis(field: str, title: str, levels: list[float], is_log: bool) -> alt.X:
    """The numbers of the factor, with a tick at each level if there are few."""
    ticks = levels if len(levels) <= MAX_TICKS else log_axis(levels)[1] if is_log else alt.Undefined
    scale = (
        alt.Scale(type="log", domain=[levels[0], levels[-1]], nice=False, padding=12)
        if is_log
        else alt.Scale(zero=False, nice=False, padding=12)
    )
    axis = alt.Axis(grid=False, values=ticks, format=axis_format(levels), labelOverlap=True, labelFlush=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def _layers(regression: Regression, x: alt.X, y_title: str, heights: list[float], is_log: bool) -> Chart:
    positive = [value for value in heights if value > 0]
    is_log = is_log and max(positive) / min(positive) >= MIN_RATIO
    ends, labelled = log_axis(positive) if is_log else ([], [])
    scale = alt.Scale(type="log", domain=ends, nice=False) if is_log else alt.Scale(zero=True)
    axis = alt.Axis(format=axis_format(heights), tickCount=6, values=labelled if is_log else alt.Undefined)
    domain = list(dict.fromkeys(_words(line.combination) for line in regression.lines[:MAX_LINES]))
    colour = alt.Color(
        "others:N",
        scale=alt.Scale(domain=domain, range=list(COLOURS[: len(domain)])),
        legend=alt.Legend(title=None, symbolOpacity=1) if len(domain) > 1 else None,
    )
    dash = [1, 0] if regression.verdict == RegressionVerdict.FITS else [5, 4]
    y = alt.Y("mean:Q", title=y_title, scale=scale, axis=axis)
    band = (
        chart_of("fitted")
        .mark_area(opacity=0.18, clip=True)
        .encode(x=x, y=alt.Y("low:Q", title=y_title, scale=scale, axis=axis), y2="high:Q", color=colour)
    )
    tooltip = [alt.Tooltip("others:N"), alt.Tooltip("at:Q", format=".4~r"), alt.Tooltip("said:N")]
    line = (
        chart_of("fitted")
        .mark_line(strokeWidth=2, strokeDash=dash, clip=True)
        .encode(x=x, y=y, color=colour, order="at:Q", tooltip=tooltip)
    )
    points = (
        chart_of("measured")
        .mark_point(filled=True, size=40, opacity=0.8)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=y_title, scale=scale, axis=axis),
            color=colour,
            tooltip=[alt.Tooltip("run:N"), *tooltip],
        )
    )
    layered: Chart = alt.layer(band, line, points).properties(width=WIDTH, height=HEIGHT)
    return layered


def _caption(regression: Regression) -> str:
    mean = "geometric mean" if regression.fit.form == "log-log" else "mean"
    line = (
        "dashed: the form is rejected or could not be tested"
        if regression.verdict != RegressionVerdict.FITS
        else ""
    )
    parts = [f"Points: runs. Line: fitted {mean}, with its 95 % interval", line]
    text = "; ".join(part for part in parts if part)
    more = len(regression.lines) - MAX_LINES
    note = f" {more} further combinations are not drawn." if more > 0 else ""
    return f"{regression.text} {text}.{note}".strip()
