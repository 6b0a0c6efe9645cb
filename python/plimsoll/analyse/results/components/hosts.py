"""Additional results of a run with several agents: its hosts and sites, their clocks, the coverage.

A part of the machine-readable result (`results`), under the same rules: names contain units, and `None` means
"unknown".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RttSource = Literal["tcp", "probes", ""]


@dataclass(frozen=True, slots=True)
class PlaceResult:
    """The testers of one host, or of one site, in the measured window."""

    site: str
    host: str
    """Empty for the whole site."""
    agents: int
    testers: int
    """Testers with at least one transaction; slots of open loads count as testers."""
    transactions: int
    errors: int
    throughput_per_s: float
    payload_bytes_per_s: float
    wire_bytes_per_s: float
    response_ms_mean: float | None
    response_ms_p50: float | None
    response_ms_p95: float | None
    """Percentiles from buckets: within 0.05 %; less exact in very long runs of very many hosts."""
    share: float | None
    """Work per tester relative to that of all testers: 1 is fair. Only of closed loads, as the next three fields."""
    jain_index: float | None
    """Jain's index over its own testers."""
    share_cv: float | None
    """Standard deviation of the shares of its own testers over their mean."""
    share_range: tuple[float, float] | None
    """Least and greatest share of its own testers."""
    rtt_ms: float | None
    """Median round trip of its testers' connections (TCP_INFO); at most that of probes that take the same path."""
    probe_rtt_ms: float | None
    """Median round trip of the probes between its agents and the controller."""
    response_less_rtt_ms: float | None
    """Median response time less one round trip to the target; `HostsResult.rtt_source` names its source."""
    testers_share: float | None
    """Share of the tester-time of the peak window that its testers contributed, 0..1. Only of sites, as the next
    field."""
    peak_share: float | None
    """Share of the throughput of the peak window that its testers contributed, 0..1."""
    cpu: float | None
    """Mean busy share of the host's processors in the window; only of hosts."""
    lost: int
    """Agents that were lost."""
    work: int = 0
    """Places with the same number have the same workloads, apart from the number of testers: only these are compared.
    Counted from 0 in the order of the sites."""


@dataclass(frozen=True, slots=True)
class AgentClockResult:
    """An agent's clock relative to the controller's, over the run."""

    agent: str
    host: str
    site: str
    same: bool
    """The clock is the controller's own, so no clock map was needed."""
    bound_ms: float | None
    """Maximum error of any time of the agent in this run; None: not known."""
    offset_ms: float | None
    """Controller - agent, at the start."""
    drift_ppm: float | None
    """Of the longest interval of constant drift, as the next two fields; greater than zero if the agent's clock is
    slow."""
    drift_low_ppm: float | None
    drift_high_ppm: float | None
    started_ms: float | None
    """Time from the run's zero to the start of its load; below 0: it started before the run's zero."""
    probes: int
    rejected: int
    via: dict[str, int]
    """Number of probes by path: udp, link."""
    rtt_min_ms: float | None
    rtt_median_ms: float | None
    remark: str
    role: str = "testers"
    """testers; or watch for an agent without testers."""


@dataclass(frozen=True, slots=True)
class HostEvent:
    """An event of a clock, or of the path to it. It changes no figure."""

    t_s: float
    agent: str
    kind: str
    """clock-step, route-change, clock-jump, clock-shift"""
    by_ms: float | None
    text: str


@dataclass(frozen=True, slots=True)
class CoverageStep:
    """The number of agents and of their testers from `t_s` until the next step."""

    t_s: float
    agents: int
    testers: int


@dataclass(frozen=True, slots=True)
class LostAgent:
    """An agent that was lost. Its transactions are those on disk."""

    agent: str
    host: str
    site: str
    lost_s: float | None
    """When it was lost; None: not known."""
    transactions: int | None
    """Number on disk, over the whole run; None: the run keeps no transactions."""
    last_s: float | None
    """End of the last of these transactions."""
    brought_in: bool
    """Whether any of its segments was fetched. If not, its transactions are unknown."""
    text: str


@dataclass(frozen=True, slots=True)
class SitesOverTime:
    """The successful transactions of each site over the run, by quantum. `t_s`: begin of each quantum; `transactions`:
    those that ended in it, by site; `shares`: the same as a part of all sites', 0..1 (None: none ended)."""

    quantum_s: float
    t_s: tuple[float, ...]
    transactions: dict[str, tuple[int, ...]]
    shares: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class HostsResult:
    """A run of several agents. `sites`, `hosts` are empty if single transactions were not kept."""

    agents: int
    """Agents with testers."""
    bound_ms: float | None
    """Maximum error of any time of any agent, and so of every figure from more than one agent. None: not known of any
    agent."""
    bound_unknown: tuple[str, ...]
    """Agents with transactions whose clock bound is not known."""
    least_quantum_s: float
    """Ten times the bound: the shortest quantum of series over the agents."""
    start_spread_ms: float | None
    """Time between the start of the first agent and that of the last."""
    start_spread_bound_ms: float | None
    """Maximum error of `start_spread_ms`: the sum of the two greatest bounds."""
    jain_hosts: float | None
    """Jain's index over the work per tester of the hosts; None also if their workloads differ, as `jain_sites`."""
    jain_sites: float | None
    """Jain's index over the work per tester of the sites."""
    rtt_source: RttSource
    """Source of the round trip that `response_less_rtt_ms` subtracts: tcp (median of the testers' own connections),
    probes (the least to the controller, where the services of the experiment run), or empty (none)."""
    missing: int | None
    """Transactions of lost agents that live.jsonl counts and that are not on disk: a lower bound. None: unknown."""
    coverage_mean: float | None
    """Mean number of agents present in the measured window, as a share of all agents."""
    sites: tuple[PlaceResult, ...]
    hosts: tuple[PlaceResult, ...]
    clocks: tuple[AgentClockResult, ...]
    events: tuple[HostEvent, ...]
    coverage: tuple[CoverageStep, ...]
    lost: tuple[LostAgent, ...]
    sites_over_time: SitesOverTime | None = None
    """None with fewer than two sites or more than 24, and if single transactions were not kept."""
