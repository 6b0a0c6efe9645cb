"""The lowest level of a factor with numbers that meets the rules of `capacity`, such as the number of instances of a
service that suffices for a load; measured, and computed from the lowest levels.

A level suffices if the intervals over the runs show it. The statement has two parts. Each part is false in at most
2.5 % of the experiments, for any number of levels: that the rules hold at a level needs them to be shown to hold there
and at all higher levels, so also at the highest level at which they do not; that they do not hold at a level needs the
same of all lower ones.

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
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.design.across import Design, Group
from plimsoll.analyse.design.capacity.capacity import rule_words
from plimsoll.analyse.design.capacity.rule_bounds import RuleValue, observed
from plimsoll.analyse.design.capacity.saturation import MAX_RUNS, POWER_QUANTILE
from plimsoll.analyse.results.load.sufficient import SufficiencyVerdict, SufficientLevel
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.model.cell import CapacityRules

CONFIDENCE: Final = 0.95
PROPORTIONAL: Final = 0.1
"""Greatest deviation of the ratio of two throughputs from that of the levels."""
RESPONSE: Final = "response"
"""The metric whose rules have a computed level."""


@dataclass(frozen=True, slots=True)
class _Step:
    """The runs at one level. `values`: for each rule, with the 95 % interval; `strict`: with an interval at which all
    rules together hold with 95 %, because one rule is enough that they do not hold."""

    number: float
    group: Group
    values: Sequence[tuple[Rule, RuleValue]]
    strict: Sequence[tuple[Rule, RuleValue]]

    @property
    def is_shown_to_hold(self) -> bool:
        """Every rule holds at the unfavourable end of its interval."""
        return all(_holds_at(each, _end(each, found, worst=True)) is True for each, found in self.values)

    @property
    def is_shown_not_to_hold(self) -> bool:
        """One rule does not hold at the favourable end of its interval."""
        return any(_holds_at(each, _end(each, found, worst=False)) is False for each, found in self.strict)


def sufficient_levels(
    groups: Sequence[Group], design: Design, rules: CapacityRules
) -> tuple[SufficientLevel, ...]:
    """One entry for each factor whose levels are at least two different numbers, and for each combination of the other
    factors. Empty without rules, and if the load is a factor: the usable capacity of each combination then states which
    loads it carries. A combination is left out if a rule has no value at one of its levels, or if the rules are shown
    to hold at a level and not at a higher one."""
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
    parts = [(each, single) for each, parts in rules.of_usable for _, single in group.sample.of_parts(parts)]
    strict = 1 - (1 - CONFIDENCE) / len(parts)
    return _Step(
        number,
        group,
        [(each, observed(each, single, confidence=CONFIDENCE)) for each, single in parts],
        [(each, observed(each, single, confidence=strict)) for each, single in parts],
    )


def _judge(
    factor: str, rest: Mapping[str, str], steps: Sequence[_Step], rules: Sequence[Rule]
) -> SufficientLevel | None:
    if len(steps) < 2 or any(found.value is None for step in steps for _, found in step.values):
        return None
    held, broken = [step.is_shown_to_hold for step in steps], [step.is_shown_not_to_hold for step in steps]
    if True in held and any(broken[held.index(True) :]):
        return None
    below = sum(1 for _ in itertools.takewhile(bool, broken))
    from_ = len(steps) - sum(1 for _ in itertools.takewhile(bool, reversed(held)))
    between = steps[below:from_]
    at = steps[from_] if from_ < len(steps) else None
    under = steps[below - 1] if below else None
    computed = _computed(steps, rules[0])
    return SufficientLevel(
        factor=factor,
        combination=dict(rest),
        rules=tuple(map(rule_words, rules)),
        verdict=_verdict(at, under, between),
        level=None if at is None else at.number,
        below=None if under is None else under.number,
        value=None if at is None else at.values[0][1].value,
        value_below=None if under is None else under.values[0][1].value,
        between=tuple(step.number for step in between),
        more_runs=_more_runs(between),
        computed=computed,
        from_level=None if computed is None else steps[0].number,
        rule=rule(RuleName.SUFFICIENT),
    )


def _verdict(at: _Step | None, under: _Step | None, between: Sequence[_Step]) -> SufficiencyVerdict:
    if between:
        return SufficiencyVerdict.UNDECIDED
    if under is None:
        return SufficiencyVerdict.LOWEST
    return SufficiencyVerdict.NONE if at is None else SufficiencyVerdict.SUFFICES


def _end(each: Rule, found: RuleValue, *, worst: bool) -> float | None:
    return found.high if each.upper == worst else found.low


def _holds_at(each: Rule, end: float | None) -> bool | None:
    return None if end is None else each.holds(end)


def _more_runs(between: Sequence[_Step]) -> int | None:
    """Number of further runs per level that would decide every one of these levels; None: too many, or unknown."""
    return _greatest([_further_runs(step) for step in between])


def _further_runs(step: _Step) -> int | None:
    """Number of further runs that would show the more likely of both: that all rules hold, or that one does not."""
    if step.is_shown_to_hold or step.is_shown_not_to_hold:
        return 0
    have, tail = len(step.group.valid), (1 - CONFIDENCE) / 2
    doubtful = [
        _further(each, found, _end(each, found, worst=True), have, tail)
        for each, found in step.values
        if not _holds_at(each, _end(each, found, worst=True))
    ]
    not_held = [
        _further(each, found, _end(each, found, worst=False), have, tail / len(step.strict))
        for each, found in step.strict
        if not _holds_at(each, found.value)
    ]
    if not not_held:
        return _greatest(doubtful)
    return min((runs for runs in not_held if runs is not None), default=None)


def _greatest(needed: Sequence[int | None]) -> int | None:
    """None if one of them is unknown."""
    known = [runs for runs in needed if runs is not None]
    return max(known) if known and len(known) == len(needed) else None


def _further(each: Rule, found: RuleValue, end: float | None, have: int, tail: float) -> int | None:
    """Number of further runs until the end of the interval that is next to the limit does not reach it."""
    if found.value is None or end is None or have < 2 or not math.isfinite(found.value):
        return None
    deviation = abs(end - found.value) * math.sqrt(have) / t_quantile(1 - tail, have - 1)
    margin = abs(each.value - found.value)
    for runs in range(have + 1, MAX_RUNS + have):
        if (t_quantile(1 - tail, runs - 1) + POWER_QUANTILE) * deviation / math.sqrt(runs) <= margin:
            return runs - have
    return None


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
