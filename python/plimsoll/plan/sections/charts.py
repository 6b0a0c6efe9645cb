"""The charts of an experiment file: which factors and metrics `charts:` names. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from plimsoll.plan.design.factors import Factor
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.model import cell as model
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import ChartRaw, ExperimentRaw
from plimsoll.plan.sections.components import known_metric
from plimsoll.plan.source import hints
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest


def resolve_charts(
    raw: ExperimentRaw, factors: Sequence[Factor], ratios: Mapping[str, str], report: ResolveContext
) -> tuple[model.ChartRequest, ...]:
    """The valid charts of the file, in its order. Problems of the others are reported.

    `ratios`: the ratios of `responses`, by their names, which a chart may use like metrics. A factor takes precedence
    over a metric of the same name, on the x axis only: no factor can be on the y axis.
    """
    names = [factor.name for factor in factors]
    charts = []
    for index, chart in enumerate(raw.charts):
        at: KeyPath = ("charts", index)
        before = len(report.problems)
        x = chart.x if chart.x in names else _x_metric(chart.x, names, ratios, (*at, "x"), report)
        y = _y_metrics(chart, names, ratios, at, report)
        _check_by(chart, names, at, report)
        if len(report.problems) == before:
            by = None if chart.by is None else tuple(dict.fromkeys(chart.by))
            charts.append(model.ChartRequest(x, "factor" if chart.x in names else "metric", y, by))
    return tuple(charts)


def _x_metric(
    text: str, names: Collection[str], ratios: Mapping[str, str], at: KeyPath, report: ResolveContext
) -> str:
    metric = ratios.get(text, text)
    if catalogue.METRICS.named(metric, Use.RESPONSE) is None:
        factors = f"the factors are {', '.join(names)}" if names else "the file has no factors"
        known = (*names, *ratios, *catalogue.METRICS.names(Use.RESPONSE))
        near = hints.OF_METRICS.get(text) or nearest(text, known)
        report.wrong(at, f"there is no factor and no metric {text}; {factors}", near)
    return metric


def _y_metrics(
    chart: ChartRaw, names: Collection[str], ratios: Mapping[str, str], at: KeyPath, report: ResolveContext
) -> tuple[str, ...]:
    """The metrics of the y axes. Reports factors, unknown metrics, and metrics that occur twice."""
    metrics: list[str] = []
    results: dict[str, str] = {}
    if chart.x not in names and (x := catalogue.METRICS.find(ratios.get(chart.x, chart.x))) is not None:
        results[x.name] = f"{chart.x} is already on the x axis"
    for index, text in enumerate(chart.y):
        place: KeyPath = (*at, "y", index)
        metric = ratios.get(text, text)
        if text in names and catalogue.METRICS.named(metric, Use.RESPONSE) is None:
            report.wrong(place, f"{text} is a factor; expected a metric such as throughput: use `x` or `by`")
            continue
        if not known_metric(metric, place, Use.RESPONSE, report):
            continue
        named = catalogue.METRICS.find(metric)
        assert named is not None
        if named.name in results:
            report.wrong(place, results[named.name])
        results[named.name] = f"{text} occurs twice"
        metrics.append(metric)
    return tuple(metrics)


def _check_by(chart: ChartRaw, names: Sequence[str], at: KeyPath, report: ResolveContext) -> None:
    for index, name in enumerate(chart.by or ()):
        place: KeyPath = (*at, "by", index)
        if name not in names:
            some = f"the factors are {', '.join(names)}" if names else "the file has no factors"
            report.wrong(place, f"there is no factor {name}; {some}", nearest(name, names))
        elif name == chart.x:
            report.wrong(place, f"{name} is already on the x axis")
