"""Structured results with their texts filled in: analysis.json contains sentences in addition to codes and numbers."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.analyse.answer.changes import change_text
from plimsoll.analyse.answer.components.conditions import condition_text
from plimsoll.analyse.answer.explained import model_reason
from plimsoll.analyse.answer.load.limits import (
    bracket_text,
    capacity_definition,
    capacity_reason,
    threshold_reason,
)
from plimsoll.analyse.answer.load.regressions import regression_text
from plimsoll.analyse.answer.load.superseded import superseded_text
from plimsoll.analyse.answer.reasons import bottleneck_reason, lost_words, run_reason
from plimsoll.analyse.results.analysis import Analysis, Capacity, Model, RunResult, Saturation, Verdict
from plimsoll.analyse.results.components.hosts import HostsResult
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.verdicts import Reason, Severity


def worded_run(run: RunResult) -> RunResult:
    """The run with the texts of the reasons against it, of its bottleneck, its lost agents, its changes
    and its conditions."""
    reasons = worded_reasons(run.reasons)
    why = run.bottleneck_why and replace(run.bottleneck_why, text=bottleneck_reason(run.bottleneck_why))
    return replace(
        run,
        reasons=reasons,
        invalid_reasons=tuple(reason.text for reason in reasons if reason.severity == Severity.INVALID),
        doubtful_reasons=tuple(reason.text for reason in reasons if reason.severity == Severity.DOUBTFUL),
        bottleneck_why=why,
        bottleneck_reason=why.text if why else "",
        hosts=run.hosts and _worded_hosts(run.hosts),
        conditions=tuple(replace(condition, text=condition_text(condition)) for condition in run.conditions),
        changes=run.changes and tuple(replace(change, text=change_text(change)) for change in run.changes),
    )


def worded_reasons(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """The reasons against a run with their texts."""
    return tuple(replace(reason, text=run_reason(reason)) for reason in reasons)


def _worded_hosts(hosts: HostsResult) -> HostsResult:
    return replace(hosts, lost=tuple(replace(agent, text=lost_words(agent)) for agent in hosts.lost))


def worded_saturation(saturation: Saturation) -> Saturation:
    """The saturation with its text and those of its capacities."""
    capacities = tuple(map(worded_capacity, saturation.capacities))
    return replace(saturation, text=bracket_text(saturation), capacities=capacities)


def worded_capacity(capacity: Capacity) -> Capacity:
    """The capacity with its definition and remark."""
    reasons = tuple(replace(reason, text=capacity_reason(reason)) for reason in capacity.reasons)
    return replace(
        capacity,
        definition=capacity_definition(capacity),
        reasons=reasons,
        remark="; ".join(reason.text for reason in reasons),
    )


def worded_verdict(verdict: Verdict) -> Verdict:
    """The verdict with the texts of its reasons."""
    reasons = tuple(
        replace(reason, text=threshold_reason(reason, verdict.test)) for reason in verdict.reasons
    )
    return replace(verdict, reasons=reasons, reason="; ".join(reason.text for reason in reasons))


def worded_superseded(analysis: Analysis) -> Analysis:
    """The analysis with the texts of its superseded verdicts."""
    entries = tuple(replace(entry, text=superseded_text(entry)) for entry in analysis.superseded)
    return replace(analysis, superseded=entries)


def worded_model(model: Model) -> Model:
    """The model with its remarks."""
    reasons = tuple(replace(reason, text=model_reason(reason)) for reason in model.reasons)
    return replace(model, reasons=reasons, remarks=tuple(reason.text for reason in reasons))


def worded_regression(regression: Regression) -> Regression:
    """The regression with its text."""
    return replace(regression, text=regression_text(regression))
