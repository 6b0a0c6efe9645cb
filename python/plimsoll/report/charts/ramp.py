"""A run of a changing load: throughput, response time and errors against the offered rate or the number of testers."""

from __future__ import annotations

from typing import Any, Final

import altair as alt

from plimsoll.analyse.answer.load.ramp import load_words
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ramp
from plimsoll.analyse.results.wording import percent, quantity, scale
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import HEIGHT, WIDTH, Chart, Rows, axis_format, chart_of, finish
from plimsoll.report.labels import Labels
from plimsoll.report.tables import ramp as tables

TIMES: Final = {"p50": "#0a84c6", "p95": "#d55e00", "p99": "#7a6ff0"}
MAX_FIGURES: Final = 4
DONE, PLANNED, ERRORS = "#009e73", "#6b7785", "#b7860b"


def figures(labels: Labels) -> list[Figure]:
    """A figure for each of the first runs that has a ramp."""
    runs = [run for run in labels.runs() if run.ramp is not None][:MAX_FIGURES]
    return [_figure(run, run.ramp) for run in runs if run.ramp is not None]


def _figure(run: RunResult, ramp: Ramp) -> Figure:
    rows = _rows(ramp)
    known = [row[name] for row in rows for name in TIMES if row[name] is not None]
    factor, unit = scale(max(known, default=0.0), "ms")
    times: Rows = [
        {
            "at": row["at"],
            "load": row["load"],
            "range": row["range"],
            "which": name,
            "value": row[name] * factor,
        }
        for row in rows
        for name in TIMES
        if row[name] is not None
    ]
    rates: Rows = [
        {"at": row["at"], "load": row["load"], "range": row["range"], "which": name, "value": row[key]}
        for row in rows
        for name, key in (("throughput", "throughput"), ("offered", "offered"))
        if ramp.unit == "rate" or name != "offered"
    ]
    panels = [
        _panel(ramp, "ramp_rates", "requests/s", {"throughput": DONE, "offered": PLANNED}, rates),
    ]
    if times:
        panels.append(_panel(ramp, "ramp_times", f"response time ({unit})", TIMES, times))
    failed = [
        {
            "at": row["at"],
            "load": row["load"],
            "range": row["range"],
            "which": "errors",
            "value": row["errors"],
        }
        for row in rows
    ]
    if any(row["value"] for row in failed):
        panels.append(_panel(ramp, "ramp_errors", "errors (%)", {"errors": ERRORS}, failed, height=120))
    data = {"ramp_rates": rates, "ramp_times": times, "ramp_errors": failed}
    chart: Chart = alt.vconcat(*panels).resolve_scale(color="independent")
    return Figure(
        key=f"ramp-{run.id}",
        title=f"Run {run.id} against the {'number of ' if ramp.steps else ''}{tables.load_head(ramp).lower()}",
        chart=finish(chart, **data),
        alt="; ".join(
            f"{row['range']}: {quantity(row['throughput'], 'rate', 'requests/s')}, "
            f"p95 {quantity(row['p95'], 'ms')}, errors {percent(row['errors'] / 100)}"
            for row in rows[:16]
        ),
        table=tables.table(run, ramp),
        caption=f"Each point is {_part(ramp)}. A percentile is missing where a part has "
        "too few transactions, or where it is among those that did not complete.",
    )


def _part(ramp: Ramp) -> str:
    if not ramp.steps:
        return "a part of the run, at the middle of its load"
    turns = ramp.steps[-1].load_high < max(step.load_high for step in ramp.steps)
    order = "; the line follows the time, up with the joins and back as testers leave" if turns else ""
    return f"a step of the ramp: a time with the same number of active testers{order}"


def _rows(ramp: Ramp) -> list[dict[str, Any]]:
    return [
        {
            "at": ramp_bin.start_s,
            "load": (ramp_bin.load_low + ramp_bin.load_high) / 2,
            "range": load_words(ramp_bin.load_low, ramp_bin.load_high, ramp.unit),
            "throughput": ramp_bin.traffic.throughput_per_s,
            "offered": ramp_bin.traffic.offered_per_s,
            "errors": 100 * (ramp_bin.traffic.error_rate or 0.0),
            **{name: getattr(ramp_bin.traffic.response_ms, name) for name in TIMES},
        }
        for ramp_bin in tables.parts_of(ramp)
    ]


def _panel(
    ramp: Ramp, name: str, title: str, colours: dict[str, str], rows: Rows, *, height: int = HEIGHT * 2 // 3
) -> Chart:
    """Lines with a point per part of the load."""
    loads = [row["load"] for row in rows]
    head = tables.load_head(ramp).lower()
    x = alt.X(
        "load:Q",
        title=f"{head} (requests/s)" if ramp.unit == "rate" else head,
        scale=alt.Scale(zero=False),
        axis=alt.Axis(grid=False, format=axis_format(loads)),
    )
    y = alt.Y(
        "value:Q", title=title, axis=alt.Axis(format=axis_format([row["value"] for row in rows]), tickCount=5)
    )
    shown = [which for which in colours if any(row["which"] == which for row in rows)]
    colour = alt.Color(
        "which:N",
        scale=alt.Scale(domain=shown, range=[colours[which] for which in shown]),
        legend=alt.Legend(title=None) if len(shown) > 1 else None,
    )
    tooltip = [
        alt.Tooltip("range:N", title=head),
        alt.Tooltip("which:N", title="shown"),
        alt.Tooltip("value:Q", title=title, format=".4~r"),
    ]
    line = chart_of(name).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, order="at:Q")
    points = chart_of(name).mark_circle(size=45, opacity=1).encode(x=x, y=y, color=colour, tooltip=tooltip)
    return alt.layer(line, points).properties(width=WIDTH, height=height)
