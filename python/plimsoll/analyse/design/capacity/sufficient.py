"""The lowest level of a factor with numbers that meets the rules of `capacity`, such as the number of instances of a
service that suffices for a load; measured, and computed from the lowest levels.

The computed level is the asymptotic bound of a closed load (Jain 33.6). If each of k equal servers completes x
transactions per second while it is always busy, N testers with the think time Z have the response time N / (k x) - Z.
So a response time of at most R needs k >= N / (x (R + Z)). x and Z are those of the lowest level: x = X / k, and Z is
N / X less the measured response time. The bound applies only if the servers are the limit there. This is tested by the
next level: its throughput is in proportion to the number, within 10 %.

Rejected: a level between those that were measured, by interpolation. Servers come in whole numbers, and a curve through
few levels is a guess.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.design.across import Design, Group
from plimsoll.analyse.design.capacity.capacity import rule_words
from plimsoll.analyse.design.capacity.rule_bounds import RuleValue, observed
from plimsoll.analyse.results.load.sufficient import SufficiencyVerdict, SufficientLevel
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.model.cell import CapacityRules

PROPORTIONAL: Final = 0.1
"""Greatest deviation of the ratio of two throughputs from that of the levels."""
RESPONSE: Final = "response"
"""The metric whose rules have a computed level."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The runs at one level. `values`: for each rule."""

    number: float
    group: Group
    values: Sequence[RuleValue]

    def holds(self, rules: Sequence[Rule]) -> bool:
        return all(
            found.value is not None and each.holds(found.value)
            for each, found in zip(rules, self.values, strict=True)
        )


def sufficient_levels(
    groups: Sequence[Group], design: Design, rules: CapacityRules
) -> tuple[SufficientLevel, ...]:
    """One entry for each factor whose levels are at least two different numbers, and for each combination of the other
    factors. Empty without rules, and if the load is a factor: the usable capacity of each combination then states which
    loads it carries. A combination is left out if a rule has no value at one of its levels, or if the rules hold at a
    level and not at a higher one."""
    if not rules.of_usable or design.load_factor is not None:
        return ()
    found = []
    for factor, labels in design.levels.items():
        numbers = _numbers(labels)
        if len(set(numbers.values())) < 2 or len(numbers) < len(labels):
            continue
        for rest, members in _combinations(groups, factor).items():
            steps = sorted(
                (_step(numbers[group.cell[factor]], group, rules) for group in members),
                key=lambda step: step.number,
            )
            level = _judge(factor, dict(rest), steps, [each for each, _ in rules.of_usable])
            found += [] if level is None else [level]
    return tuple(found)


def _numbers(labels: Sequence[str]) -> dict[str, float]:
    """The labels that are plain numbers."""
    numbers = {}
    for label in labels:
        try:
            numbers[label] = float(label)
        except ValueError:
            continue
    return numbers


def _combinations(groups: Sequence[Group], factor: str) -> dict[tuple[tuple[str, str], ...], list[Group]]:
    out: dict[tuple[tuple[str, str], ...], list[Group]] = {}
    for group in groups:
        if factor in group.cell and group.valid:
            rest = tuple((name, level) for name, level in group.cell.items() if name != factor)
            out.setdefault(rest, []).append(group)
    return out


def _step(number: float, group: Group, rules: CapacityRules) -> _Step:
    values = [
        observed(each, single)
        for each, parts in rules.of_usable
        for _, single in group.sample.of_parts(parts)
    ]
    return _Step(number, group, values)


def _judge(
    factor: str, rest: Mapping[str, str], steps: Sequence[_Step], rules: Sequence[Rule]
) -> SufficientLevel | None:
    if len(steps) < 2 or any(found.value is None for step in steps for found in step.values):
        return None
    held = [step.holds(rules) for step in steps]
    if any(lower and not higher for lower, higher in itertools.pairwise(held)):
        return None
    first = held.index(True) if True in held else None
    at = None if first is None else steps[first]
    below = steps[-1] if first is None else steps[first - 1] if first else None
    verdict = SufficiencyVerdict.NONE if at is None else SufficiencyVerdict.SUFFICES
    computed = _computed(steps, rules[0])
    return SufficientLevel(
        factor=factor,
        combination=dict(rest),
        rules=tuple(map(rule_words, rules)),
        verdict=SufficiencyVerdict.LOWEST if below is None else verdict,
        level=None if at is None else at.number,
        below=None if below is None else below.number,
        value=None if at is None else at.values[0].value,
        value_below=None if below is None else below.values[0].value,
        is_shown=_is_shown(at, below, rules),
        computed=computed,
        from_level=None if computed is None else steps[0].number,
        rule=rule(RuleName.SUFFICIENT),
    )


def _is_shown(at: _Step | None, below: _Step | None, rules: Sequence[Rule]) -> bool | None:
    """Whether every rule holds at the unfavourable end of its interval at the level, and one of them at the favourable
    end at the level below does not."""
    ends = [found for step in (at, below) if step is not None for found in step.values]
    if any(found.low is None or found.high is None for found in ends):
        return None
    shown = True
    if at is not None:
        shown = all(
            each.holds(_end(each, found, worst=True)) for each, found in zip(rules, at.values, strict=True)
        )
    if below is not None:
        broken = (
            not each.holds(_end(each, found, worst=False))
            for each, found in zip(rules, below.values, strict=True)
        )
        shown = shown and any(broken)
    return shown


def _end(each: Rule, found: RuleValue, *, worst: bool) -> float:
    end = found.high if each.upper == worst else found.low
    assert end is not None  # the caller has checked it
    return end


def _computed(steps: Sequence[_Step], first: Rule) -> float | None:
    if first.metric.partition("_")[0].partition("@")[0] != RESPONSE or not first.upper:
        return None
    lowest, next_ = steps[0], steps[1]
    runs = [*lowest.group.valid, *next_.group.valid]
    testers = {len(run.testers) for run in runs}
    if (
        len(testers) != 1
        or 0 in testers
        or any(run.open_load != "none" for run in runs)
        or lowest.number <= 0
    ):
        return None
    throughput, of_next = (_mean(step, "throughput_per_s") for step in (lowest, next_))
    response = _mean(lowest, "response_mean")
    if not throughput or not of_next or response is None:
        return None
    if abs(of_next / throughput * lowest.number / next_.number - 1) > PROPORTIONAL:
        return None
    cycle = testers.pop() / throughput
    left = cycle - response / 1e3 + first.value
    return lowest.number * cycle / left if left > 0 else None


def _mean(step: _Step, metric: str) -> float | None:
    values = [found for run in step.group.valid if (found := metric_value(run, metric)) is not None]
    return sum(values) / len(values) if values else None
