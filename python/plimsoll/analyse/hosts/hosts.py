"""Hosts and sites of one run: their work, their round-trip times, and how evenly the service treated them.

Everything is of the measured window. Work per tester of a group is its transactions over the time that its testers were
active, so that a host with more testers, or with some that were lost, is compared as it should be. Jain's index over
groups (Jain, Chiu and Hawe 1984) is over that; within a group it is over the rates of its own testers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.hosts.clocks import clock_results, events, greatest_bound, start_spread, unknown_clocks
from plimsoll.analyse.hosts.coverage import carriers, coverage, lost_agents, mean_coverage, missing_rows
from plimsoll.analyse.results.hosts import HostsResult, PlaceResult, RttSource
from plimsoll.analyse.results.run import TesterResult
from plimsoll.analyse.run.placed import TesterSums
from plimsoll.analyse.run.summary import Places, RunSummary
from plimsoll.analyse.run.traffic import NEVER
from plimsoll.analyse.stats.fairness import jain_index
from plimsoll.analyse.window.quantum import FINEST
from plimsoll.analyse.window.transactions import Int, Window
from plimsoll.collect.hosts import Agent, RunAgents

Array = NDArray[np.float64]
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class TesterPlacement:
    """Where the testers of a run were: `agent` is the number of the agent of each among `agents`, or NOWHERE; `host`,
    `site` numbers among the names."""

    agents: tuple[Agent, ...]
    agent: Int
    host: Int
    site: Int
    hosts: tuple[tuple[str, str], ...]
    """Site and host by number."""
    sites: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Name of the agent of each tester; empty where it is NOWHERE."""
        return ["" if at == NOWHERE else self.agents[at].name for at in self.agent.tolist()]


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Round-trip times (s) of testers' own connections. `services_here`: the services of the experiment run beside the
    controller, so that the probes take the way that the transactions take."""

    tester: Int
    value: Array
    services_here: bool


def placed(crew: RunAgents, owners: Sequence[str]) -> TesterPlacement:
    """`owners`: name of the agent of each tester; empty: it made no transaction."""
    agents = carriers(crew)
    number = {agent.name: at for at, agent in enumerate(agents)}
    agent = np.array([number.get(name, NOWHERE) for name in owners], dtype=np.int64)
    hosts = tuple(dict.fromkeys((one.site, one.host) for one in agents))
    sites = tuple(dict.fromkeys(one.site for one in agents))
    # One more, so that NOWHERE finds an entry: that of the first, which a tester without a transaction does not change.
    of_host = {name: at for at, name in enumerate(hosts)}
    of_site = {name: at for at, name in enumerate(sites)}
    host_of = np.array([of_host[one.site, one.host] for one in agents] or [0], dtype=np.int64)
    site_of = np.array([of_site[one.site] for one in agents] or [0], dtype=np.int64)
    some = np.maximum(agent, 0)
    return TesterPlacement(agents, agent, host_of[some], site_of[some], hosts, sites)


def places_of(found: TesterPlacement, crew: RunAgents) -> Places:
    """What the sums over the transactions must know of it."""
    lost = np.array([_until(agent) for agent in found.agents] or [NEVER], dtype=np.int64)
    return Places(found.site, found.host, lost[np.maximum(found.agent, 0)], greatest_bound(crew))


def _until(agent: Agent) -> int:
    """The time until which its testers count. If it was lost at an unknown time: the end of their last transaction."""
    if not agent.lost:
        return int(NEVER)
    return int(NEVER) - 1 if agent.lost_ns is None else max(0, agent.lost_ns)


def hosts_result(
    crew: RunAgents,
    found: TesterPlacement | None,
    summary: RunSummary,
    window: Window,
    trips: RoundTrips,
    *,
    shares: bool,
    cpu: Mapping[str, float],
) -> HostsResult:
    """All of it. `found` None: single transactions were not kept; `shares` False: the testers are slots of an open
    load, whose shares are meaningless; `cpu`: busy share of the hosts, by name."""
    spread, spread_bound = start_spread(crew)
    sums = summary.by_tester
    testers, last = _by_agent(found, sums)
    steps = coverage(crew, testers, last)
    agents = len(carriers(crew))
    bounds = [agent.clock.bound_ns for agent in carriers(crew)]
    bound = greatest_bound(crew)
    sites: tuple[PlaceResult, ...] = ()
    hosts: tuple[PlaceResult, ...] = ()
    jain_sites = jain_hosts = None
    source: RttSource = ""
    if found is not None and sums is not None:
        source = "tcp" if trips.value.size else "probes" if trips.services_here else ""
        view = _View(found, sums, trips, source, window, shares, cpu)
        sites, jain_sites = view.sites()
        hosts, jain_hosts = view.hosts()
    return HostsResult(
        agents=agents,
        bound_ms=bound / 1e6 if any(one is not None for one in bounds) else None,
        bound_unknown=unknown_clocks(crew),
        least_quantum_s=FINEST * bound / 1e9,
        start_spread_ms=spread,
        start_spread_bound_ms=spread_bound,
        jain_hosts=jain_hosts,
        jain_sites=jain_sites,
        rtt_source=source,
        missing=missing_rows(crew),
        coverage_mean=mean_coverage(steps, agents, window),
        sites=sites,
        hosts=hosts,
        clocks=clock_results(crew),
        events=events(crew),
        coverage=steps,
        lost=lost_agents(crew, last),
    )


def _by_agent(
    found: TesterPlacement | None, sums: TesterSums | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Number of testers that did anything, and end of the last transaction, by agent."""
    if found is None or sums is None:
        return {}, {}
    did = (found.agent != NOWHERE) & (sums.last >= 0)
    testers: dict[str, int] = {}
    last: dict[str, int] = {}
    for number in np.unique(found.agent[did]).tolist():
        name = found.agents[number].name
        mine = did & (found.agent == number)
        testers[name], last[name] = int(np.count_nonzero(mine)), int(sums.last[mine].max())
    return testers, last


class _View:
    """The sums of the testers, by groups."""

    def __init__(
        self,
        found: TesterPlacement,
        sums: TesterSums,
        trips: RoundTrips,
        source: RttSource,
        window: Window,
        shares: bool,
        cpu: Mapping[str, float],
    ) -> None:
        self.cpu = cpu
        self.found, self.sums, self.trips, self.source = found, sums, trips, source
        self.seconds = max(window.seconds, 1e-9)
        self.did = (found.agent != NOWHERE) & (sums.last >= 0)
        self.users = self.did & ~np.isnan(sums.share) & (sums.span > 0) if shares else np.zeros_like(self.did)

    def sites(self) -> tuple[tuple[PlaceResult, ...], float | None]:
        """Every site, and Jain's index over their work per tester."""
        groups = [(site, "") for site in self.found.sites]
        made, jain = self._groups(self.found.site, groups)
        done, span = self.sums.peak_done, self.sums.peak_span
        if done.size != len(made) or done.sum() <= 0 or span.sum() <= 0:
            return made, jain
        return tuple(
            replace(
                one,
                peak_share=float(done[at] / done.sum()),
                testers_share=float(span[at] / span.sum()),
            )
            for at, one in enumerate(made)
        ), jain

    def hosts(self) -> tuple[tuple[PlaceResult, ...], float | None]:
        """Every host, and Jain's index over their work per tester."""
        return self._groups(self.found.host, self.found.hosts)

    def _groups(
        self, group: Int, names: Sequence[tuple[str, str]]
    ) -> tuple[tuple[PlaceResult, ...], float | None]:
        """One entry for each name, and Jain's index over the work per tester of those with any."""
        n, sums = len(names), self.sums
        work, span = self._per(group, n, sums.done, self.users), self._per(group, n, sums.span, self.users)
        rates = np.divide(work, span, out=np.zeros(n), where=span > 0)
        everyone = float(work.sum() / span.sum()) if span.sum() > 0 else 0.0
        tcp = _medians(group, n, self.trips)
        of_host = np.full(len(self.found.hosts), NOWHERE, dtype=np.int64)
        of_host[self.found.host[self.did]] = group[self.did]
        p50, p95 = sums.host_times.quantiles(of_host, n, (0.5, 0.95))
        totals = self._totals(group, n)
        made = []
        for at, (site, host) in enumerate(names):
            agents = [one for one in self.found.agents if (one.site, host and one.host) == (site, host)]
            probed = _middle_trip(agents)
            trip = _way(tcp[at], probed, self.trips)
            rtt = {"tcp": trip, "probes": _least_trip(agents), "": None}[self.source]
            made.append(
                PlaceResult(
                    site=site,
                    host=host,
                    agents=len(agents),
                    **totals[at],
                    response_ms_p50=p50[at],
                    response_ms_p95=p95[at],
                    share=float(rates[at]) / everyone if span[at] > 0 and everyone > 0 else None,
                    **_spread(sums, self.users & (group == at)),
                    rtt_ms=trip,
                    probe_rtt_ms=probed,
                    response_less_rtt_ms=_less(p50[at], rtt),
                    testers_share=None,
                    peak_share=None,
                    cpu=self.cpu.get(host),
                    lost=sum(one.lost for one in agents),
                )
            )
        known = rates[span > 0]
        return tuple(made), jain_index(known) if known.size > 1 else None

    def _per(self, group: Int, n: int, values: Int | Array, of: NDArray[np.bool_]) -> Array:
        """Sums of the values of those testers by their group."""
        return np.bincount(group[of], weights=values[of], minlength=n).astype(np.float64)

    def _totals(self, group: Int, n: int) -> list[dict[str, Any]]:
        """What is a plain sum, by group."""
        sums = self.sums
        columns = (np.ones(group.size), sums.done, sums.failed, sums.payload, sums.wire, sums.response)
        testers, done, failed, payload, wire, response = (
            self._per(group, n, values, self.did) for values in columns
        )
        return [
            {
                "testers": int(testers[at]),
                "transactions": int(done[at]),
                "errors": int(failed[at]),
                "throughput_per_s": float(done[at]) / self.seconds,
                "payload_bytes_per_s": float(payload[at]) / self.seconds,
                "wire_bytes_per_s": float(wire[at]) / self.seconds,
                "response_ms_mean": float(response[at] / done[at]) / 1e6 if done[at] else None,
            }
            for at in range(n)
        ]


def _way(tcp_ms: float | None, probed_ms: float | None, trips: RoundTrips) -> float | None:
    """Round trip (ms) of testers' connections. A server that answers within its delayed acknowledgement (40 ms by
    Linux) sends both together, and the kernel's estimate of the round trip then has the server's own time in it: where
    probes take the same way, what is above theirs is taken to be that. Their median, which meets the same queues."""
    if tcp_ms is None or probed_ms is None or not trips.services_here:
        return tcp_ms
    return min(tcp_ms, probed_ms)


def _least_trip(agents: Sequence[Agent]) -> float | None:
    """Mean over these agents of the least round trip (ms) of the probes of each. The median of probes has in it how
    busy the hosts are, which is no part of the way."""
    least = [
        int(one.trips.min()) if one.trips.size else one.clock.rtt_min_ns
        for one in agents
        if one.trips.size or one.clock.rtt_min_ns is not None
    ]
    return sum(each or 0 for each in least) / len(least) / 1e6 if least else None


def _middle_trip(agents: Sequence[Agent]) -> float | None:
    """Median round trip (ms) of the probes of these agents."""
    trips = [one.trips for one in agents if one.trips.size]
    told = [one.clock.rtt_median_ns for one in agents if one.clock.rtt_median_ns is not None]
    if trips:
        return float(np.median(np.concatenate(trips))) / 1e6
    return float(np.median(told)) / 1e6 if told else None


def _medians(group: Int, n: int, trips: RoundTrips) -> list[float | None]:
    known = trips.tester < group.size
    of, value = group[trips.tester[known]], trips.value[known]
    order = np.argsort(of, kind="stable")
    edges = np.searchsorted(of[order], np.arange(n + 1))
    out: list[float | None] = []
    for at in range(n):
        mine = value[order[edges[at] : edges[at + 1]]]
        out.append(float(np.median(mine)) * 1e3 if mine.size else None)
    return out


def _less(response_ms: float | None, rtt_ms: float | None) -> float | None:
    """None where the way took longer than all of it: what was to be measured is below what delays probes."""
    if response_ms is None or rtt_ms is None or response_ms < rtt_ms:
        return None
    return response_ms - rtt_ms


def _spread(sums: TesterSums, own: NDArray[np.bool_]) -> dict[str, Any]:
    """How evenly the work was shared among these testers."""
    shares = sums.share[own]
    if shares.size < 2:
        return {"jain_index": None, "share_cv": None, "share_range": None}
    mean = float(shares.mean())
    return {
        "jain_index": jain_index(sums.done[own] / sums.span[own]),
        "share_cv": float(shares.std(ddof=1)) / mean if mean > 0 else None,
        "share_range": (float(shares.min()), float(shares.max())),
    }


def named_testers(
    testers: Sequence[TesterResult],
    found: TesterPlacement,
    summary: RunSummary,
    trips: RoundTrips,
    source: RttSource,
) -> tuple[TesterResult, ...]:
    """The testers with their names (SITE/HOST/NUMBER), percentiles and round trips."""
    sums = summary.by_tester
    if sums is None:
        return tuple(testers)
    n = int(found.agent.size)
    each = np.arange(n)
    p50, p95 = sums.times.quantiles(each, n, (0.5, 0.95))
    tcp = _medians(each, n, trips)
    probes = [_least_trip([agent]) for agent in found.agents]
    out = []
    for one in testers:
        at = int(found.agent[one.tester])
        if at == NOWHERE:
            out.append(one)
            continue
        agent = found.agents[at]
        trip = _way(tcp[one.tester], _middle_trip([agent]), trips)
        rtt = {"tcp": trip, "probes": probes[at], "": None}[source]
        out.append(
            replace(
                one,
                name=f"{agent.site}/{agent.host}/{one.tester}",
                response_ms_p50=p50[one.tester],
                response_ms_p95=p95[one.tester],
                rtt_ms=trip,
                response_less_rtt_ms=_less(p50[one.tester], rtt),
            )
        )
    return tuple(out)
