"""The actions of a run, from its record, its summary and its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from plimsoll.analyse.results.actions import ActionResult, ActionsResult
from plimsoll.analyse.run.outages.incidents import AvailabilityLimit, actions_result, phases, spans
from plimsoll.analyse.run.summary import Layout, RunSummary
from plimsoll.analyse.window.transactions import Window
from plimsoll.assemble.run.asked import AnalysisRequest
from plimsoll.collect.live import seconds_of
from plimsoll.collect.results import RunFiles
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule

PHASES: Final = ("before", "during", "after")


def actions_of(record: Mapping[str, Any]) -> tuple[ActionResult, ...]:
    """The actions of run.json, in order of their planned times."""
    return tuple(ActionResult(**action) for action in record.get("actions", ()))


def has_acted(record: Mapping[str, Any]) -> bool:
    """Whether an action of the run began."""
    return any(action.began_s is not None for action in actions_of(record))


def with_phases(layout: Layout, record: Mapping[str, Any], limit: AvailabilityLimit) -> Layout:
    """The layout with the windows before, during and after the actions; unchanged if the run has none."""
    actions = actions_of(record)
    if not actions:
        return layout
    windows = zip(PHASES, phases(spans(actions), layout.measured), strict=True)
    named = {name: window for name, window in windows if window is not None}
    return replace(layout, phases=named, availability_ns=limit.ns)


def availability_limit(rules: AnalysisRequest, cell: Mapping[str, str]) -> AvailabilityLimit:
    """The response-time objective: that of `capacity:`, else the first of `thresholds:` that applies to the cell and to
    all transactions; else the default."""
    capacity = rules.capacity.response
    if capacity is not None and _is_limit(capacity) and not rules.capacity.parts:
        return AvailabilityLimit(round(capacity.value * 1e9), "capacity")
    for threshold in rules.thresholds:
        if _is_limit(threshold.rule) and threshold.applies(cell) and not threshold.parts:
            return AvailabilityLimit(round(threshold.rule.value * 1e9), "threshold")
    return AvailabilityLimit()


def _is_limit(rule: Rule) -> bool:
    named = catalogue.METRICS.find(rule.metric)
    return named is not None and named.metric.name == "response" and named.scope is None and rule.upper


def result_of_actions(
    run: RunFiles, summary: RunSummary, layout: Layout, limit: AvailabilityLimit
) -> ActionsResult | None:
    """The result; None if the run has no actions."""
    if summary.success_bins is None:
        return None
    measured = layout.measured
    never_started = sum(number for _, number in layout.given_up(measured)) + _missed(run, measured)
    result = actions_result(
        actions_of(run.record),
        summary.success_bins,
        measured,
        limit,
        layout.codes,
        never_started=never_started,
        load_changes=bool(run.record.get("load_changes", len(run.record["stages"]) > 1)),
    )
    before, during, after = (summary.phases.get(name) for name in PHASES)
    return replace(result, before=before, during=during, after=after)


def _missed(run: RunFiles, measured: Window) -> int:
    """Slots that busy testers skipped in the window, to a second."""
    return sum(
        second.missed
        for second in seconds_of(run.live)
        if measured.start <= second.number * 10**9 < measured.end
    )
