"""Who was there when: agents join late, or are lost, and what is known of what the lost ones did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.analyse.results.hosts import CoverageStep, LostAgent
from plimsoll.analyse.run.validity import Loss
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.hosts import TESTERS, Agent, RunAgents


def carriers(crew: RunAgents) -> tuple[Agent, ...]:
    """The agents with testers."""
    return tuple(agent for agent in crew.agents if agent.role == TESTERS)


def coverage(
    crew: RunAgents, testers: Mapping[str, int], last_ns: Mapping[str, int]
) -> tuple[CoverageStep, ...]:
    """The number of agents and of their testers from each time on at which it changed. `testers`: by agent, those that
    made any transaction; `last_ns`: end of the last one, for an agent that was lost at an unknown time."""
    spans = _spans(crew, last_ns)
    moments = sorted({0, *(edge for _, *edges in spans for edge in edges if edge is not None)})
    steps: list[CoverageStep] = []
    for moment in moments:
        there = [
            name for name, since, until in spans if since <= moment and (until is None or moment < until)
        ]
        now = CoverageStep(moment / 1e9, len(there), sum(testers.get(name, 0) for name in there))
        if not steps or (steps[-1].agents, steps[-1].testers) != (now.agents, now.testers):
            steps.append(now)
    return tuple(steps)


def _spans(crew: RunAgents, last_ns: Mapping[str, int]) -> list[tuple[str, int, int | None]]:
    """From when to when each agent was there, ns. A start within the bound of zero is a start with all others."""
    found = []
    for agent in carriers(crew):
        started, bound = agent.clock.started_ns or 0, agent.clock.bound_ns or 0
        since = started if started > max(bound, 1_000_000) else 0
        until = agent.lost_ns if agent.lost_ns is not None else last_ns.get(agent.name, 0)
        found.append((agent.name, since, max(since, until) if agent.lost else None))
    return found


def mean_coverage(steps: Sequence[CoverageStep], agents: int, window: Window) -> float | None:
    """Mean number of agents that were there in the window, as a part of all."""
    if not agents or window.end <= window.start:
        return None
    edges = [*(step.t_s for step in steps[1:]), float("inf")]
    start, end = window.start / 1e9, window.end / 1e9
    there = sum(
        step.agents * max(0.0, min(until, end) - max(step.t_s, start))
        for step, until in zip(steps, edges, strict=True)
    )
    return there / (agents * (end - start))


def lost_agents(crew: RunAgents, last_ns: Mapping[str, int]) -> tuple[LostAgent, ...]:
    """Those with testers that were lost, by time."""
    found = [_lost(agent, last_ns.get(agent.name)) for agent in carriers(crew) if agent.lost]
    return tuple(sorted(found, key=lambda one: (one.lost_s is None, one.lost_s, one.agent)))


def _lost(agent: Agent, last_ns: int | None) -> LostAgent:
    lost_s = None if agent.lost_ns is None else agent.lost_ns / 1e9
    return LostAgent(
        agent=agent.name,
        host=agent.host,
        site=agent.site,
        lost_s=lost_s,
        transactions=agent.rows,
        last_s=None if last_ns is None else last_ns / 1e9,
        brought_in=agent.rows is None or agent.rows > 0,
        text="",
    )


def loss(crew: RunAgents, last_ns: Mapping[str, int], window: Window) -> Loss | None:
    """The lost agents as the validity of the run sees them; None where none was lost. `last_ns`: end of the last
    transaction of each that is on disk."""
    lost = lost_agents(crew, {})
    if not lost:
        return None
    missing = missing_rows(crew)
    known = crew.started + (missing or 0)
    return Loss(
        agents=lost,
        of=len(carriers(crew)),
        on_disk=None if missing is None or known == 0 else crew.started / known,
        unknown=_unknown(crew, last_ns, window),
    )


def _unknown(crew: RunAgents, last_ns: Mapping[str, int], window: Window) -> float:
    """The share of the planned time of all testers in which the load is unknown: from what a lost agent had last
    reported, or has on disk, to its loss, while segments of it may still be elsewhere. Agents have like numbers of
    testers. Older results do not say what was reported last: only what is on disk is known then."""
    if not crew.outstanding or window.end <= window.start:
        return 0.0
    unknown = 0
    for agent in carriers(crew):
        if agent.lost:
            known = max(agent.reported_ns or 0, last_ns.get(agent.name, 0), window.start)
            until = window.end if agent.lost_ns is None else min(agent.lost_ns, window.end)
            unknown += max(0, until - known)
    return unknown / (len(carriers(crew)) * (window.end - window.start))


def missing_rows(crew: RunAgents) -> int | None:
    """Transactions of lost agents that the live view had counted and that are not on disk; None: not known."""
    lost = [agent for agent in carriers(crew) if agent.lost]
    if not lost or crew.live_started is None or any(agent.rows is None for agent in lost):
        return None
    return max(0, crew.live_started - crew.started)
