"""The relative half widths that decide when a cell has been repeated often enough."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.analyse.design.across import Group, metric_intervals
from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.load.until_tight import TightCell, UntilTightResult
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.stats.sequential import relative_half_width
from plimsoll.plan.model.cell import UntilTight
from plimsoll.search.until_tight import CellWidths, too_wide


def widths_of(groups: Sequence[Group], rule: UntilTight) -> list[CellWidths]:
    """The widths of each cell, from its valid runs."""
    by_metric = {metric: metric_intervals(metric, groups) for metric in rule.widths}
    return [
        CellWidths(
            len(group.valid),
            {metric: relative_half_width(intervals[at]) for metric, intervals in by_metric.items()},
        )
        for at, group in enumerate(groups)
    ]


def until_tight(groups: Sequence[Group], rule: UntilTight | None) -> UntilTightResult | None:
    """How far each cell came; None if the number of repetitions is fixed."""
    if rule is None:
        return None
    cells = tuple(
        TightCell(
            dict(group.cell),
            widths.repetitions,
            dict(widths.widths),
            widths.repetitions >= rule.at_least and not too_wide(rule.widths, widths),
        )
        for group, widths in zip(groups, widths_of(groups, rule), strict=True)
    )
    return UntilTightResult(
        dict(rule.widths), rule.at_least, rule.at_most, cells, verdict_rules.rule(RuleName.UNTIL_TIGHT)
    )
