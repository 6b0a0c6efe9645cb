"""Altair charts of an analysis, for the page, a notebook and export. Each file has the charts of one subject."""

from __future__ import annotations

from typing import Any

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.report.charts import (
    consistency,
    distribution,
    effects,
    load,
    means,
    operations,
    ramp,
    regressions,
    search,
    series,
)
from plimsoll.report.charts.figure import Figure
from plimsoll.report.charts.resources import hosts, memory, testers, utilization
from plimsoll.report.charts.theme import Chart
from plimsoll.report.labels import Labels

__all__ = ["Figure", "check_figures", "effect_figures", "load_figures", "run_charts", "shown_runs", "spec"]


def load_figures(labels: Labels) -> list[Figure]:
    """Charts against the load: throughput, response time, distribution, errors, utilization, memory, fairness,
    consistency; then ramps and hosts.

    A single cell has no load axis: its numbers are tables, its distribution and its time series are charts.
    """
    if not labels.analysis.runs:
        return []
    several = len(labels.analysis.cells) > 1
    figures = (
        load.throughput(labels) if several else None,
        load.response(labels) if several else None,
        distribution.distribution(labels),
        load.errors(labels) if several else None,
        utilization.utilization(labels),
        memory.memory(labels),
        operations.operations(labels),
        testers.fairness(labels) if several else None,
        consistency.tradeoff(labels) if several else None,
    )
    drawn = [figure for figure in figures if figure is not None]
    of_responses = load.responses(labels) if several else []
    return [
        *search.figures(labels),
        *drawn,
        *of_responses,
        *means.own_figures(labels),
        *ramp.figures(labels),
        *hosts.figures(labels),
    ]


def effect_figures(labels: Labels) -> list[Figure]:
    """For each response the share of the variation that each factor explains, the main effects and the interactions;
    then the regressions."""
    figures: list[Figure] = []
    for at, model in enumerate(labels.analysis.models, start=1):
        shares = effects.allocation(labels, model, at)
        figures += [] if shares is None else [shares]
        figures += means.effect_figures(labels, model.response, at)
    known = [model.response for model in labels.analysis.models]
    responses = (chart.y[0] for chart in labels.analysis.charts if chart.kind == "main effect")
    for at, response in enumerate(
        (name for name in dict.fromkeys(responses) if name not in known), start=len(known) + 1
    ):
        figures += means.effect_figures(labels, response, at)
    return [*figures, *regressions.figures(labels)]


def check_figures(labels: Labels) -> list[Figure]:
    """Charts for checks by a reviewer: run order and residuals."""
    # The loads of a search differ from trial to trial, so its throughputs have no trend.
    figures = [effects.run_order(labels)] if labels.analysis.search is None else []
    figures += [
        effects.residuals(labels, model, at) for at, model in enumerate(labels.analysis.models, start=1)
    ]
    return [figure for figure in figures if figure is not None]


def shown_runs(labels: Labels) -> list[RunResult]:
    """The runs that have a time series or several testers, in the order of combination and load."""
    return [
        run for run in labels.runs() if (run.series is not None and run.series.t_s) or len(run.testers) > 1
    ]


def run_charts() -> tuple[dict[str, Any], dict[str, Any]]:
    """The frames of the two charts of a single run (time series, testers), as Vega-Lite without rows."""
    return spec(series.chart(None)), spec(testers.chart(None))


def spec(chart: Chart) -> dict[str, Any]:
    """The chart as Vega-Lite, without `$schema`, which the page does not need. The chart is not validated here; tests
    validate it."""
    drawn: dict[str, Any] = chart.to_dict(validate=False)
    drawn.pop("$schema", None)
    return drawn
