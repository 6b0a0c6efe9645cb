"""Results over the loads of a design: saturation, capacities and ranking of each combination of the other factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from plimsoll.analyse.components.bottleneck import NOT_RESOLVED, full_loads
from plimsoll.analyse.design.across import (
    Design,
    Group,
    cell_bottlenecks,
    common_bottleneck,
    errors_and_ended,
    metric_intervals,
)
from plimsoll.analyse.design.capacity import capacity
from plimsoll.analyse.design.capacity.plateau import HighestLevels, highest
from plimsoll.analyse.design.capacity.ranking import Contender, ranking
from plimsoll.analyse.design.capacity.rule_bounds import observed
from plimsoll.analyse.design.capacity.saturation import Bracket, saturation, throughput_error
from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.analysis import Capacity, Ranking, RunResult, Saturation
from plimsoll.analyse.results.metrics import canonical, is_capacity, metric_value
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.results.verdicts import CapacityKind, SaturationReason
from plimsoll.analyse.run.validity.overload import is_overloaded
from plimsoll.analyse.stats.blocks import within_blocks
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import PooledError
from plimsoll.plan.model.cell import CapacityRules


def saturations(
    groups: Sequence[Group], design: Design, rules: CapacityRules, metrics: Sequence[str]
) -> tuple[Saturation, ...]:
    """Bracket and capacities of every combination of the other factors, for each of the metrics that is a throughput
    (transactions per second if none is). Empty without a load factor."""
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
        for (rest, members), throughputs in zip(combinations.items(), levels, strict=True):
            bracket = saturation(
                throughputs, error, _overloaded_loads(members, design), _full_loads(members, design)
            )
            top = highest(throughputs, error, bracket)

            def rivals(
                loads: Sequence[float],
                known: dict[float, list[float]] = throughputs,
                within: Bracket = bracket,
                error: PooledError | None = error,
            ) -> int:
                return highest({load: known[load] for load in loads}, error, within).rivals

            facts = [_level(g, design, by_group[id(g)], rules) for g in members if g.valid]
            out.append(
                _saturation(
                    dict(rest), name, design.load_factor, bracket, top, facts, rules, members, design, rivals
                )
            )
    return tuple(out)


def _overloaded_loads(members: Sequence[Group], design: Design) -> set[float]:
    """Loads at which the target was overloaded in most valid runs."""
    runs = {load: group.valid for group in members if (load := design.load(group.cell)) is not None}
    return {
        load for load, valid_runs in runs.items() if is_overloaded(run.traffic.overload for run in valid_runs)
    }


def _full_loads(members: Sequence[Group], design: Design) -> set[float]:
    """Loads at which the component that is the bottleneck at the highest load is full."""
    runs = {load: group.valid for group in members if (load := design.load(group.cell)) and group.valid}
    component = common_bottleneck(runs[max(runs)]) if runs else NOT_RESOLVED
    if component == NOT_RESOLVED:
        return set()
    return full_loads(
        {load: [_utilization(run, component) for run in valid_runs] for load, valid_runs in runs.items()}
    )


def _utilization(run: RunResult, component: str) -> float:
    """Mean utilization of the component in the window. NaN, which is neither full nor idle, if it was not watched."""
    return next(
        (utilization.mean for utilization in run.utilization if utilization.component == component), math.nan
    )


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
    # A cell without successful transactions has no logarithm, and is not used for the effects of the blocks.
    is_positive = [bool(cell) and min(v for _, v in cell) > 0 for cell in plain]
    logs = [
        [(block, math.log(v)) for block, v in cell]
        for cell, positive in zip(plain, is_positive, strict=True)
        if positive
    ]
    adjustment = within_blocks(logs)
    adjusted = iter([[v for _, v in cell] for cell in logs] if adjustment is None else adjustment.cells)
    out: list[dict[float, list[float]]] = [{} for _ in combinations]
    for (at, load, _), cell, positive in zip(cells, plain, is_positive, strict=True):
        out[at][load] = [math.exp(v) for v in next(adjusted)] if positive else [v for _, v in cell]
    return out


def _level(group: Group, design: Design, throughput: Interval | None, rules: CapacityRules) -> capacity.Level:
    ((_, sample),) = group.sample.of_parts(rules.parts)  # one operation, one workload at most
    errors, ended = errors_and_ended(sample.runs)
    return capacity.Level(
        load=design.load(group.cell) or 0.0,
        throughput=throughput,
        observed=[
            observed(rule, single)
            for rule, parts in rules.of_usable
            for _, single in group.sample.of_parts(parts)
        ],
        errors=errors,
        ended=ended,
    )


def _saturation(
    rest: dict[str, str],
    metric: str,
    factor: str,
    bracket: Bracket,
    top: HighestLevels,
    levels: Sequence[capacity.Level],
    rules: CapacityRules,
    members: Sequence[Group],
    design: Design,
    rivals: Callable[[Sequence[float]], int],
) -> Saturation:
    blocks = {run.block for group in members for run in group.valid}
    saturated = bracket.upper is not None
    by_component = bracket.reason == SaturationReason.FULL
    nominal = capacity.nominal(levels, top, saturated=saturated, blocks=len(blocks) > 1 or design.loop)
    capacities: list[Capacity] = [nominal]
    share = None
    if rules.of_usable:
        usable = capacity.usable(levels, [rule for rule, _ in rules.of_usable], rivals)
        capacities.append(usable)
        share = capacity.efficiency(usable, nominal)
    if rules.errors is not None:
        capacities.append(capacity.error_limited(levels, rules.errors))
    return Saturation(
        combination=rest,
        metric=metric,
        load_factor=factor,
        lower=bracket.lower,
        upper=bracket.upper,
        verdict=bracket.verdict,
        text="",
        bottleneck=_bottleneck_at(members, bracket.upper if by_component else nominal.load, design),
        capacities=tuple(capacities),
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


def _bottleneck_at(members: Sequence[Group], load: float | None, design: Design) -> str:
    """The bottleneck of the cell at a load. At lower loads, also within the bracket, it may not be full."""
    named = zip(members, cell_bottlenecks(members, design), strict=True)
    at = (name for group, name in named if load is not None and design.load(group.cell) == load)
    return next(at, NOT_RESOLVED)


def rankings(groups: Sequence[Group], design: Design, results: Sequence[Saturation]) -> tuple[Ranking, ...]:
    """Rankings of the combinations, one for each metric. A combination that was measured at a single load, as in a
    design that varies one factor at a time, is not compared: its throughput may be higher at another load."""
    out = []
    for metric in dict.fromkeys(result.metric for result in results):
        of_metric = [result for result in results if result.metric == metric and result.levels > 1]
        best = ranking([_contender(groups, design, result) for result in of_metric], shared=design.loop)
        if best is not None:
            out.append(replace(best, metric=metric, rule=verdict_rules.rule(RuleName.RANKING)))
    return tuple(out)


def _contender(groups: Sequence[Group], design: Design, result: Saturation) -> Contender:
    nominal = next(capacity_ for capacity_ in result.capacities if capacity_.kind == CapacityKind.NOMINAL)
    levels = nominal.loads or (nominal.load,)
    cells = tuple(
        tuple(
            (run.block, value)
            for run in group.valid
            if (value := metric_value(run, result.metric)) is not None
        )
        for group in groups
        if design.rest(group.cell) == result.combination and design.load(group.cell) in levels
    )
    return Contender(result.combination, tuple(cell for cell in cells if cell), nominal.rivals)
