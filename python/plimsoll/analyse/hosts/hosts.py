"""Hosts and sites of one run: their work, their round-trip times, and how evenly the service treated them.

All figures are of the measured window. Work per tester of a group is its transactions divided by the time for which its
testers were active, so hosts with more testers, or with lost ones, are comparable. Jain's index over groups (Jain, Chiu
and Hawe 1984) is that of the work per tester; within a group it is that of the rates of its own testers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.hosts.clocks import clock_results, events, greatest_bound, start_spread, unknown_clocks
from plimsoll.analyse.hosts.coverage import (
    agents_with_testers,
    coverage,
    lost_agents,
    mean_coverage,
    missing_rows,
)
from plimsoll.analyse.hosts.sites import sites_over_time
from plimsoll.analyse.hosts.work import Configuration, work_of_sites
from plimsoll.analyse.results.components.hosts import HostsResult, PlaceResult, RttSource
from plimsoll.analyse.results.run import TesterResult
from plimsoll.analyse.run.placed import TesterSums
from plimsoll.analyse.run.summary import Places, RunSummary
from plimsoll.analyse.run.traffic import NEVER
from plimsoll.analyse.stats.fairness import jain_index
from plimsoll.analyse.window.quantum import MIN_QUANTUM_RATIO
from plimsoll.analyse.window.transactions import Int, Window
from plimsoll.collect.hosts import Agent, RunAgents

Array = NDArray[np.float64]
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class TesterPlacement:
    """The places of the testers of a run, one entry per tester: `agent` is an index of `agents`, or NOWHERE; `host` and
    `site` are indices of `hosts` and `sites`."""

    agents: tuple[Agent, ...]
    agent: Int
    host: Int
    site: Int
    hosts: tuple[tuple[str, str], ...]
    """Site and host by number."""
    sites: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Name of the agent of each tester; empty if it is NOWHERE."""
        return ["" if at == NOWHERE else self.agents[at].name for at in self.agent.tolist()]


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Round-trip times (s) of testers' own connections. `services_here`: the services of the experiment run on the host
    of the controller, so probes and transactions take the same path."""

    tester: Int
    value: Array
    services_here: bool


def tester_placement(run_agents: RunAgents, owners: Sequence[str]) -> TesterPlacement:
    """The places of the testers. `owners`: name of the agent of each tester; empty for a tester without
    transactions."""
    agents = agents_with_testers(run_agents)
    number = {agent.name: at for at, agent in enumerate(agents)}
    agent = np.array([number.get(name, NOWHERE) for name in owners], dtype=np.int64)
    hosts = tuple(dict.fromkeys((member.site, member.host) for member in agents))
    sites = tuple(dict.fromkeys(member.site for member in agents))
    # NOWHERE is replaced by index 0: a tester without a transaction does not change the figures of the first agent.
    of_host = {name: at for at, name in enumerate(hosts)}
    of_site = {name: at for at, name in enumerate(sites)}
    host_of = np.array([of_host[member.site, member.host] for member in agents] or [0], dtype=np.int64)
    site_of = np.array([of_site[member.site] for member in agents] or [0], dtype=np.int64)
    some = np.maximum(agent, 0)
    return TesterPlacement(agents, agent, host_of[some], site_of[some], hosts, sites)


def places_of(placement: TesterPlacement, run_agents: RunAgents) -> Places:
    """The places in the form in which the sums over the transactions need them."""
    lost = np.array([_counted_until(agent) for agent in placement.agents] or [NEVER], dtype=np.int64)
    return Places(
        placement.site, placement.host, lost[np.maximum(placement.agent, 0)], greatest_bound(run_agents)
    )


def _counted_until(agent: Agent) -> int:
    """The time (ns) until which the agent's testers count as active. If it was lost at an unknown time, they count
    until the end of their last transaction."""
    if not agent.lost:
        return int(NEVER)
    return int(NEVER) - 1 if agent.lost_ns is None else max(0, agent.lost_ns)


def hosts_result(
    run_agents: RunAgents,
    placement: TesterPlacement | None,
    summary: RunSummary,
    window: Window,
    trips: RoundTrips,
    *,
    shares: bool,
    cpu: Mapping[str, float],
    configuration: Configuration,
) -> HostsResult:
    """The results of all hosts and sites. `placement` None: single transactions were not kept; `shares` False: the
    testers are slots of an open load, whose shares are meaningless; `cpu`: busy share of the hosts, by name;
    `configuration`: of the run, as stored with it."""
    spread, spread_bound = start_spread(run_agents)
    sums = summary.by_tester
    testers, last = _by_agent(placement, sums)
    steps = coverage(run_agents, testers, last)
    agents = len(agents_with_testers(run_agents))
    bounds = [agent.clock.bound_ns for agent in agents_with_testers(run_agents)]
    bound = greatest_bound(run_agents)
    sites: tuple[PlaceResult, ...] = ()
    hosts: tuple[PlaceResult, ...] = ()
    jain_sites = jain_hosts = None
    source: RttSource = ""
    over_time = None
    if placement is not None and sums is not None:
        source = "tcp" if trips.value.size else "probes" if trips.services_here else ""
        view = _TesterGroups(placement, sums, trips, source, window, shares, cpu)
        work = work_of_sites(configuration, placement.sites)
        sites, jain_sites = _with_work(*view.sites(), work)
        hosts, jain_hosts = _with_work(*view.hosts(), work)
        over_time = sites_over_time(placement.sites, sums.site_quanta, sums.quantum_ns)
    return HostsResult(
        agents=agents,
        bound_ms=bound / 1e6 if any(bound_ns is not None for bound_ns in bounds) else None,
        bound_unknown=unknown_clocks(run_agents),
        least_quantum_s=MIN_QUANTUM_RATIO * bound / 1e9,
        start_spread_ms=spread,
        start_spread_bound_ms=spread_bound,
        jain_hosts=jain_hosts,
        jain_sites=jain_sites,
        rtt_source=source,
        missing=missing_rows(run_agents),
        coverage_mean=mean_coverage(steps, agents, window),
        sites=sites,
        hosts=hosts,
        clocks=clock_results(run_agents),
        events=events(run_agents),
        coverage=steps,
        lost=lost_agents(run_agents, last),
        sites_over_time=over_time,
    )


def _with_work(
    places: Sequence[PlaceResult], jain: float | None, work: Mapping[str, int]
) -> tuple[tuple[PlaceResult, ...], float | None]:
    """The places with the numbers of their workloads, and Jain's index unless these differ."""
    numbered = tuple(replace(place, work=work[place.site]) for place in places)
    differ = len({place.work for place in numbered if place.testers}) > 1
    return numbered, None if differ else jain


def _by_agent(
    placement: TesterPlacement | None, sums: TesterSums | None
) -> tuple[dict[str, int], dict[str, int]]:
    """Number of testers with at least one transaction, and end (ns) of the last transaction, by agent."""
    if placement is None or sums is None:
        return {}, {}
    is_active = (placement.agent != NOWHERE) & (sums.last >= 0)
    testers: dict[str, int] = {}
    last: dict[str, int] = {}
    for number in np.unique(placement.agent[is_active]).tolist():
        name = placement.agents[number].name
        own = is_active & (placement.agent == number)
        testers[name], last[name] = int(np.count_nonzero(own)), int(sums.last[own].max())
    return testers, last


class _TesterGroups:
    """The sums of the testers by group (host or site)."""

    def __init__(
        self,
        placement: TesterPlacement,
        sums: TesterSums,
        trips: RoundTrips,
        source: RttSource,
        window: Window,
        shares: bool,
        cpu: Mapping[str, float],
    ) -> None:
        self.cpu = cpu
        self.placement, self.sums, self.trips, self.source = placement, sums, trips, source
        self.seconds = max(window.seconds, 1e-9)
        self.is_active = (placement.agent != NOWHERE) & (sums.last >= 0)
        self.users = (
            self.is_active & ~np.isnan(sums.share) & (sums.span > 0)
            if shares
            else np.zeros_like(self.is_active)
        )

    def sites(self) -> tuple[tuple[PlaceResult, ...], float | None]:
        """Results of every site, and Jain's index over their work per tester."""
        groups = [(site, "") for site in self.placement.sites]
        results, jain = self._place_results(self.placement.site, groups)
        done, span = self.sums.peak_done, self.sums.peak_span
        if done.size != len(results) or done.sum() <= 0 or span.sum() <= 0:
            return results, jain
        return tuple(
            replace(
                result,
                peak_share=float(done[at] / done.sum()),
                testers_share=float(span[at] / span.sum()),
            )
            for at, result in enumerate(results)
        ), jain

    def hosts(self) -> tuple[tuple[PlaceResult, ...], float | None]:
        """Results of every host, and Jain's index over their work per tester."""
        return self._place_results(self.placement.host, self.placement.hosts)

    def _place_results(
        self, group: Int, names: Sequence[tuple[str, str]]
    ) -> tuple[tuple[PlaceResult, ...], float | None]:
        """One result for each name, and Jain's index over the work per tester of those with active testers."""
        n, sums = len(names), self.sums
        work, span = self._per(group, n, sums.done, self.users), self._per(group, n, sums.span, self.users)
        rates = np.divide(work, span, out=np.zeros(n), where=span > 0)
        everyone = float(work.sum() / span.sum()) if span.sum() > 0 else 0.0
        tcp = _median_trips(group, n, self.trips)
        of_host = np.full(len(self.placement.hosts), NOWHERE, dtype=np.int64)
        of_host[self.placement.host[self.is_active]] = group[self.is_active]
        p50, p95 = sums.host_times.quantiles(of_host, n, (0.5, 0.95))
        totals = self._totals(group, n)
        results = []
        for at, (site, host) in enumerate(names):
            agents = [
                agent for agent in self.placement.agents if (agent.site, host and agent.host) == (site, host)
            ]
            probed = _median_trip(agents)
            trip = _connection_trip(tcp[at], probed, self.trips)
            rtt = {"tcp": trip, "probes": _least_trip(agents), "": None}[self.source]
            results.append(
                PlaceResult(
                    site=site,
                    host=host,
                    agents=len(agents),
                    **totals[at],
                    response_ms_p50=p50[at],
                    response_ms_p95=p95[at],
                    share=float(rates[at]) / everyone if span[at] > 0 and everyone > 0 else None,
                    **_share_spread(sums, self.users & (group == at)),
                    rtt_ms=trip,
                    probe_rtt_ms=probed,
                    response_less_rtt_ms=_response_less_trip(p50[at], rtt),
                    testers_share=None,
                    peak_share=None,
                    cpu=self.cpu.get(host),
                    lost=sum(agent.lost for agent in agents),
                )
            )
        known = rates[span > 0]
        return tuple(results), jain_index(known) if known.size > 1 else None

    def _per(self, group: Int, n: int, values: Int | Array, of: NDArray[np.bool_]) -> Array:
        """Sums by group of the values of the testers selected by `of`."""
        return np.bincount(group[of], weights=values[of], minlength=n).astype(np.float64)

    def _totals(self, group: Int, n: int) -> list[dict[str, Any]]:
        """Figures that are plain sums, by group."""
        sums = self.sums
        columns = (np.ones(group.size), sums.done, sums.failed, sums.payload, sums.wire, sums.response)
        testers, done, failed, payload, wire, response = (
            self._per(group, n, values, self.is_active) for values in columns
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


def _connection_trip(tcp_ms: float | None, probed_ms: float | None, trips: RoundTrips) -> float | None:
    """Round trip (ms) of testers' connections. A server that responds within its delayed acknowledgement (40 ms on
    Linux) sends both together, and the kernel's estimate of the round trip then contains the server's own time. If
    probes take the same path, the excess over their round trip is therefore subtracted. Their median is used, because
    the probes pass the same queues."""
    if tcp_ms is None or probed_ms is None or not trips.services_here:
        return tcp_ms
    return min(tcp_ms, probed_ms)


def _least_trip(agents: Sequence[Agent]) -> float | None:
    """Mean over these agents of the least round trip (ms) of the probes of each. The median of probes also contains
    delays of busy hosts, which are not part of the path."""
    least = [
        int(agent.trips.min()) if agent.trips.size else agent.clock.rtt_min_ns
        for agent in agents
        if agent.trips.size or agent.clock.rtt_min_ns is not None
    ]
    return sum(trip or 0 for trip in least) / len(least) / 1e6 if least else None


def _median_trip(agents: Sequence[Agent]) -> float | None:
    """Median round trip (ms) of the probes of these agents."""
    trips = [agent.trips for agent in agents if agent.trips.size]
    medians = [agent.clock.rtt_median_ns for agent in agents if agent.clock.rtt_median_ns is not None]
    if trips:
        return float(np.median(np.concatenate(trips))) / 1e6
    return float(np.median(medians)) / 1e6 if medians else None


def _median_trips(group: Int, n: int, trips: RoundTrips) -> list[float | None]:
    known = trips.tester < group.size
    groups, value = group[trips.tester[known]], trips.value[known]
    order = np.argsort(groups, kind="stable")
    edges = np.searchsorted(groups[order], np.arange(n + 1))
    out: list[float | None] = []
    for at in range(n):
        values = value[order[edges[at] : edges[at + 1]]]
        out.append(float(np.median(values)) * 1e3 if values.size else None)
    return out


def _response_less_trip(response_ms: float | None, rtt_ms: float | None) -> float | None:
    """Response time less round trip (ms). None if the round trip is longer: the difference is then less than the delays
    of probes."""
    if response_ms is None or rtt_ms is None or response_ms < rtt_ms:
        return None
    return response_ms - rtt_ms


def _share_spread(sums: TesterSums, own: NDArray[np.bool_]) -> dict[str, Any]:
    """Jain's index, coefficient of variation and range of the shares of these testers."""
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
    placement: TesterPlacement,
    summary: RunSummary,
    trips: RoundTrips,
    source: RttSource,
) -> tuple[TesterResult, ...]:
    """The testers with their names (SITE/HOST/NUMBER), percentiles and round trips."""
    sums = summary.by_tester
    if sums is None:
        return tuple(testers)
    n = int(placement.agent.size)
    numbers = np.arange(n)
    p50, p95 = sums.times.quantiles(numbers, n, (0.5, 0.95))
    tcp = _median_trips(numbers, n, trips)
    probes = [_least_trip([agent]) for agent in placement.agents]
    out = []
    for tester in testers:
        at = int(placement.agent[tester.tester])
        if at == NOWHERE:
            out.append(tester)
            continue
        agent = placement.agents[at]
        trip = _connection_trip(tcp[tester.tester], _median_trip([agent]), trips)
        rtt = {"tcp": trip, "probes": probes[at], "": None}[source]
        out.append(
            replace(
                tester,
                name=f"{agent.site}/{agent.host}/{tester.tester}",
                response_ms_p50=p50[tester.tester],
                response_ms_p95=p95[tester.tester],
                rtt_ms=trip,
                response_less_rtt_ms=_response_less_trip(p50[tester.tester], rtt),
            )
        )
    return tuple(out)
