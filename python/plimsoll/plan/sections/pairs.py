"""Resolves `design: {pair: ...}`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plimsoll.plan.design.changes import changes
from plimsoll.plan.design.factors import Factor
from plimsoll.plan.design.pairs import combinations_of
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.model import cell as model
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import DesignRaw
from plimsoll.plan.sections.components import known_metric


def resolve_pair(
    raw_design: DesignRaw, factors: Sequence[Factor], report: ResolveContext
) -> model.Pair | None:
    """The comparison of a valid design; None if it has none. Reports unknown metrics."""
    if raw_design.pair is None:
        return None
    for index, metric in enumerate(raw_design.drift):
        known_metric(metric, ("design", "drift", index), Use.RESPONSE, report)
    factor = next(factor for factor in factors if factor.name == raw_design.pair)
    old, new = factor.labels
    return model.Pair(factor.name, old, new, raw_design.control, tuple(raw_design.drift))


def with_fresh_services(cells: Sequence[model.Cell], pair: model.Pair | None) -> tuple[model.Cell, ...]:
    """The cells, so that services that differ between the levels of the pair are restarted before each run: the new
    level always follows a restart, so the old one must not follow a run of its own in some blocks."""
    out = list(cells)
    if pair is None:
        return tuple(out)
    for _, levels in combinations_of([cell.labels for cell in cells], pair.factor):
        old, new = (cells[levels[label]].config for label in (pair.old, pair.new))
        differing = {*changes(old, new, same_cell=True).start, *changes(new, old, same_cell=True).start}
        for index in levels.values():
            config = out[index].config
            services = tuple(
                replace(service, fresh="run") if service.name in differing else service
                for service in config.services
            )
            out[index] = replace(out[index], config=replace(config, services=services))
    return tuple(out)
