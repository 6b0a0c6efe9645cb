"""The distribution of the response time: 1 - F on a logarithmic axis, which shows the tail."""

from __future__ import annotations

import altair as alt

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import Ecdf
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import (
    WIDTH,
    Chart,
    Rows,
    chart_of,
    combination_colour,
    combination_dash,
    finish,
    log_axis,
)
from plimsoll.report.labels import Labels
from plimsoll.report.tables import analysis as tables

MAX_PANELS = 6
MAX_POINTS = 200
"""Maximum number of points of one curve; that of all curves together is MAX_TOTAL."""
MAX_TOTAL = 6000
TICKS = (1.0, 0.5, 0.1, 0.05, 0.01, 0.001, 0.0001, 0.00001)


def chosen_loads(labels: Labels) -> tuple[float | None, ...]:
    """The loads that have a panel: all, or MAX_PANELS of them at even distances from the lowest to the highest."""
    loads = labels.loads if labels.load_factor else ()
    if len(loads) <= MAX_PANELS:
        return loads or (None,)
    return tuple(loads[round(step * (len(loads) - 1) / (MAX_PANELS - 1))] for step in range(MAX_PANELS))


def thin(ecdf: Ecdf, points: int) -> list[tuple[float, float]]:
    """At most `points` pairs of time (ms) and 1 - F, including both ends. Points where 1 - F is 0 have no logarithm and
    are left out."""
    pairs = [(ms, 1 - share) for ms, share in zip(ecdf.ms, ecdf.share, strict=False) if share < 1 and ms > 0]
    if len(pairs) <= points:
        return pairs
    step = (len(pairs) - 1) / (points - 1)
    return [pairs[round(index * step)] for index in range(points)]


def _curves(labels: Labels, loads: tuple[float | None, ...]) -> list[tuple[RunResult, Ecdf]]:
    """The ECDF of each valid run at a shown load. A run whose times are all equal has no point to draw and is left
    out."""
    return [
        (run, run.ecdf)
        for run in labels.runs()
        if run.valid
        and run.ecdf is not None
        and thin(run.ecdf, MAX_POINTS)
        and (labels.load_factor is None or labels.load(run) in loads)
    ]


def distribution(labels: Labels) -> Figure | None:
    """ECDF of every valid run, a panel per load; None if no run has an ECDF."""
    loads = chosen_loads(labels)
    curves = _curves(labels, loads)
    if not curves:
        return None
    points = max(20, min(MAX_POINTS, MAX_TOTAL // len(curves)))
    longest = max(ecdf.ms[-1] for _, ecdf in curves)
    factor, unit = (1e-3, "s") if longest >= 2000 else (1e3, "µs") if longest < 5 else (1.0, "ms")
    rows: Rows = []
    for run, ecdf in curves:
        fixed = {
            "combination": labels.combination(run.cell),
            "run": run.id,
            "panel": f"{labels.load_word} {labels.load_label(labels.load(run))}"
            if labels.load_factor
            else "",
        }
        rows += [
            fixed | {"time": float(f"{ms * factor:.4g}"), "beyond": float(f"{beyond:.4g}")}
            for ms, beyond in thin(ecdf, points)
        ]
    chart = _draw(labels, rows, unit, len(loads))
    left = f" Loads shown: {len(loads)} of {len(labels.loads)}." if len(loads) < len(labels.loads) else ""
    return Figure(
        key="distribution",
        title="Distribution of the response time",
        chart=finish(chart, curves=rows),
        alt="Share of requests that took longer than a time, both axes logarithmic: the lower, the rarer. "
        f"One curve for each of {len(curves)} runs.",
        table=tables.distribution(labels),
        caption=f"One curve per valid run. At 1 % a curve crosses its p99, at 0.1 % its p99.9.{left}",
    )


def _draw(labels: Labels, rows: Rows, unit: str, panels: int) -> Chart:
    columns = 1 if panels == 1 else 2
    domain, values = log_axis([row["time"] for row in rows])
    least = min(row["beyond"] for row in rows)
    ticks = [tick for tick in TICKS if tick >= least / 5]
    percents = "datum.value >= 0.001 ? format(datum.value * 100, '~g') + ' %' : format(datum.value * 100, '~r') + ' %'"
    base: alt.Chart = (
        chart_of("curves")
        .mark_line(interpolate="step-after", strokeWidth=1.5, opacity=0.9)
        .encode(
            x=alt.X(
                "time:Q",
                title=f"response time ({unit})",
                scale=alt.Scale(type="log", domain=domain, nice=False),
                axis=alt.Axis(format=",~f", values=values, labelOverlap=True),
            ),
            y=alt.Y(
                "beyond:Q",
                title="share that took longer",
                scale=alt.Scale(type="log", domainMax=1),
                axis=alt.Axis(values=ticks, labelExpr=percents),
            ),
            color=combination_colour(labels),
            strokeDash=combination_dash(labels),
            detail="run:N",
        )
        .properties(width=WIDTH if columns == 1 else WIDTH // 2 - 40, height=220)
    )
    if panels == 1:
        return base
    order = list(
        dict.fromkeys(row["panel"] for row in sorted(rows, key=lambda row: _panel_load(labels, row["panel"])))
    )
    panels_of: Chart = base.encode(facet=alt.Facet("panel:N", columns=columns, sort=order, title=None))
    return panels_of


def _panel_load(labels: Labels, panel: str) -> float:
    loads = (load for load in labels.loads if panel == f"{labels.load_word} {labels.load_label(load)}")
    return next(loads, 0.0)
