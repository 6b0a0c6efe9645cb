"""Allocation of variation to the factors, and checks of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import altair as alt

from plimsoll.analyse.answer.explained import term_words
from plimsoll.analyse.results.analysis import Model
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.wording import capitalized, describe, number, quantity
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.load import axis_scale
from plimsoll.report.charts.theme import (
    INK,
    WIDTH,
    Rows,
    axis_format,
    chart_of,
    combination_colour,
    combination_shape,
    finish,
    level,
)
from plimsoll.report.labels import Labels
from plimsoll.report.tables import analysis as tables

MAX_TICKS: Final = 12
"""Up to this number of runs, each has a tick."""
NOTHING: Final = 1e-12
"""Residuals below this share of the fitted values are rounding errors: an axis of 1e-14 would be meaningless."""


def allocation(labels: Labels, model: Model, position: int) -> Figure | None:
    """Sorted bars of the share of each term in the variation; None if the analysis has no shares.

    `position`: number of the model, from 1, for the key of the figure.
    """
    rows: Rows = [
        {
            "term": term_words(effect),
            "share": effect.variation_percent,
            "said": "< 0.01 %"
            if effect.variation_percent < 0.01
            else f"{number(effect.variation_percent)} %",
            "kind": "residual" if effect.term == "residual" else "term",
        }
        for effect in labels.analysis.effects
        if (effect.response, effect.scale) == (model.response, model.scale)
        and effect.variation_percent is not None
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: (row["kind"] == "residual", -row["share"]))
    order = [row["term"] for row in rows]
    y = alt.Y("term:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
    base = chart_of("terms")
    top = max(row["share"] for row in rows)
    x = alt.X(
        "share:Q",
        title="share of the total variation (%)",
        scale=alt.Scale(domain=[0, top * 1.12], nice=True),
        axis=alt.Axis(values=[10 * step for step in range(11)]) if top > 50 else alt.Undefined,
    )
    opacity = alt.condition("datum.kind == 'residual'", alt.value(0.35), alt.value(0.75))
    bars = base.mark_bar(height={"band": 0.7}, color=INK).encode(
        x=x, y=y, opacity=opacity, tooltip=["term:N", "said:N"]
    )
    words = base.mark_text(align="left", dx=5).encode(x=x, y=y, text="said:N")
    chart = alt.layer(bars, words).properties(width=WIDTH - 140, height=26 * len(rows) + 10)
    title = describe(model.response).title
    return Figure(
        key=f"effects-{position}",
        title=f"What explains the {title}" + (" (logarithm)" if model.scale == "log" else ""),
        chart=finish(chart, terms=rows),
        alt=f"Share in the total variation of {title}: "
        + "; ".join(f"{row['term']} {row['said']}" for row in rows),
        table=tables.effects(labels, model),
        caption=_remarks(model),
    )


def _remarks(model: Model) -> str:
    sentences = [f"R² = {number(model.r_squared, 4)}." if model.r_squared is not None else ""]
    if model.not_estimable:
        sentences.append(f"Cannot be estimated: {', '.join(model.not_estimable)}.")
    return " ".join(part for part in sentences if part)


def _whole_numbers(orders: Sequence[int]) -> alt.Axis:
    """A tick per run if there are few runs, because Vega would set ticks between runs and round their labels."""
    if len(orders) <= MAX_TICKS:
        return alt.Axis(format="d", grid=False, values=sorted(orders))
    return alt.Axis(format="d", grid=False, tickMinStep=1)


def run_order(labels: Labels) -> Figure | None:
    """The leading response of every run in execution order; None for a single run."""
    metric = labels.metric
    values = {run.id: metric_value(run, metric.name) for run in labels.analysis.runs}
    factor, unit = axis_scale(metric, values.values())
    rows: Rows = [
        {
            "order": run.order,
            "value": value * factor,
            "combination": labels.combination(run.cell),
            "cell": labels.cell(run.cell),
            "run": run.id,
            "verdict": "left out" if not run.valid else "in the figures",
            "said": quantity(value, metric.kind, metric.unit),
        }
        for run in labels.analysis.runs
        if (value := values[run.id]) is not None
    ]
    if len(rows) < 2:
        return None
    opacity = alt.condition("datum.verdict == 'left out'", alt.value(0.3), alt.value(0.95))
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("run", "cell", "said", "verdict")]
    chart = (
        chart_of("order")
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(
                "order:Q",
                title="execution order of the runs",
                axis=_whole_numbers([run.order for run in labels.analysis.runs]),
                scale=alt.Scale(zero=False, nice=False, padding=12),
            ),
            y=alt.Y(
                "value:Q",
                title=f"{metric.title} ({unit})" if unit else metric.title,
                scale=alt.Scale(zero=True),
                axis=alt.Axis(format=axis_format(row["value"] for row in rows), tickCount=6),
            ),
            color=combination_colour(labels),
            shape=combination_shape(labels),
            opacity=opacity,
            tooltip=tooltip,
        )
        .properties(width=WIDTH, height=240)
    )
    faint = "; faint: left out of the figures" if any(row["verdict"] == "left out" for row in rows) else ""
    return Figure(
        key="order",
        title=f"{capitalized(metric.title)} in run order",
        chart=finish(chart, order=rows),
        alt=f"{capitalized(metric.title)} of {len(rows)} runs in execution order.",
        table=tables.order(labels),
        caption=f"A trend here would mean that the machine, not the factors, changed{faint}.",
        on_demand=True,
    )


def residuals(labels: Labels, model: Model, position: int) -> Figure | None:
    """Residual against fitted value; None if the model has no residuals. `position`: as in `allocation`."""
    cells = {run.id: run.cell for run in labels.analysis.runs}
    rows: Rows = [
        {
            "run": run,
            "fitted": fitted,
            "residual": 0.0 if abs(residual) < NOTHING * abs(fitted) else residual,
            "combination": labels.combination(cells[run]),
            "cell": labels.cell(cells[run]),
        }
        for run, fitted, residual in zip(model.run_ids, model.fitted, model.residuals, strict=False)
        if run in cells
    ]
    if not rows:
        return None
    title = describe(model.response).title
    suffix = " (logarithm)" if model.scale == "log" else ""
    points = (
        chart_of("residuals")
        .mark_point(filled=True, size=60, opacity=0.9)
        .encode(
            x=alt.X(
                "fitted:Q",
                title=f"fitted {title}{suffix}",
                scale=alt.Scale(zero=False, padding=12),
                axis=alt.Axis(tickCount=6, grid=False),
            ),
            y=alt.Y(
                "residual:Q",
                title=f"residual{suffix}",
                axis=alt.Axis(tickCount=5),
                scale=alt.Scale(padding=10),
            ),
            color=combination_colour(labels),
            shape=combination_shape(labels),
            tooltip=[alt.Tooltip("run:N"), alt.Tooltip("cell:N"), alt.Tooltip("residual:Q", format="~r")],
        )
    )
    return Figure(
        key=f"residuals-{position}",
        title=f"Residuals of the {title}",
        chart=finish(alt.layer(level("y", 0), points).properties(width=WIDTH, height=220), residuals=rows),
        alt=f"Residual against fitted value of {len(rows)} runs.",
        table=tables.residuals(model),
        caption="A funnel would mean that the spread grows with the value, a curve that a term is missing.",
        on_demand=True,
    )
