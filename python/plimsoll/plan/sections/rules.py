"""Responses, thresholds and the rules of `capacity:`, resolved: metrics, their parts and their windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plimsoll.plan.design.factors import Factor, check_labels
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import MetricReference, Use
from plimsoll.plan.model import cell as model
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import ExperimentRaw, ResponseRaw, ThresholdRaw, UsableRuleRaw
from plimsoll.plan.sections.components import known_metric, metrics_of
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest

NO_PARTS: Final = (
    "is not available for single operations or workloads, or first transactions: it is not computed from single "
    "transactions"
)
DEFAULT_RESPONSE: Final = "throughput"


def responses_of(raw: ExperimentRaw, report: ResolveContext) -> tuple[model.Response, ...]:
    """The responses of the file; the default one if it states none."""
    responses = []
    for index, response in enumerate(raw.responses):
        at: KeyPath = ("responses", index)
        text = response.metric
        if response.ratio is not None:
            for key in ("of", "to"):
                known_metric(getattr(response.ratio, key), (*at, "ratio", key), Use.RESPONSE, report)
            text = _ratio_text(response)
        elif text is not None:
            known_metric(text, (*at, "metric"), Use.RESPONSE, report)
        if text is not None:
            metric = _over(_where(text, response, raw, at, report), response.over, at, report)
            responses.append(model.Response(metric, response.scale))
    return tuple(responses) or (model.Response(DEFAULT_RESPONSE, "linear"),)


def _where(
    metric: str, response: ResponseRaw, raw: ExperimentRaw, at: KeyPath, report: ResolveContext
) -> str:
    """The name of the metric of a part of the transactions. Reports a metric that parts do not have."""
    for kind, name in response.where.items():
        if kind == model.WORKLOAD and len(raw.workloads or {}) < 2:
            continue  # the only workload has no figures of its own
        of_part = MetricReference.of_part(metric, kind, name)
        if catalogue.METRICS.find(of_part) is not None:
            return of_part
        if catalogue.METRICS.find(metric) is not None:
            report.wrong((*at, "where"), f"{metric} {NO_PARTS}")
    return metric


def _ratio_text(response: ResponseRaw) -> str:
    """The name of a ratio in the table of metrics."""
    assert response.ratio is not None
    return f"{response.name} = {response.ratio.of} / {response.ratio.to}"


def ratios_of(raw: ExperimentRaw) -> dict[str, str]:
    """The ratios of the responses, as the table of metrics writes them, by their names."""
    return {
        response.name: _ratio_text(response)
        for response in raw.responses
        if response.ratio is not None and response.name is not None
    }


def _over(metric: str, over: str | None, at: KeyPath, report: ResolveContext) -> str:
    """The name of the metric in its window. Reports a metric that the window does not have."""
    if over is None:
        return metric
    in_window = metric + catalogue.PEAK.suffix
    named = catalogue.METRICS.find(metric)
    if named is None or catalogue.METRICS.find(in_window) is not None:
        return in_window
    report.wrong((*at, "over"), f"{metric} is only known for the whole run", None)
    return metric


def capacity_rules(raw: ExperimentRaw, report: ResolveContext) -> model.CapacityRules:
    """The rules of `capacity:`."""
    response = errors = None
    if raw.capacity.response is not None:
        response = report.rule(raw.capacity.response, "response", ("capacity", "response"))
    if raw.capacity.errors is not None:
        errors = report.rule(raw.capacity.errors, "errors", ("capacity", "errors"))
    parts: dict[str, tuple[str, ...]] = {kind: (name,) for kind, name in raw.capacity.where.items()}
    usable = []
    for index, rule in enumerate(raw.capacity.usable):
        of: dict[str, tuple[str, ...]] = {kind: (name,) for kind, name in rule.where.items()}
        threshold = _rule_of(rule, {}, of, ("capacity", "usable", index), ratios_of(raw), report)
        usable += [] if threshold is None else [threshold]
    return model.CapacityRules(
        response, errors, raw.capacity.response or "", raw.capacity.errors or "", parts, tuple(usable)
    )


def threshold_rules(
    raw: ExperimentRaw, factors: Sequence[Factor], report: ResolveContext
) -> tuple[model.Threshold, ...]:
    """The rules of `thresholds:`, with the levels and the parts that they apply to."""
    by_name = {factor.name: factor for factor in factors}
    thresholds = []
    for index, threshold in enumerate(raw.thresholds):
        at: KeyPath = ("thresholds", index)
        where = {name: tuple(labels) for name, labels in threshold.where.items()}
        # A factor takes precedence: the keys of PARTS are reserved only if no factor has that name.
        parts: dict[str, tuple[str, ...]] = {
            name: where.pop(name) for name in model.PARTS if name in where and name not in by_name
        }
        check_labels(where, by_name, (*at, "where"), report, also=model.PARTS)
        resolved = _rule_of(threshold, where, parts, at, ratios_of(raw), report)
        thresholds += [] if resolved is None else [resolved]
    return tuple(thresholds)


def _rule_of(
    written: ThresholdRaw | UsableRuleRaw,
    where: Mapping[str, tuple[str, ...]],
    parts: Mapping[str, tuple[str, ...]],
    at: KeyPath,
    ratios: Mapping[str, str],
    report: ResolveContext,
) -> model.Threshold | None:
    """A rule on any metric; None if it is not valid. Its problems are reported."""
    metric = ratios.get(written.metric, written.metric)
    if not known_metric(metric, (*at, "metric"), Use.RULE, report):
        return None
    metric = _over(metric, written.over, at, report)
    if parts and not catalogue.METRICS.has_parts(metric):
        report.wrong(
            (*at, "where"),
            f"{written.metric} {NO_PARTS}",
            None,
        )
    if model.FIRST in parts and len(parts) > 1:
        report.wrong((*at, "where"), "first cannot be combined with operation or workload", None)
    rule = report.rule(written.test, metric, (*at, "test"))
    return None if rule is None else model.Threshold(metric, rule, written.test, where, parts)


def check_parts(
    raw: ExperimentRaw,
    capacity: model.CapacityRules,
    thresholds: Sequence[model.Threshold],
    cells: Sequence[model.Cell],
    report: ResolveContext,
) -> None:
    """Reports workloads and operations of rules that have no separate figures in any cell."""
    loads = [work for cell in cells for work in cell.config.workloads]
    mixes = [work for work in loads if 1 < len(work.operations) <= model.MAX_OPERATIONS]
    workloads_of: dict[str, set[str]] = {}
    for work in mixes:
        for operation in work.operations:
            workloads_of.setdefault(operation.name, set()).add(work.name)
    known = {
        model.OPERATION: list(workloads_of),
        model.WORKLOAD: list(dict.fromkeys(work.name for work in loads)),
        model.FIRST: [model.FIRST_OF_CONNECTION, model.FIRST_OF_TESTER],
    }
    single: list[tuple[KeyPath, Mapping[str, tuple[str, ...]]]] = [(("capacity", "where"), capacity.parts)]
    single += [
        (("capacity", "usable", index, "where"), rule.parts) for index, rule in enumerate(capacity.usable)
    ]
    single += [  # each has one value
        (("responses", index, "where"), {kind: (name,) for kind, name in response.where.items()})
        for index, response in enumerate(raw.responses)
    ]
    single += [
        (at, {kind: (name,) for kind, name in named.parts.items() if kind in model.PARTS})
        for at, text in metrics_of(raw)
        if (named := catalogue.METRICS.find(text)) is not None and named.scope in catalogue.PARTS
    ]
    of_thresholds: list[tuple[KeyPath, Mapping[str, tuple[str, ...]]]] = [
        (("thresholds", index, "where"), threshold.parts) for index, threshold in enumerate(thresholds)
    ]
    for at, parts in (*single, *of_thresholds):
        for kind, name in ((kind, name) for kind, names in parts.items() for name in names):
            if name not in known[kind]:
                some = ", ".join(known[kind][:12]) or "none (no workload has a mix)"
                message = f"there is no {kind} {name}; there are {some}"
                if kind == model.FIRST:
                    message = f"expected the first transactions of {' or '.join(known[kind])}, got {name}"
                report.wrong((*at, kind) if at[-1] == "where" else at, message, nearest(name, known[kind]))
    for at, parts in single:
        for name in parts.get(model.OPERATION, ()):
            if len(workloads_of.get(name, ())) > 1 and model.WORKLOAD not in parts:
                several = ", ".join(sorted(workloads_of[name]))
                advice = (
                    "rename it in one of them"
                    if at[0] in ("responses", "charts")
                    else "give the workload too"
                )
                message = f"the operation {name} occurs in several workloads ({several}): {advice}"
                report.wrong(at, message, None)
