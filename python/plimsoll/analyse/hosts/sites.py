"""Shares of the sites over time, and whether a service treats its nearest and its farthest site alike, without
the difference of their round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from plimsoll.analyse.results.components.hosts import HostsResult, PlaceResult, SitesOverTime
from plimsoll.analyse.results.verdicts import SitesVerdict
from plimsoll.analyse.window.transactions import Int

ALIKE: Final = 0.1
"""Near and far are treated alike if their response times less the round trip differ by less than a tenth of the shorter
one, or of the difference of the round trips, whichever is more."""
PROBE_NOISE_MS: Final = 1.0
"""Processes respond to probes after a delay by the scheduler, so the round trip of the network has this uncertainty."""


MAX_SITES: Final = 24
"""With more sites their shares over time cannot be distinguished in a chart."""
MAX_QUANTA: Final = 120


@dataclass(frozen=True, slots=True)
class SitesFairness:
    """The nearest site and the farthest. `near_ms`, `far_ms`: median response times less one round trip; `longer_ms`:
    `far_ms` - `near_ms`; `far_away_ms`: round trip of the far site; `unequal`: the far site does less work."""

    verdict: SitesVerdict
    near: str
    far: str
    near_ms: float
    far_ms: float
    longer_ms: float
    far_away_ms: float
    unequal: bool


def sites_over_time(sites: Sequence[str], quanta: Int, quantum_ns: int) -> SitesOverTime | None:
    """Transactions and shares of the sites by quantum. Quanta are joined if there are more than MAX_QUANTA. None with
    fewer than two sites, more than MAX_SITES, or without transactions.

    `quanta`: transactions by site (row) and quantum of `quantum_ns`.
    """
    if not 2 <= len(sites) <= MAX_SITES or quanta.shape[0] != len(sites) or not quanta.any():
        return None
    joined = -(-quanta.shape[1] // MAX_QUANTA)
    whole = np.pad(quanta, ((0, 0), (0, -quanta.shape[1] % joined)))
    counts = whole.reshape(len(sites), -1, joined).sum(axis=2)
    used = int(np.flatnonzero(counts.sum(axis=0))[-1]) + 1  # nothing ends after the load
    counts = counts[:, :used]
    totals = counts.sum(axis=0)
    quantum = joined * quantum_ns
    return SitesOverTime(
        quantum_s=quantum / 1e9,
        t_s=tuple(at * quantum / 1e9 for at in range(used)),
        transactions={site: tuple(row) for site, row in zip(sites, counts.tolist(), strict=True)},
        shares={
            site: tuple(
                count / total if total else None for count, total in zip(row, totals.tolist(), strict=True)
            )
            for site, row in zip(sites, counts.tolist(), strict=True)
        },
    )


def sites_by_distance(hosts: HostsResult) -> list[PlaceResult]:
    """Sites with transactions, the nearest first."""
    return sorted((site for site in hosts.sites if site.transactions), key=_sort_key)


def compared_sites(sites: Sequence[PlaceResult]) -> list[PlaceResult]:
    """Those of the sites with the same workloads, in the given order. If there are several such groups of at least two
    sites, that with most testers. Empty if there is none: times and work of different requests are not compared."""
    groups: dict[int, list[PlaceResult]] = {}
    for site in sites:
        groups.setdefault(site.work, []).append(site)
    several = [group for group in groups.values() if len(group) > 1]
    return max(several, key=lambda group: sum(site.testers for site in group), default=[])


def away_ms(site: PlaceResult) -> float | None:
    """Round trip (ms) of the connections of a site's testers, else of its agents' probes; None: not known."""
    return site.rtt_ms if site.rtt_ms is not None else site.probe_rtt_ms


def _sort_key(site: PlaceResult) -> float:
    away = away_ms(site)
    return float("inf") if away is None else away


def sites_fairness(sites: Sequence[PlaceResult], hosts: HostsResult) -> SitesFairness | None:
    """The verdict on the first and the last of the sites, which are ordered by distance and have the same workloads.
    None if there is only one site, or if their times or round trips are not known."""
    if len(sites) < 2:
        return None
    near, far = sites[0], sites[-1]
    near_response_ms, far_response_ms = near.response_less_rtt_ms, far.response_less_rtt_ms
    near_round_trip_ms, far_round_trip_ms = away_ms(near), away_ms(far)
    if (
        near_response_ms is None
        or far_response_ms is None
        or near_round_trip_ms is None
        or far_round_trip_ms is None
    ):
        return None
    longer, apart = far_response_ms - near_response_ms, far_round_trip_ms - near_round_trip_ms
    noise = PROBE_NOISE_MS if hosts.rtt_source == "probes" else 0.0
    verdict = SitesVerdict.WAITS_MORE if longer > 0 else SitesVerdict.WAITS_LESS
    if abs(longer) <= max(ALIKE * max(near_response_ms, apart), noise):
        verdict = SitesVerdict.ALIKE
    unequal = near.share is not None and far.share is not None and far.share < (1 - ALIKE) * near.share
    return SitesFairness(
        verdict, near.site, far.site, near_response_ms, far_response_ms, longer, far_round_trip_ms, unequal
    )
