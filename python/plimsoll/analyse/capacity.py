"""Capacities of one combination of the other factors (Jain 3.3), by the rules of `capacity:`.

nominal: the highest mean throughput of any level. usable: the highest at a level where the response rule is held.
error-limited: throughput at the highest load whose error rate's upper bound is under the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.means import cell_intervals
from plimsoll.analyse.proportion import error_rate
from plimsoll.analyse.results import Capacity, Interval
from plimsoll.plan.rules import Rule


@dataclass(frozen=True, slots=True)
class Level:
    """One load level over its valid runs. `observed`: what the response rule is about, from the merged histograms;
    `observed_runs`: the same per run, in the unit of the rule. `errors` and `ended`: per run."""

    load: float
    throughput: Interval | None
    observed: float | None
    observed_runs: Sequence[float]
    errors: Sequence[int]
    ended: Sequence[int]


def nominal(levels: Sequence[Level], *, saturated: bool) -> Capacity:
    """Highest mean throughput."""
    best = _best(levels)
    definition = "highest mean throughput of all load levels"
    if best is None:
        return Capacity("nominal", None, None, definition, False, "no level has a throughput")
    remark = "" if saturated else "throughput still rises at the highest level: the capacity is higher"
    return Capacity("nominal", best.throughput, best.load, definition, saturated, remark)


def usable(levels: Sequence[Level], rule: Rule) -> Capacity:
    """Highest mean throughput at a level that holds the response rule; the remark tells whether the upper end of the
    interval over the runs holds it too."""
    definition = f"highest mean throughput at a load where {rule.metric} {rule.text} is held"
    known = [level for level in levels if level.observed is not None]
    held = [level for level in known if level.observed is not None and rule.holds(level.observed)]
    best = _best(held)
    if best is None:
        return Capacity("usable", None, None, definition, bool(known), "the rule is held at no level")
    reached = len(held) < len(known)
    bounds = _bounds(known)
    edge = bounds[known.index(best)]
    return Capacity("usable", best.throughput, best.load, definition, reached, _remark(rule, edge, reached))


def _remark(rule: Rule, edge: Interval | None, reached: bool) -> str:
    parts = []
    if edge is None or edge.low is None or edge.high is None:
        parts.append("held at the estimate; one repetition gives no bound")
    else:
        bound = edge.high if rule.upper else edge.low
        side = "upper" if rule.upper else "lower"
        parts.append(
            f"held at the {side} bound too"
            if rule.holds(bound)
            else f"held at the estimate, not at its {side} bound"
        )
    if not reached:
        parts.append("no level breaks the rule: the limit was not reached")
    return "; ".join(parts)


def _bounds(levels: Sequence[Level]) -> list[Interval | None]:
    """Interval of what the rule is about between runs, pooled over the levels on logarithms (times are skewed)."""
    return cell_intervals([np.asarray(level.observed_runs, dtype=np.float64) for level in levels], log=True)


def error_limited(levels: Sequence[Level], rule: Rule) -> Capacity:
    """Highest load at which the upper 95 % bound of the error rate is under the rule."""
    definition = f"highest load whose upper 95 % bound of the error rate holds {rule.text}"
    rates = [(level, error_rate(level.errors, level.ended)) for level in sorted(levels, key=lambda x: x.load)]
    known = [(level, rate) for level, rate in rates if rate is not None]
    held = [(level, rate) for level, rate in known if rule.holds(rate.high if rule.upper else rate.low)]
    if not held:
        remark = "nothing ended" if not known else f"held at no level; the least bound is {_least(known):.2g}"
        return Capacity("error-limited", None, None, definition, bool(known), remark)
    level, rate = held[-1]
    above = [other for other, _ in known if other.load > level.load]
    remark = f"error rate {100 * rate.rate:.3g} %, upper bound {100 * rate.high:.3g} %"
    if not above:
        remark += "; no level breaks the rule: the limit was not reached"
    return Capacity("error-limited", level.throughput, level.load, definition, bool(above), remark)


def _least(known: Sequence[tuple[Level, object]]) -> float:
    rates = [error_rate(level.errors, level.ended) for level, _ in known]
    return min(rate.high for rate in rates if rate is not None)


def efficiency(usable_capacity: Capacity, nominal_capacity: Capacity) -> float | None:
    """Usable over nominal capacity."""
    if usable_capacity.value is None or nominal_capacity.value is None or nominal_capacity.value.mean <= 0:
        return None
    return usable_capacity.value.mean / nominal_capacity.value.mean


def _best(levels: Sequence[Level]) -> Level | None:
    some = [level for level in levels if level.throughput is not None]
    return max(some, key=lambda level: level.throughput.mean if level.throughput else 0.0, default=None)


def stretch(response: float | None, lowest: float | None) -> float | None:
    """R(load) / R(lowest load) (Jain 3.3)."""
    return response / lowest if response is not None and lowest else None


def scaling(throughput: float, load: float, lowest_throughput: float, lowest_load: float) -> float | None:
    """Throughput per unit of load relative to that at the lowest load: 1 is ideal."""
    if load <= 0 or lowest_load <= 0 or lowest_throughput <= 0:
        return None
    return (throughput / load) / (lowest_throughput / lowest_load)
