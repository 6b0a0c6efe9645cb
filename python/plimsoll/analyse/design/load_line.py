"""Over the loads of a design: saturation, capacities and ranking of every combination of the other factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from plimsoll.analyse.components.bottleneck import NOT_RESOLVED, full_loads
from plimsoll.analyse.design import capacity
from plimsoll.analyse.design.across import (
    Design,
    Group,
    common_bottleneck,
    errors_and_ended,
    metric_intervals,
)
from plimsoll.analyse.design.plateau import Highest, highest
from plimsoll.analyse.design.ranking import Contender, ranking
from plimsoll.analyse.design.saturation import Bracket, saturation, throughput_error
from plimsoll.analyse.design.thresholds import Sample, observe
from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.analysis import Capacity, Ranking, RunResult, Saturation
from plimsoll.analyse.results.metrics import canonical, is_capacity, metric_value
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.results.verdicts import CapacityKind, SaturationReason
from plimsoll.analyse.run.overload import is_overloaded
from plimsoll.analyse.stats.blocks import within_blocks
from plimsoll.analyse.stats.interval import Interval
from plimsoll.plan.model import CapacityRules


def saturations(
    groups: Sequence[Group], design: Design, rules: CapacityRules, metrics: Sequence[str]
) -> tuple[Saturation, ...]:
    """Bracket and capacities of every combination of the other factors, for each of the metrics that is a throughput
    (transactions per second, if none is). Empty without a load factor."""
    if design.load_factor is None:
        return ()
    names = [name for m in metrics if is_capacity(name := canonical(m))] or ["throughput_per_s"]
    combinations: dict[tuple[tuple[str, str], ...], list[Group]] = {}
    for group in groups:
        if design.load(group.cell) is not None:
            combinations.setdefault(tuple(design.rest(group.cell).items()), []).append(group)
    out = []
    for name in dict.fromkeys(n for n in names if n is not None):
        levels = _levels(list(combinations.values()), design, name)
        error = throughput_error(levels)
        by_group = dict(zip((id(g) for g in groups), metric_intervals(name, groups), strict=True))
        for (rest, members), mine in zip(combinations.items(), levels, strict=True):
            bracket = saturation(mine, error, _overloaded(members, design), _full(members, design))
            top = highest(mine, error, bracket)
            facts = [_level(g, design, by_group[id(g)], rules) for g in members if g.valid]
            out.append(
                _saturation(dict(rest), name, design.load_factor, bracket, top, facts, rules, members, design)
            )
    return tuple(out)


def _overloaded(members: Sequence[Group], design: Design) -> set[float]:
    """Loads at which the target was overloaded in most valid runs."""
    runs = {load: group.valid for group in members if (load := design.load(group.cell)) is not None}
    return {load for load, mine in runs.items() if is_overloaded(run.traffic.overload for run in mine)}


def _full(members: Sequence[Group], design: Design) -> set[float]:
    """Loads at which the component that is the bottleneck at the highest load is full."""
    runs = {load: group.valid for group in members if (load := design.load(group.cell)) and group.valid}
    component = common_bottleneck(runs[max(runs)]) if runs else NOT_RESOLVED
    if component == NOT_RESOLVED:
        return set()
    return full_loads({load: [_utilization(run, component) for run in mine] for load, mine in runs.items()})


def _utilization(run: RunResult, component: str) -> float:
    """Mean of the component over the window; NaN, which is neither full nor idle, where it was not watched."""
    return next((each.mean for each in run.utilization if each.component == component), math.nan)


def _levels(
    combinations: Sequence[Sequence[Group]], design: Design, name: str
) -> list[dict[float, list[float]]]:
    """Throughputs by level of each combination, without the effects of blocks, which all combinations share."""
    cells = [
        (at, load, group.valid)
        for at, members in enumerate(combinations)
        for group in members
        if (load := design.load(group.cell)) is not None and group.valid
    ]
    plain = [
        [(run.block, v) for run in runs if (v := metric_value(run, name)) is not None] for _, _, runs in cells
    ]
    # A combination at which nothing succeeded has no logarithm, and takes no part in the blocks of the others.
    above = [bool(cell) and min(v for _, v in cell) > 0 for cell in plain]
    logs = [
        [(block, math.log(v)) for block, v in cell] for cell, fine in zip(plain, above, strict=True) if fine
    ]
    found = within_blocks(logs)
    adjusted = iter([[v for _, v in cell] for cell in logs] if found is None else found.cells)
    out: list[dict[float, list[float]]] = [{} for _ in combinations]
    for (at, load, _), cell, fine in zip(cells, plain, above, strict=True):
        out[at][load] = [math.exp(v) for v in next(adjusted)] if fine else [v for _, v in cell]
    return out


def _level(group: Group, design: Design, throughput: Interval | None, rules: CapacityRules) -> capacity.Level:
    observed, each = None, []
    ((_, sample),) = group.sample.of_parts(rules.parts)  # one operation, one workload at most
    if rules.response is not None:
        observed, _ = observe(rules.response, sample)
        for run, histogram in zip(sample.runs, sample.histograms, strict=True):
            value, _ = observe(rules.response, Sample([run], [histogram]))
            if value is not None:
                each.append(value)
        if not all(map(math.isfinite, each)):
            each = []  # longer than anything that was measured: no interval has such an end
    errors, ended = errors_and_ended(sample.runs)
    return capacity.Level(
        load=design.load(group.cell) or 0.0,
        throughput=throughput,
        observed=observed,
        observed_runs=each,
        errors=errors,
        ended=ended,
    )


def _saturation(
    rest: dict[str, str],
    metric: str,
    factor: str,
    bracket: Bracket,
    top: Highest,
    levels: Sequence[capacity.Level],
    rules: CapacityRules,
    members: Sequence[Group],
    design: Design,
) -> Saturation:
    blocks = {run.block for group in members for run in group.valid}
    saturated = bracket.upper is not None
    by_component = bracket.reason == SaturationReason.FULL
    nominal = capacity.nominal(levels, top, saturated=saturated, blocks=len(blocks) > 1 or design.loop)
    found: list[Capacity] = [nominal]
    share = None
    if rules.response is not None:
        usable = capacity.usable(levels, rules.response)
        found.append(usable)
        share = capacity.efficiency(usable, nominal)
    if rules.errors is not None:
        found.append(capacity.error_limited(levels, rules.errors))
    return Saturation(
        combination=rest,
        metric=metric,
        load_factor=factor,
        lower=bracket.lower,
        upper=bracket.upper,
        verdict=bracket.verdict,
        text="",
        bottleneck=_gives_way(members, bracket.upper if by_component else nominal.load, design),
        capacities=tuple(found),
        efficiency=share,
        levels=bracket.levels,
        reason=bracket.reason,
        falls_from=bracket.falls_from,
        doubt=bracket.doubt,
        has_error=bracket.has_error,
        rule=verdict_rules.rule(RuleName.SATURATION),
        bottleneck_rule=verdict_rules.rule(RuleName.COMMON_BOTTLENECK),
        gains=bracket.gains,
        more_runs=bracket.more_runs,
    )


def _gives_way(members: Sequence[Group], load: float | None, design: Design) -> str:
    """What most valid runs name at a load. Lower ones, even within the bracket, may not be full yet."""
    at = [group for group in members if load is not None and design.load(group.cell) == load]
    return common_bottleneck([run for group in at for run in group.valid])


def rankings(groups: Sequence[Group], design: Design, found: Sequence[Saturation]) -> tuple[Ranking, ...]:
    """Of the combinations of each metric. One measured at a single load, as in a design that varies one factor at a
    time, is not compared: another load may give more."""
    out = []
    for metric in dict.fromkeys(each.metric for each in found):
        mine = [each for each in found if each.metric == metric and each.levels > 1]
        best = ranking([_contender(groups, design, each) for each in mine], shared=design.loop)
        if best is not None:
            out.append(replace(best, metric=metric, rule=verdict_rules.rule(RuleName.RANKING)))
    return tuple(out)


def _contender(groups: Sequence[Group], design: Design, found: Saturation) -> Contender:
    nominal = next(each for each in found.capacities if each.kind == CapacityKind.NOMINAL)
    levels = nominal.loads or (nominal.load,)
    cells = tuple(
        tuple(
            (run.block, value)
            for run in group.valid
            if (value := metric_value(run, found.metric)) is not None
        )
        for group in groups
        if design.rest(group.cell) == found.combination and design.load(group.cell) in levels
    )
    return Contender(found.combination, tuple(cell for cell in cells if cell), nominal.rivals)
