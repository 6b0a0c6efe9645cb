"""Structured results with their texts filled in: the sentences beside codes and numbers in analysis.json."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.analyse.answer.explained import model_reason
from plimsoll.analyse.answer.limits import (
    bracket_text,
    capacity_definition,
    capacity_reason,
    threshold_reason,
)
from plimsoll.analyse.answer.reasons import bottleneck_reason, lost_words, run_reason
from plimsoll.analyse.answer.superseded import superseded_text
from plimsoll.analyse.results.analysis import Analysis, Capacity, Model, RunResult, Saturation, Verdict
from plimsoll.analyse.results.hosts import HostsResult
from plimsoll.analyse.results.verdicts import Reason, Severity


def worded_run(run: RunResult) -> RunResult:
    """With the reasons against it, the reason of its bottleneck, and what is known of agents that were lost."""
    reasons = worded_reasons(run.reasons)
    why = run.bottleneck_why and replace(run.bottleneck_why, text=bottleneck_reason(run.bottleneck_why))
    return replace(
        run,
        reasons=reasons,
        invalid_reasons=tuple(each.text for each in reasons if each.severity == Severity.INVALID),
        doubtful_reasons=tuple(each.text for each in reasons if each.severity == Severity.DOUBTFUL),
        bottleneck_why=why,
        bottleneck_reason=why.text if why else "",
        hosts=run.hosts and _worded_hosts(run.hosts),
    )


def worded_reasons(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Reasons against a run."""
    return tuple(replace(each, text=run_reason(each)) for each in reasons)


def _worded_hosts(hosts: HostsResult) -> HostsResult:
    return replace(hosts, lost=tuple(replace(one, text=lost_words(one)) for one in hosts.lost))


def worded_saturation(found: Saturation) -> Saturation:
    """With `text`, and those of its capacities."""
    capacities = tuple(map(worded_capacity, found.capacities))
    return replace(found, text=bracket_text(found), capacities=capacities)


def worded_capacity(found: Capacity) -> Capacity:
    """With its definition and remark."""
    reasons = tuple(replace(each, text=capacity_reason(each)) for each in found.reasons)
    return replace(
        found,
        definition=capacity_definition(found),
        reasons=reasons,
        remark="; ".join(each.text for each in reasons),
    )


def worded_verdict(found: Verdict) -> Verdict:
    """With its reason."""
    reasons = tuple(replace(each, text=threshold_reason(each, found.test)) for each in found.reasons)
    return replace(found, reasons=reasons, reason="; ".join(each.text for each in reasons))


def worded_superseded(analysis: Analysis) -> Analysis:
    """With the texts of the verdicts that are superseded."""
    found = tuple(replace(each, text=superseded_text(each)) for each in analysis.superseded)
    return replace(analysis, superseded=found)


def worded_model(model: Model) -> Model:
    """With its remarks."""
    reasons = tuple(replace(each, text=model_reason(each)) for each in model.reasons)
    return replace(model, reasons=reasons, remarks=tuple(each.text for each in reasons))
