"""Which component gives way: the one whose utilization saturates with the throughput, or "not resolved"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.analyse.results import Utilization

NOT_RESOLVED = "not resolved"
THRESHOLD = 0.9


@dataclass(frozen=True)
class Bottleneck:
    """Name of the component, or "not resolved", and why."""

    component: str
    reason: str


def bottleneck(components: Sequence[Utilization], *, threshold: float = THRESHOLD) -> Bottleneck:
    """The bottleneck of one run (or of one cell, with utilizations over its runs).

    Rule: the testers come first: if they reach the threshold, the tool itself was the limit. Else it is the component
    of highest utilization, if that is at least the threshold and its interval lies above that of the second. A host is
    not weighed against the services and testers that run on it (their work is its work): a host is taken only where no
    service on it is watched, or where it is full and no service on it is. Cores that services share are taken where
    they are full and none of the services is.
    """
    testers = [c for c in components if c.role == "testers"]
    full = max((c for c in testers if c.mean >= threshold), key=lambda c: c.mean, default=None)
    if full is not None:
        return Bottleneck(
            full.component, f"the load generator itself: {_busy(full)}; the service was not the limit"
        )
    places = dict.fromkeys(c.host for c in components)
    weighed = [one for place in places for one in _on([c for c in components if c.host == place], threshold)]
    if weighed:
        return _judge(_ranked(weighed), threshold)
    return Bottleneck(NOT_RESOLVED, "no utilization was measured")


def _on(components: list[Utilization], threshold: float) -> list[Utilization]:
    """Of what is on one host: the services, or the host where it says more. A host that is seen by two is one host."""
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
        return Bottleneck(NOT_RESOLVED, f"nothing that was watched is full: the highest is {_said(first)}")
    if len(ranked) > 1:
        second = ranked[1]
        first_low = first.low if first.low is not None else first.mean
        second_high = second.high if second.high is not None else second.mean
        if first_low <= second_high:
            return Bottleneck(NOT_RESOLVED, f"{_said(first)} cannot be told from {_said(second)}")
    return Bottleneck(first.component, _busy(first))


def _said(c: Utilization) -> str:
    """For where the component is not named beside it."""
    return f"{c.component}: {_busy(c)}"


def _busy(c: Utilization) -> str:
    interval = (
        f" ({100 * c.low:.0f} to {100 * c.high:.0f} %)"
        if c.low is not None and c.high is not None and f"{100 * c.low:.0f}" != f"{100 * c.high:.0f}"
        else ""
    )
    return f"{c.resource} {100 * c.mean:.0f} % busy{interval}"
