"""The bottleneck: the component whose utilization saturates with the throughput, or "not resolved"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import BottleneckReason, BottleneckVerdict, Reason, Severity, Value

NOT_RESOLVED: Final = BottleneckVerdict.NOT_RESOLVED.value
"""Stands for the name of a component where none was found."""
THRESHOLD = 0.9
FULL = 0.97
"""A component that is this busy completes at most 3 % more (utilization law)."""
GENERATOR_FULL = 0.98
"""A load generator that never idles is the limit. One that idles a little waits for the target: in a closed load
against a full target that takes hardly more time for a transaction, the generator is nearly full too."""


@dataclass(frozen=True)
class Bottleneck:
    """Name of the component, or "not resolved", and what led to it."""

    component: str
    verdict: BottleneckVerdict
    reason: Reason


def bottleneck(components: Sequence[Utilization], *, threshold: float = THRESHOLD) -> Bottleneck:
    """The bottleneck of one run (or of one cell, with utilizations over its runs).

    Rule: the testers come first: if they are at GENERATOR_FULL, the tool itself was the limit. Else it is the component
    with the highest utilization, if that is at least the threshold and its interval is above that of the second;
    testers are candidates if they are at the threshold. A host is not compared with the services and testers that run
    on it (their work is its work): it is a candidate only where no service on it is watched, or where it is full and
    no service on it is. Cores that services share are candidates where they are full and none of the services is.
    """
    testers = [c for c in components if c.role == "testers"]
    full = max((c for c in testers if _demand(c) >= GENERATOR_FULL), key=_demand, default=None)
    if full is not None:
        return _load_generator(full)
    places = dict.fromkeys(c.host for c in components)
    weighed = [c for c in testers if c.mean >= threshold]
    weighed += [one for place in places for one in _on([c for c in components if c.host == place], threshold)]
    if weighed:
        return _judge(_ranked(weighed), threshold)
    return _not_resolved(_reason(BottleneckReason.NOT_WATCHED))


def full_loads(busy: Mapping[float, Sequence[float]]) -> set[float]:
    """Loads at which a component is at least FULL in each run. `busy`: its utilization (0 to 1), one per run, by load.

    Empty where it is nowhere less than THRESHOLD in each run: what polls is full at any load.
    """
    if not any(all(value < THRESHOLD for value in each) for each in busy.values()):
        return set()
    return {load for load, each in busy.items() if all(value >= FULL for value in each)}


def _demand(testers: Utilization) -> float:
    return max(testers.mean, testers.detail.get("thread_demand", 0.0))


def _load_generator(testers: Utilization) -> Bottleneck:
    reason = _reason(BottleneckReason.LOAD_GENERATOR_FULL, testers)
    return Bottleneck(testers.component, BottleneckVerdict.LOAD_GENERATOR, reason)


def _on(components: list[Utilization], threshold: float) -> list[Utilization]:
    """Candidates on one host: the services, or the host instead. A host that two monitors observe counts once."""
    services = _ranked([c for c in components if c.role == "service"])
    shared = _ranked([c for c in components if c.role == "cores" and c.mean >= threshold])
    if shared and (not services or services[0].mean < threshold):
        return shared
    hosts = _ranked([c for c in components if c.role == "host"])
    if services and (services[0].mean >= threshold or not hosts or hosts[0].mean < threshold):
        return services
    return hosts[:1]


def _ranked(components: list[Utilization]) -> list[Utilization]:
    return sorted(components, key=lambda c: -c.mean)


def _judge(ranked: list[Utilization], threshold: float) -> Bottleneck:
    first = ranked[0]
    if first.mean < threshold:
        return _not_resolved(_reason(BottleneckReason.NOTHING_FULL, first))
    if len(ranked) > 1:
        second = ranked[1]
        first_low = first.low if first.low is not None else first.mean
        second_high = second.high if second.high is not None else second.mean
        if first_low <= second_high:
            return _not_resolved(_reason(BottleneckReason.NOT_TOLD_APART, first, second))
    if first.role == "testers":
        return _load_generator(first)
    return Bottleneck(
        first.component, BottleneckVerdict.RESOLVED, _reason(BottleneckReason.FULL, first, *ranked[1:2])
    )


def _not_resolved(reason: Reason) -> Bottleneck:
    return Bottleneck(NOT_RESOLVED, BottleneckVerdict.NOT_RESOLVED, reason)


def _reason(code: BottleneckReason, *seen: Utilization) -> Reason:
    """With the utilization of the first component, and of the second where two were weighed."""
    values: dict[str, Value] = {}
    for prefix, one in zip(("", "second_"), seen, strict=False):
        values |= {
            f"{prefix}component": one.component,
            f"{prefix}resource": one.resource,
            f"{prefix}mean": one.mean,
            f"{prefix}low": one.low,
            f"{prefix}high": one.high,
        }
    return Reason(code, Severity.NOTE, values, rule(RuleName.BOTTLENECK))
