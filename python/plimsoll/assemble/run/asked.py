"""The parts of plan.json that the analysis needs, parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plimsoll.analyse.design.across import Design
from plimsoll.analyse.effects.fits import ResponseModel
from plimsoll.analyse.results.wording import listing
from plimsoll.analyse.stats.quantiles import STANDARD
from plimsoll.errors import DamagedResults
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule, RuleError, parse_rule
from plimsoll.plan.model.cell import FIRST, CapacityRules, ChartRequest, Threshold, UntilTight, Validity
from plimsoll.plan.source.price import Price


class AnalysisRequest:
    """Responses, charts, rules, thresholds and design of plan.json. `quantiles`: those of the rules, in addition to the
    standard ones, as shares of 1. `at_peak`, `less_rtt`: whether a metric is of the peak window, or needs round trips;
    `first`: the first transactions, of a connection or of a tester, that have a rule or a response; `prices`: by
    component. Raises DamagedResults if plan.json has another form."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        try:
            self.responses = [
                ResponseModel(response["metric"], response["scale"]) for response in plan["responses"]
            ]
            self.charts = [
                ChartRequest(
                    chart["x"],
                    chart["x_is"],
                    tuple(chart["y"]),
                    None if chart["by"] is None else tuple(chart["by"]),
                )
                for chart in plan.get("charts", ())
            ]
            self.validity = Validity(**plan["validity"])
            self.capacity = _capacity(plan["capacity"])
            self.thresholds = [_threshold(threshold) for threshold in plan["thresholds"]]
            self.design = _design(plan)
            self.prices = {name: Price(**price) for name, price in plan.get("costs", {}).items()}
            judged = (*self.thresholds, *self.capacity.usable)
            rules = [threshold.rule for threshold in judged]
            rules += [rule for rule in (self.capacity.response,) if rule is not None]
            metrics = [response.metric for response in self.responses]
            metrics += [threshold.metric for threshold in judged]
            metrics += self.chart_metrics
            # Also within a ratio.
            self.less_rtt = any(catalogue.RESPONSE_LESS_RTT in metric for metric in metrics)
            self.at_peak = any(_is_at_peak(metric) for metric in metrics)
            of_rules = {of for threshold in judged for of in threshold.parts.get(FIRST, ())}
            self.first = tuple(sorted(of_rules | set(_first_of(metrics))))
            self.quantiles = (*STANDARD, *(rule.arg / 100 for rule in rules if rule.arg is not None))
        except (KeyError, TypeError, RuleError) as error:
            raise DamagedResults(
                f"plan.json does not have the form that this release writes: {error}"
            ) from error

    @property
    def chart_metrics(self) -> list[str]:
        """The metrics of the charts, in their order."""
        on_x = [chart.x for chart in self.charts if chart.x_is == "metric"]
        return list(dict.fromkeys((*on_x, *(metric for chart in self.charts for metric in chart.y))))


def _is_at_peak(metric: str) -> bool:
    named = catalogue.METRICS.find(metric)
    return (
        named is not None and named.scope is not None and named.scope.suffix.endswith(catalogue.PEAK.suffix)
    )


def _first_of(metrics: Sequence[str]) -> Iterator[str]:
    """The kinds of first transactions that the metrics are of."""
    for metric in metrics:
        named = catalogue.METRICS.find(metric)
        if named is not None and named.scope is not None and FIRST in named.parts:
            yield named.parts[FIRST]


def _design(plan: Mapping[str, Any]) -> Design:
    load = plan["load_factor"]
    values: dict[str, float] = {}
    for run in plan["runs"]:
        if load is not None and load in run["values"]:
            values[run["cell"][load]] = float(run["values"][load])
    levels = {factor["name"]: factor["levels"] for factor in plan["factors"]}
    until = plan["design"].get("until")
    rule = None if until is None else UntilTight(**until)
    return Design(levels, load, values, bool(plan["design"].get("loop")), rule)


def _capacity(capacity: Mapping[str, Any]) -> CapacityRules:
    response, errors = capacity["response"], capacity["errors"]
    parts = {kind: tuple(names) for kind, names in capacity.get("parts", {}).items()}

    def rule(text: str, metric: str) -> Rule | None:
        return replace(parse_rule(text, metric), text=text + _words_of(parts)) if text else None

    further = (_threshold(threshold) for threshold in capacity.get("usable", ()))
    usable = tuple(
        replace(one, rule=replace(one.rule, text=one.text + _words_of(one.parts))) for one in further
    )
    return CapacityRules(rule(response, "response"), rule(errors, "errors"), response, errors, parts, usable)


def _words_of(parts: Mapping[str, tuple[str, ...]]) -> str:
    return "".join(f" ({kind} {listing(names)})" for kind, names in parts.items())


def _threshold(threshold: Mapping[str, Any]) -> Threshold:
    where, parts = (
        {name: tuple(labels) for name, labels in threshold.get(key, {}).items()} for key in ("where", "parts")
    )
    return Threshold(
        threshold["metric"],
        parse_rule(threshold["test"], threshold["metric"]),
        threshold["test"],
        where,
        parts,
    )
