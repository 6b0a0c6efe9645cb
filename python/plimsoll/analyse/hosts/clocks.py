"""The clocks of a run's agents: their error bounds, the starts of the agents, and the events of the clocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plimsoll.analyse.hosts.coverage import agents_with_testers
from plimsoll.analyse.results.components.hosts import AgentClockResult, HostEvent, HostsResult
from plimsoll.analyse.results.wording import number, quantity
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.hosts import Agent, AgentClock, RunAgents

_MS = 1e6
_BEGINS = {
    "route_change": ("route-change", "the network delay between it and the controller changed at this time"),
    "jump": ("clock-jump", "its clock jumped (a machine that was suspended or moved)"),
    "shift": ("clock-shift", "its clock jumped, or its probes were delayed in one direction"),
}
"""Kinds of pieces that are reported. A change of drift alone is not, because the rate of every clock changes."""


def greatest_bound(run_agents: RunAgents) -> int:
    """The greatest known bound (ns) of the clocks of the agents with testers; 0 for one clock. Agents of watched hosts
    do not count, because they contribute to no series of the testers; their bounds are reported with them."""
    return max((agent.clock.bound_ns or 0 for agent in agents_with_testers(run_agents)), default=0)


def unknown_clocks(run_agents: RunAgents) -> tuple[str, ...]:
    """Names of the agents whose clock bound is not known, except lost agents without transactions."""
    return tuple(
        agent.name
        for agent in agents_with_testers(run_agents)
        if agent.clock.bound_ns is None and (agent.rows or not agent.lost)
    )


def start_spread(run_agents: RunAgents) -> tuple[float | None, float | None]:
    """Time (ms) between the start of the first agent and that of the last, and its maximum error (ms): each of the two
    starts may be wrong by the bound of its agent. None: not known."""
    known = [agent.clock for agent in agents_with_testers(run_agents) if agent.clock.started_ns is not None]
    started = [clock.started_ns for clock in known if clock.started_ns is not None]
    if len(started) < 2:
        return None, None
    bounds = [clock.bound_ns for clock in known]
    spread = (max(started) - min(started)) / _MS
    if None in bounds:
        return spread, None
    return spread, sum(sorted(bound or 0 for bound in bounds)[-2:]) / _MS


def clock_results(run_agents: RunAgents) -> tuple[AgentClockResult, ...]:
    """One entry per agent, in the order of summary.json."""
    return tuple(_clock(agent) for agent in run_agents.agents)


def _clock(agent: Agent) -> AgentClockResult:
    clock = agent.clock
    longest = max(clock.pieces, key=lambda piece: piece.to_ns - piece.from_ns, default=None)
    median = float(np.median(agent.trips)) if agent.trips.size else clock.rtt_median_ns
    return AgentClockResult(
        agent=agent.name,
        host=agent.host,
        site=agent.site,
        same=clock.same,
        bound_ms=_ms(clock.bound_ns),
        offset_ms=_ms(clock.pieces[0].offset_ns) if clock.pieces else None,
        drift_ppm=longest.drift_ppm if longest else None,
        drift_low_ppm=longest.drift_low_ppm if longest else None,
        drift_high_ppm=longest.drift_high_ppm if longest else None,
        started_ms=_ms(clock.started_ns),
        probes=clock.probes,
        rejected=clock.rejected,
        via=dict(agent.via),
        rtt_min_ms=_ms(clock.rtt_min_ns),
        rtt_median_ms=_ms(median),
        remark=clock.remark,
        role=agent.role,
    )


def events(run_agents: RunAgents) -> tuple[HostEvent, ...]:
    """Steps of wall clocks, changes of route and jumps, by time. They are reported but change no figure: time stamps
    use a clock that cannot be set, and the clock map corrects the other two."""
    clock_events = [
        event
        for agent in run_agents.agents
        for event in _events_of_clock(agent.name, agent.clock, run_agents.t0_ns)
    ]
    return tuple(sorted(clock_events, key=lambda event: (event.t_s, event.agent)))


def _events_of_clock(name: str, clock: AgentClock, t0_ns: int) -> Iterator[HostEvent]:
    for t_ns, by_ns in clock.steps:
        by = quantity(abs(by_ns) / _MS, "ms")
        direction = "forward" if by_ns >= 0 else "back"
        yield HostEvent(
            t_ns / 1e9, name, "clock-step", by_ns / _MS, f"its wall clock was set {direction} by {by}"
        )
    for before, piece in zip(clock.pieces, clock.pieces[1:], strict=False):
        if piece.begins not in _BEGINS:
            continue
        kind, text = _BEGINS[piece.begins]
        at_s = (piece.from_ns + piece.offset_ns - t0_ns) / 1e9
        by_ms = None
        if piece.begins != "route_change":
            drifted = before.offset_ns + before.drift_ppm * 1e-6 * (piece.from_ns - before.from_ns)
            by_ms = (drifted - piece.offset_ns) / _MS
            text += f", by {number(by_ms)} ms"
        yield HostEvent(at_s, name, kind, by_ms, text)


def clock_notes(hosts: HostsResult, widened_s: float | None, measured: Window) -> list[str]:
    """Notes on the effect of the clocks on the figures. `widened_s`: the quantum (s) of the series if it was
    widened."""
    if not hosts.bound_ms:
        return []
    bound = f"the clocks of the hosts agree within {quantity(hosts.bound_ms, 'ms')}"
    notes = []
    if widened_s is not None:
        notes.append(
            f"{bound}; time series over them use at least ten times that as their quantum: {widened_s:g} s"
        )
    if measured.seconds < hosts.least_quantum_s:
        notes.append(
            f"{bound}; the measured window is shorter than ten times that, so its ends are uncertain"
        )
    return notes


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / _MS
