"""Coverage: which agents were present at which time, and the known transactions of lost agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll.analyse.results.components.hosts import CoverageStep, LostAgent
from plimsoll.analyse.run.validity.validity import Loss
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.hosts import TESTERS, Agent, RunAgents


def agents_with_testers(run_agents: RunAgents) -> tuple[Agent, ...]:
    """The agents with testers."""
    return tuple(agent for agent in run_agents.agents if agent.role == TESTERS)


def coverage(
    run_agents: RunAgents, testers: Mapping[str, int], last_ns: Mapping[str, int]
) -> tuple[CoverageStep, ...]:
    """The number of agents and of their testers, one step for each change. `testers`: by agent, the number of testers
    with at least one transaction; `last_ns`: by agent, end of its last transaction, for agents that were lost at an
    unknown time."""
    spans = _spans(run_agents, last_ns)
    moments = sorted({0, *(edge for _, *edges in spans for edge in edges if edge is not None)})
    steps: list[CoverageStep] = []
    for moment in moments:
        present = [
            name for name, since, until in spans if since <= moment and (until is None or moment < until)
        ]
        now = CoverageStep(moment / 1e9, len(present), sum(testers.get(name, 0) for name in present))
        if not steps or (steps[-1].agents, steps[-1].testers) != (now.agents, now.testers):
            steps.append(now)
    return tuple(steps)


def _spans(run_agents: RunAgents, last_ns: Mapping[str, int]) -> list[tuple[str, int, int | None]]:
    """Name of each agent and the time (ns) from and until which it was present (None: until the end). A start within
    the clock bound of zero counts as zero."""
    spans = []
    for agent in agents_with_testers(run_agents):
        started, bound = agent.clock.started_ns or 0, agent.clock.bound_ns or 0
        since = started if started > max(bound, 1_000_000) else 0
        until = agent.lost_ns if agent.lost_ns is not None else last_ns.get(agent.name, 0)
        spans.append((agent.name, since, max(since, until) if agent.lost else None))
    return spans


def mean_coverage(steps: Sequence[CoverageStep], agents: int, window: Window) -> float | None:
    """Mean number of agents present in the window, as a share of all; None without agents or for an empty window."""
    if not agents or window.end <= window.start:
        return None
    edges = [*(step.t_s for step in steps[1:]), float("inf")]
    start, end = window.start / 1e9, window.end / 1e9
    present = sum(
        step.agents * max(0.0, min(until, end) - max(step.t_s, start))
        for step, until in zip(steps, edges, strict=True)
    )
    return present / (agents * (end - start))


def lost_agents(run_agents: RunAgents, last_ns: Mapping[str, int]) -> tuple[LostAgent, ...]:
    """The agents with testers that were lost, by time."""
    lost = [
        _lost_agent(agent, last_ns.get(agent.name)) for agent in agents_with_testers(run_agents) if agent.lost
    ]
    return tuple(sorted(lost, key=lambda agent: (agent.lost_s is None, agent.lost_s, agent.agent)))


def _lost_agent(agent: Agent, last_ns: int | None) -> LostAgent:
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


def loss(run_agents: RunAgents, last_ns: Mapping[str, int], window: Window) -> Loss | None:
    """The lost agents as the rules of validity use them; None if none was lost. `last_ns`: by agent, end of its last
    transaction on disk."""
    lost = lost_agents(run_agents, {})
    if not lost:
        return None
    missing = missing_rows(run_agents)
    known = run_agents.started + (missing or 0)
    return Loss(
        agents=lost,
        of=len(agents_with_testers(run_agents)),
        on_disk=None if missing is None or known == 0 else run_agents.started / known,
        unknown=_unknown_share(run_agents, last_ns, window),
    )


def _unknown_share(run_agents: RunAgents, last_ns: Mapping[str, int], window: Window) -> float:
    """The share of the planned time of all testers in which the load is unknown: from the last second that a lost agent
    reported, or its last transaction on disk, to its loss. It is 0 unless segments may still be on other hosts. Agents
    are taken to have equal numbers of testers. Older results do not contain the last reported second."""
    if not run_agents.outstanding or window.end <= window.start:
        return 0.0
    unknown = 0
    for agent in agents_with_testers(run_agents):
        if agent.lost:
            known = max(agent.reported_ns or 0, last_ns.get(agent.name, 0), window.start)
            until = window.end if agent.lost_ns is None else min(agent.lost_ns, window.end)
            unknown += max(0, until - known)
    return unknown / (len(agents_with_testers(run_agents)) * (window.end - window.start))


def missing_rows(run_agents: RunAgents) -> int | None:
    """Number of transactions of lost agents that live.jsonl counts and that are not on disk; None: not known."""
    lost = [agent for agent in agents_with_testers(run_agents) if agent.lost]
    if not lost or run_agents.live_started is None or any(agent.rows is None for agent in lost):
        return None
    return max(0, run_agents.live_started - run_agents.started)
