"""Whether a service treats its nearest and its farthest site alike, without the difference of their round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.results.hosts import HostsResult, PlaceResult
from plimsoll.analyse.results.verdicts import SitesVerdict

ALIKE: Final = 0.1
"""Near and far are treated alike where what is left of their times without the way differs by less than a tenth: of the
shorter one, or of the difference of the ways, whichever is more."""
PROBE_NOISE_MS: Final = 1.0
"""Probes are answered by processes, which wait for their turn; the network's own round trip is not known better."""


@dataclass(frozen=True, slots=True)
class SitesFairness:
    """The nearest site and the farthest. Median response times less one round trip; `longer_ms`: that of the far one
    less that of the near one; `far_away_ms`: its round trip; `unequal`: the far one does less work."""

    verdict: SitesVerdict
    near: str
    far: str
    near_ms: float
    far_ms: float
    longer_ms: float
    far_away_ms: float
    unequal: bool


def sites_by_distance(hosts: HostsResult) -> list[PlaceResult]:
    """Sites that made transactions, the nearest first."""
    return sorted((each for each in hosts.sites if each.transactions), key=_distance)


def away_ms(place: PlaceResult) -> float | None:
    """How far it is: the round trip of its testers' connections, else of its agents' probes."""
    return place.rtt_ms if place.rtt_ms is not None else place.probe_rtt_ms


def _distance(place: PlaceResult) -> float:
    away = away_ms(place)
    return float("inf") if away is None else away


def sites_fairness(sites: Sequence[PlaceResult], hosts: HostsResult) -> SitesFairness | None:
    """Of sites by distance; None where there is one, or the times or the ways are not known."""
    if len(sites) < 2:
        return None
    near, far = sites[0], sites[-1]
    a, b = near.response_less_rtt_ms, far.response_less_rtt_ms
    way, far_way = away_ms(near), away_ms(far)
    if a is None or b is None or way is None or far_way is None:
        return None
    longer, apart = b - a, far_way - way
    noise = PROBE_NOISE_MS if hosts.rtt_source == "probes" else 0.0
    verdict = SitesVerdict.WAITS_MORE if longer > 0 else SitesVerdict.WAITS_LESS
    if abs(longer) <= max(ALIKE * max(a, apart), noise):
        verdict = SitesVerdict.ALIKE
    unequal = near.share is not None and far.share is not None and far.share < (1 - ALIKE) * near.share
    return SitesFairness(verdict, near.site, far.site, a, b, longer, far_way, unequal)
