"""Resolves `repetitions: {until: ...}`."""

from __future__ import annotations

from plimsoll.errors import BadInput
from plimsoll.plan.design import combinations
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.model import cell as model
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import DesignRaw
from plimsoll.plan.sections.components import known_metric
from plimsoll.plan.source.document import KeyPath


def resolve_until(raw_design: DesignRaw, report: ResolveContext) -> model.UntilTight | None:
    """The rule that ends the repetitions; None if their number is fixed. Raises BadInput."""
    until = raw_design.until
    if until is None:
        return None
    at: KeyPath = ("design", "repetitions", "until")
    for metric in until.until:
        known_metric(metric, (*at, metric), Use.RESPONSE, report)
    if combinations.kind_of(raw_design) == "table":
        report.wrong(
            ("design", "repetitions"), "a table lists its runs: `until` needs another kind of design"
        )
    if report.problems:
        raise BadInput(report.problems)
    return model.UntilTight(dict(until.until), until.at_least, until.max_repetitions)
