"""Throughput of readers against the share of stale answers, a point per cell: the cost of consistency."""

from __future__ import annotations

from typing import Any

import altair as alt

from plimsoll.analyse.results.analysis import CellResult, Consistency
from plimsoll.analyse.results.wording import describe, factor_word, percent, plus_minus
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.theme import HEIGHT, WIDTH, Chart, Rows, axis_format, chart_of, finish
from plimsoll.report.labels import SHAPES, Labels
from plimsoll.report.tables import consistency

TOOLTIP = [
    alt.Tooltip("cell:N", title="cell"),
    alt.Tooltip("reads_said:N", title="reads"),
    alt.Tooltip("share_said:N", title="stale"),
    alt.Tooltip("fetched_said:N", title="fetched"),
]


def tradeoff(labels: Labels) -> Figure | None:
    """Reads per second against the share of stale answers; None if no cell has both."""
    result = labels.analysis.consistency
    if result is None:
        return None
    rows = [
        row
        for cell in labels.cells()
        if (cell_consistency := consistency.of_cell(labels, cell)) is not None
        and (row := _row(labels, cell, cell_consistency, result.factor)) is not None
    ]
    if not rows:
        return None
    has_intervals = any("low" in row for row in rows)
    return Figure(
        key="consistency",
        title="Throughput of readers against stale answers",
        chart=finish(_draw(labels, rows, result.factor), consistency=rows),
        alt="Reads per second against the share of stale answers: up is cheaper, left is more consistent. "
        + "; ".join(f"{row['cell']}: {row['reads_said']}, {row['share_said']} stale" for row in rows[:16]),
        table=consistency.cells(labels),
        caption="Up: more reads; left: fewer stale answers. One point per cell, the mean over its valid runs"
        + ("; bars: 95 % intervals." if has_intervals else ", without intervals.")
        + " The bar of a cell without stale answers ends at the upper bound for its number of answers.",
    )


def _row(
    labels: Labels, cell: CellResult, cell_consistency: Consistency, factor: str | None
) -> dict[str, Any] | None:
    reads, share = cell.responses.get("reads_per_s"), cell_consistency.stale_share
    if reads is None or share is None:
        return None
    row: dict[str, Any] = {
        "cell": labels.cell(cell.cell),
        "level": cell.cell.get(factor, "") if factor else "",
        "share": share.mean * 100,
        "reads": reads.mean,
        "reads_said": plus_minus(reads, "rate", "reads/s"),
        "share_said": f"{percent(share.mean)} ({consistency.share_words(share)})",
        "fetched_said": percent(cell_consistency.fetches_per_answer),
    }
    if share.low is not None and share.high is not None:
        row |= {"low": share.low * 100, "high": share.high * 100}
    if reads.low is not None and reads.high is not None:
        row |= {"least": reads.low, "most": reads.high}
    return row


def _draw(labels: Labels, rows: Rows, factor: str | None) -> Chart:
    title, unit = describe("reads_per_s").title, describe("reads_per_s").unit
    x_title, y_title = "share of stale answers (%)", f"{title} ({unit})"
    top = max(row["high"] if "high" in row else row["share"] for row in rows)
    x = alt.X(
        "share:Q",
        title=x_title,
        scale=alt.Scale(domain=[0, top or 1], nice=True),
        axis=alt.Axis(format=axis_format([top]), tickCount=6),
    )
    most = [row["most"] if "most" in row else row["reads"] for row in rows]
    y = alt.Y(
        "reads:Q",
        title=y_title,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(format=axis_format(most), tickCount=6),
    )
    colour, shape = _signs(labels, factor)
    base = chart_of("consistency")
    layers = [
        base.mark_point(size=75, filled=True, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=TOOLTIP
        )
    ]
    if any("low" in row for row in rows):
        across = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        layers.insert(0, across.encode(x=alt.X("low:Q", title=x_title), x2="high:Q", y=y, color=colour))
    if any("least" in row for row in rows):
        along = base.transform_filter("isValid(datum.least)").mark_rule(strokeWidth=1.5)
        layers.insert(0, along.encode(x=x, y=alt.Y("least:Q", title=y_title), y2="most:Q", color=colour))
    drawn: Chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    return drawn


def _signs(labels: Labels, factor: str | None) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of the levels of the first factor; without a legend if there is one level."""
    levels = list(labels.analysis.experiment.factors.get(factor, [])) if factor else [""]
    legend = (
        alt.Legend(title=factor_word(factor), symbolOpacity=1)
        if factor is not None and len(levels) > 1
        else None
    )
    colours = (
        labels.colours if len(levels) == len(labels.combinations) else labels.colours_beside(len(levels))
    )
    shapes = [SHAPES[(at + at // 8) % len(SHAPES)] for at in range(len(levels))]
    return (
        alt.Color("level:N", scale=alt.Scale(domain=levels, range=colours), legend=legend),
        alt.Shape("level:N", scale=alt.Scale(domain=levels, range=shapes), legend=legend),
    )
