"""Capacities of one combination of the other factors (Jain 3.3), by the rules of `capacity:`.

nominal: the mean throughput of the plateau, else the highest mean of any level. usable: the highest at a level where
its rules are held. error-limited: throughput at the highest load whose error rate's upper bound is under the
rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

from plimsoll.analyse.design.capacity.plateau import HighestLevels
from plimsoll.analyse.design.capacity.rule_bounds import RuleValue
from plimsoll.analyse.results import verdict_rules
from plimsoll.analyse.results.analysis import Capacity
from plimsoll.analyse.results.verdict_rules import RuleName
from plimsoll.analyse.results.verdicts import CapacityKind, CapacityReason, Reason, Severity, Value
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.proportion import Rate, error_rate
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule

_RULES: Final = {
    CapacityKind.NOMINAL: RuleName.NOMINAL,
    CapacityKind.USABLE: RuleName.USABLE,
    CapacityKind.ERROR_LIMITED: RuleName.ERROR_LIMITED,
}

_CHOSEN: Final = "lower end corrected for the choice of the highest level"
_PLATEAU: Final = "upper end: the highest of the levels"


@dataclass(frozen=True, slots=True)
class Level:
    """One load level over its valid runs. `observed`: the value for each rule of the usable capacity. `errors`,
    `ended`: numbers per run."""

    load: float
    throughput: Interval | None
    observed: Sequence[RuleValue]
    errors: Sequence[int]
    ended: Sequence[int]


def nominal(
    levels: Sequence[Level], top: HighestLevels, *, saturated: bool, blocks: bool = False
) -> Capacity:
    """Nominal capacity: mean throughput of the plateau, else that of the highest level. `saturated`: whether throughput
    is shown to be flat; `blocks`: whether the runs are in several blocks, whose effects the levels share."""
    best = _best(levels)
    if best is None:
        return _capacity(CapacityKind.NOMINAL, None, None, False, [_note(CapacityReason.NO_THROUGHPUT)])
    notes = [] if saturated else [_note(CapacityReason.NOT_FLAT)]
    known = {level.load: level.throughput for level in levels if level.throughput is not None}
    flat = [known[load] for load in top.flat if load in known]
    if len(flat) > 1:
        capacity = _capacity(CapacityKind.NOMINAL, best, None, saturated, notes)
        return replace(capacity, value=_of_plateau(flat, blocks), loads=top.flat)
    rivals = top.rivals or len(known)
    if rivals > 1:
        notes.append(_note(CapacityReason.HIGHEST, of=rivals))
    capacity = _capacity(CapacityKind.NOMINAL, best, None, saturated, notes)
    return replace(capacity, value=_of_highest(known[best.load], rivals), rivals=rivals)


def _of_highest(best: Interval, rivals: int) -> Interval:
    """The highest mean. Its interval contains the highest of the true means: the lower end has Bonferroni's correction
    over the levels that may be the highest by chance; the upper end needs no correction."""
    if best.low is None or best.df is None or best.mean <= 0 or best.low <= 0 or rivals < 2:
        return best
    tail = (1 - best.level) / 2
    wider = t_quantile(1 - tail / rivals, best.df) / t_quantile(1 - tail, best.df)
    return replace(best, low=best.mean * (best.low / best.mean) ** wider, method=f"{best.method}; {_CHOSEN}")


def _of_plateau(flat: Sequence[Interval], blocks: bool) -> Interval:
    """The mean of the levels. The lower end is that of this mean; the upper end is the highest of those of the levels,
    because the plateau may have a small slope and the capacity is the highest mean throughput. The relative errors of
    the levels are taken to be independent; with `blocks`, whose effects the levels share, they are taken to be
    equal."""
    mean = sum(level.mean for level in flat) / len(flat)
    first = flat[0]
    bounds = [(interval.low, interval.high) for interval in flat]
    lows = [math.log(level.mean / low) for level, (low, _) in zip(flat, bounds, strict=True) if low]
    highs = [high for _, high in bounds if high is not None]
    if len(lows) < len(flat) or len(highs) < len(flat) or min(low or 0.0 for low, _ in bounds) <= 0:
        return Interval(mean, None, None, first.level, None, first.method)
    half = sum(lows) / len(flat) if blocks else math.hypot(*lows) / len(flat)
    low = mean * math.exp(-half)
    return Interval(mean, low, max(highs), first.level, first.df, f"{first.method}; {_PLATEAU}")


def usable(
    levels: Sequence[Level], rules: Sequence[Rule], rivals: Callable[[Sequence[float]], int] = lambda _: 1
) -> Capacity:
    """Usable capacity: highest mean throughput at a level that satisfies every rule. `rules`: at least one, in the
    order of `Level.observed`; `rivals`: how many of some loads may have the highest throughput. Reasons state whether
    the intervals over the runs also satisfy the rules."""
    known = [level for level in levels if all(one.value is not None for one in level.observed)]
    held = [level for level in known if not _broken(level, rules)]
    best = _best(held)
    if best is None or best.throughput is None:
        notes = [_note(CapacityReason.HELD_NOWHERE, rules=len(rules))]
        if levels and not known:
            notes = [_no_value(levels, rules)]
        return _of_rules(_capacity(CapacityKind.USABLE, None, rules[0], bool(known), notes), rules)
    reached = len(held) < len(known)
    named = [f"{rule_words(rule)}: " if len(rules) > 1 else "" for rule in rules]
    notes = [
        _bound_note(rule, one, head) for rule, one, head in zip(rules, best.observed, named, strict=True)
    ]
    if len(rules) > 1 and reached:
        notes.append(_limiting(known, best, rules))
    if not reached:
        notes.append(_note(CapacityReason.LIMIT_NOT_REACHED))
    if len(known) < len(levels):
        notes.append(_no_value([level for level in levels if level not in known], rules))
    count = rivals([level.load for level in held])
    if count > 1:
        notes.append(_note(CapacityReason.HIGHEST, of=count))
    capacity = _capacity(CapacityKind.USABLE, best, rules[0], reached, notes)
    value = _of_highest(best.throughput, count)
    return replace(_of_rules(capacity, rules), value=value, rivals=max(count, 1))


def _no_value(levels: Sequence[Level], rules: Sequence[Rule]) -> Reason:
    """The loads at which some rules have no value, and these rules. Such a load does not count."""
    unknown = [
        rule for at, rule in enumerate(rules) if any(level.observed[at].value is None for level in levels)
    ]
    loads = tuple(f"{level.load:g}" for level in levels)
    return _note(CapacityReason.NO_VALUE, loads=loads, rules=" and ".join(map(rule_words, unknown)))


def _broken(level: Level, rules: Sequence[Rule]) -> list[Rule]:
    """The rules that a level breaks."""
    pairs = zip(rules, level.observed, strict=True)
    return [rule for rule, one in pairs if one.value is not None and not rule.holds(one.value)]


def _limiting(known: Sequence[Level], best: Level, rules: Sequence[Rule]) -> Reason:
    """The rules that are broken at the next higher load that breaks one; else at the next lower one."""
    others = [level for level in known if _broken(level, rules)]
    nearest = min(others, key=lambda level: (level.load < best.load, abs(level.load - best.load)))
    words = " and ".join(map(rule_words, _broken(nearest, rules)))
    return _note(CapacityReason.LIMITED_BY, load=nearest.load, rules=words)


def _of_rules(capacity: Capacity, rules: Sequence[Rule]) -> Capacity:
    return replace(capacity, also=tuple(map(rule_words, rules[1:])))


def rule_words(rule: Rule) -> str:
    """A rule with its metric: `utilization.db avg<80%`, `response p(95)<2s in the peak window`."""
    metric, window = _metric_words(rule)
    return f"{metric} {rule.text}{window}"


def _metric_words(rule: Rule) -> tuple[str, str]:
    """The metric of a rule as in the experiment file, and the words of its part of the run."""
    named = catalogue.METRICS.find(rule.metric)
    if named is None or named.scope is None:
        return rule.metric, ""
    head, _, _ = rule.metric.rpartition("@")
    return head, named.scope.title


def _bound_note(rule: Rule, edge: RuleValue, head: str) -> Reason:
    if edge.low is None or edge.high is None:
        return _note(CapacityReason.NO_BOUND, of=head)
    bound = edge.high if rule.upper else edge.low
    code = CapacityReason.HELD_AT_BOUND if rule.holds(bound) else CapacityReason.HELD_AT_ESTIMATE
    return _note(code, side="upper" if rule.upper else "lower", bound=bound, of=head)


def _note(code: CapacityReason, **values: Value) -> Reason:
    return Reason(code, Severity.NOTE, values)


def _capacity(
    kind: CapacityKind, level: Level | None, rule: Rule | None, reached: bool, reasons: Sequence[Reason]
) -> Capacity:
    """A capacity without texts. `rule`: the first rule of `capacity:`; None: the nominal capacity."""
    made_by = verdict_rules.rule(_RULES[kind])
    return Capacity(
        kind=kind,
        value=None if level is None else level.throughput,
        load=None if level is None else level.load,
        definition="",
        reached=reached,
        asked_metric="" if rule is None else _metric_words(rule)[0],
        asked="" if rule is None else rule.text + _metric_words(rule)[1],
        reasons=tuple(replace(reason, rule=made_by) for reason in reasons),
        rule=made_by,
    )


def error_limited(levels: Sequence[Level], rule: Rule) -> Capacity:
    """Error-limited capacity: throughput at the highest load at which the one-sided upper 95 % bound of the error rate
    satisfies the rule, below the lowest load that is shown to break it (by the lower bound). A load with too few
    requests to show either decides nothing."""
    rates = [(level, _error_rate(level)) for level in sorted(levels, key=lambda x: x.load)]
    known = [(level, rate) for level, rate in rates if rate is not None]
    holds = [rule.holds(rate.high if rule.upper else rate.low) for _, rate in known]
    breaks = [not rule.holds(rate.low if rule.upper else rate.high) for _, rate in known]
    below = breaks.index(True) if any(breaks) else len(known)
    held = list(compress(known[:below], holds))
    has_later_hold = any(holds[below:])
    if not held:
        note = _note(CapacityReason.NOTHING_ENDED)
        if has_later_hold:
            note = _note(CapacityReason.LOWER_LOAD, load=known[below][0].load)
        elif known:
            note = _note(CapacityReason.BOUND_HELD_NOWHERE, least=_least_upper_bound(known))
        return _capacity(CapacityKind.ERROR_LIMITED, None, rule, bool(known), [note])
    level, rate = held[-1]
    above = [other for other, _ in known if other.load > level.load]
    notes = [_note(CapacityReason.ERROR_RATE, rate=rate.rate, upper=rate.high)]
    if has_later_hold:
        notes.append(_note(CapacityReason.LOWER_LOAD, load=known[below][0].load))
    if not above:
        notes.append(_note(CapacityReason.LIMIT_NOT_REACHED))
    return _capacity(CapacityKind.ERROR_LIMITED, level, rule, bool(above), notes)


def _error_rate(level: Level) -> Rate | None:
    """The error rate of a level with one-sided 95 % bounds."""
    return error_rate(level.errors, level.ended, confidence=0.90)


def _least_upper_bound(known: Sequence[tuple[Level, object]]) -> float:
    rates = [_error_rate(level) for level, _ in known]
    return min(rate.high for rate in rates if rate is not None)


def efficiency(usable_capacity: Capacity, nominal_capacity: Capacity) -> float | None:
    """Usable / nominal capacity; None if one of them is not known."""
    if usable_capacity.value is None or nominal_capacity.value is None or nominal_capacity.value.mean <= 0:
        return None
    return usable_capacity.value.mean / nominal_capacity.value.mean


def _best(levels: Sequence[Level]) -> Level | None:
    known = [level for level in levels if level.throughput is not None]
    return max(known, key=lambda level: level.throughput.mean if level.throughput else 0.0, default=None)


def stretch(response: float | None, lowest: float | None) -> float | None:
    """R(load) / R(lowest load) (Jain 3.3), R being the response time; None if one is not known."""
    return response / lowest if response is not None and lowest else None


def scaling(throughput: float, load: float, lowest_throughput: float, lowest_load: float) -> float | None:
    """Throughput per unit of load relative to that at the lowest load: 1 is ideal."""
    if load <= 0 or lowest_load <= 0 or lowest_throughput <= 0:
        return None
    return (throughput / load) / (lowest_throughput / lowest_load)
