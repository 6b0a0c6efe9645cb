"""Response times of each request of a mix, a panel for each. They are drawn when the reader opens the figure."""

from __future__ import annotations

from typing import Final

import altair as alt

from plimsoll.analyse.results.wording import describe, percentile
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.load import axis_scale
from plimsoll.report.charts.theme import (
    WIDTH,
    Rows,
    axis_format,
    chart_of,
    combination_colour,
    combination_shape,
    finish,
    load_axis,
)
from plimsoll.report.labels import Labels
from plimsoll.report.tables import analysis as tables

MAX_PANELS: Final = 24
COLUMNS: Final = 2


def operations(labels: Labels) -> Figure | None:
    """p95 of every valid run, a panel for each request; None if no run has a mix."""
    several = any(len(run.workloads) > 1 for run in labels.analysis.runs)
    measured = [
        (run, operation, operation.traffic.response_ms.p95)
        for run in labels.runs()
        if run.valid
        for operation in run.operations
        if operation.traffic.response_ms.p95 is not None
    ]
    if not measured:
        return None
    factor, unit = axis_scale(describe("response_ms"), [p95 for _, _, p95 in measured])
    rows: Rows = [
        {
            "operation": tables.operation_name(operation, several=several),
            "combination": labels.combination(run.cell),
            "cell": labels.cell(run.cell),
            "load": labels.load(run),
            "run": run.id,
            "value": (p95 or 0.0) * factor,
            "said": percentile(operation.traffic.response_ms, "p95"),
        }
        for run, operation, p95 in measured
    ]
    names = list(dict.fromkeys(row["operation"] for row in rows))[:MAX_PANELS]
    rows = [row for row in rows if row["operation"] in names]
    cells = list(dict.fromkeys(row["cell"] for row in rows))
    x = load_axis(labels) if labels.load_factor else alt.X("cell:N", title=None, sort=cells)
    columns = min(COLUMNS, len(names))
    drawn = (
        chart_of("operations")
        .mark_point(filled=True, size=55, opacity=0.85)
        .encode(
            x=x,
            y=alt.Y(
                "value:Q",
                title=f"p95 of response time ({unit})",
                scale=alt.Scale(zero=True),
                axis=alt.Axis(format=axis_format(row["value"] for row in rows), tickCount=5),
            ),
            color=combination_colour(labels),
            shape=combination_shape(labels),
            facet=alt.Facet("operation:N", columns=columns, sort=names, title=None),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("operation", "cell", "run", "said")],
        )
        .properties(width=WIDTH // columns - 60, height=160)
    )
    return Figure(
        key="operations",
        title="Response time of each request",
        chart=finish(drawn, operations=rows),
        alt=f"95th percentile of the response time of {len(names)} requests of the mix.",
        table=tables.operations(labels),
        caption="One point per valid run.",
        on_demand=True,
    )
