"""The bottleneck: the component whose utilization saturates with the throughput, or "not resolved" (not identified)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.components import memory
from plimsoll.analyse.components.memory import short_of_memory
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import (
    BottleneckReason,
    BottleneckVerdict,
    Reason,
    ResourceKind,
    Severity,
    Value,
)

NOT_RESOLVED: Final = BottleneckVerdict.NOT_RESOLVED.value
"""Stored instead of the name of a component if no bottleneck was identified."""
THRESHOLD = 0.9
FULL = 0.97
"""A component that is this busy completes at most 3 % more (utilization law)."""
GENERATOR_FULL = 0.98
"""A load generator that is never idle is the limit. One that is sometimes idle waits for the target: in a closed load,
if the target is full and needs hardly more time per transaction than the generator, the generator is nearly full."""


@dataclass(frozen=True)
class Bottleneck:
    """Name of the component, or "not resolved", with the verdict and its reason."""

    component: str
    verdict: BottleneckVerdict
    reason: Reason


def bottleneck(components: Sequence[Utilization], *, threshold: float = THRESHOLD) -> Bottleneck:
    """The bottleneck of one run (or of one cell, with utilizations over its runs).

    If the testers are at GENERATOR_FULL, the load generator itself was the limit. Else, if there is evidence that
    memory was short (`memory.short_of_memory`), it is the limit, even if a CPU or a disk is full: reclaim and repeated
    reads use both. Else the bottleneck is the component with the highest utilization, if that is at least the threshold
    and its interval is above that of the second.
    Testers, links, and the process that emulates links are candidates if they are at the threshold. Testers with a CPU
    limit of the experiment are a part of what is measured: at their limit, they are a bottleneck as a service is. A
    host is not compared with the services and testers that run on it, because their work is its work: it is a
    candidate only if no service on it is watched, or if it is full and no service on it is. Cores that services share
    are candidates if they are full and none of the services is.
    """
    testers = [c for c in components if c.role == "testers"]
    full = max((c for c in testers if _demand(c) >= GENERATOR_FULL), key=_demand, default=None)
    if full is not None:
        return _load_generator(full)
    short = short_of_memory(components)
    if short is not None:
        return _memory(short)
    hosts = dict.fromkeys(c.host for c in components)
    weighed = [c for c in components if c.role in ("testers", "link", "emulator") and c.mean >= threshold]
    weighed += [
        candidate
        for host in hosts
        for candidate in _candidates_on_host([c for c in components if c.host == host], threshold)
    ]
    if weighed:
        return _bottleneck_of(_ranked(weighed), threshold)
    return _not_resolved(_reason(BottleneckReason.NOT_WATCHED))


def full_loads(busy: Mapping[float, Sequence[float]]) -> set[float]:
    """Loads at which a component is at least FULL in each run. `busy`: its utilization (0 to 1), one per run, by load.

    Empty if there is no load at which it is below THRESHOLD in each run: a component that polls is full at any load.
    """
    if not any(all(value < THRESHOLD for value in shares) for shares in busy.values()):
        return set()
    return {load for load, shares in busy.items() if all(value >= FULL for value in shares)}


def _demand(testers: Utilization) -> float:
    demand = testers.detail.get("thread_demand", 0.0)
    return demand if is_limited(testers) else max(testers.mean, demand)


def is_limited(testers: Utilization) -> bool:
    """Whether these testers have a limit by the experiment, whose use is their utilization."""
    return testers.kind in (ResourceKind.CPU_OF_LIMIT, ResourceKind.DISK_OF_LIMIT)


def _load_generator(testers: Utilization) -> Bottleneck:
    reason = _reason(BottleneckReason.LOAD_GENERATOR_FULL, testers)
    return Bottleneck(testers.component, BottleneckVerdict.LOAD_GENERATOR, reason)


def _memory(component: Utilization) -> Bottleneck:
    detail = component.detail
    values: dict[str, Value] = {
        "component": component.component,
        "resource": "memory",
        "role": component.role,
        "oom_kills": detail.get(memory.OOM_KILLS),
        "mean": detail.get(memory.SOME),
        "low": detail.get(memory.SOME_LOW),
        "high": detail.get(memory.SOME_HIGH),
        "used": detail.get(memory.OWN),
        "limit": detail.get(memory.LIMIT),
    }
    reason = Reason(BottleneckReason.MEMORY, Severity.NOTE, values, rule(RuleName.BOTTLENECK))
    return Bottleneck(component.component, BottleneckVerdict.RESOLVED, reason)


def _candidates_on_host(components: list[Utilization], threshold: float) -> list[Utilization]:
    """Candidates on one host: the services, or the host instead. A host with two monitors counts once."""
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


def _bottleneck_of(ranked: list[Utilization], threshold: float) -> Bottleneck:
    first = ranked[0]
    if first.mean < threshold:
        return _not_resolved(_reason(BottleneckReason.NOTHING_FULL, first))
    if len(ranked) > 1:
        second = ranked[1]
        first_low = first.low if first.low is not None else first.mean
        second_high = second.high if second.high is not None else second.mean
        if first_low <= second_high:
            return _not_resolved(_reason(BottleneckReason.NOT_TOLD_APART, first, second))
    if first.role == "testers" and not is_limited(first):
        return _load_generator(first)
    return Bottleneck(
        first.component, BottleneckVerdict.RESOLVED, _reason(BottleneckReason.FULL, first, *ranked[1:2])
    )


def _not_resolved(reason: Reason) -> Bottleneck:
    return Bottleneck(NOT_RESOLVED, BottleneckVerdict.NOT_RESOLVED, reason)


def _reason(code: BottleneckReason, *utilizations: Utilization) -> Reason:
    """The reason with the utilization of the first component, and of the second if two were compared."""
    values: dict[str, Value] = {}
    for prefix, component in zip(("", "second_"), utilizations, strict=False):
        values |= {
            f"{prefix}component": component.component,
            f"{prefix}resource": component.resource,
            f"{prefix}mean": component.mean,
            f"{prefix}low": component.low,
            f"{prefix}high": component.high,
        }
    return Reason(code, Severity.NOTE, values, rule(RuleName.BOTTLENECK))
