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
    """Empty: of the whole site."""
    agents: int
    testers: int
    """Those that made any transaction; slots of open loads too."""
    transactions: int
    errors: int
    throughput_per_s: float
    payload_bytes_per_s: float
    wire_bytes_per_s: float
    response_ms_mean: float | None
    response_ms_p50: float | None
    response_ms_p95: float | None
    """Percentiles from buckets: within 0.05 %, of very long runs of very many hosts coarser."""
    share: float | None
    """Work per tester relative to that of all testers: 1 is fair. Of closed loads, as the three that follow."""
    jain_index: float | None
    """Among its own testers."""
    share_cv: float | None
    """Standard deviation of the shares of its own testers over their mean."""
    share_range: tuple[float, float] | None
    """Least and greatest share of its own testers."""
    rtt_ms: float | None
    """Median round trip of its testers' connections (TCP_INFO); not above that of probes that take the same way."""
    probe_rtt_ms: float | None
    """Median round trip of the probes between its agents and the controller."""
    response_less_rtt_ms: float | None
    """Median response time less one round trip to the target; `HostsResult.rtt_source` names its source."""
    testers_share: float | None
    """Part of the tester-time of the peak window that was its testers', 0..1. Of sites alone, as what follows."""
    peak_share: float | None
    """Part of the throughput of the peak window that was its testers', 0..1."""
    cpu: float | None
    """Mean busy share of the host's processors in the window; of hosts alone."""
    lost: int
    """Agents that were lost."""


@dataclass(frozen=True, slots=True)
class AgentClockResult:
    """An agent's clock against the controller's, over the run."""

    agent: str
    host: str
    site: str
    same: bool
    """It is the controller's own: nothing had to be found."""
    bound_ms: float | None
    """Greatest error of any time of the agent in this run; None: nothing is known."""
    offset_ms: float | None
    """Controller - agent, at the start."""
    drift_ppm: float | None
    """Of the longest stretch of one drift, as are its ends: greater than zero where the agent's clock is slow."""
    drift_low_ppm: float | None
    drift_high_ppm: float | None
    started_ms: float | None
    """Its load began so long after the run's zero; before, where below 0."""
    probes: int
    rejected: int
    via: dict[str, int]
    """Probes by the way they took: udp, link."""
    rtt_min_ms: float | None
    rtt_median_ms: float | None
    remark: str
    role: str = "testers"
    """testers, or watch: it has no testers."""


@dataclass(frozen=True, slots=True)
class HostEvent:
    """Something that happened to a clock or to the way to it. It changes no number."""

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
    """An agent that was lost. Its transactions are those that are on disk."""

    agent: str
    host: str
    site: str
    lost_s: float | None
    """When; None: not known."""
    transactions: int | None
    """On disk, over the whole run; None: none of any agent are kept."""
    last_s: float | None
    """End of the last of them."""
    brought_in: bool
    """Whether any of its segments were. Where none was, it is unknown what it did."""
    text: str


@dataclass(frozen=True, slots=True)
class HostsResult:
    """A run of several agents. `sites`, `hosts` are empty where single transactions were not kept."""

    agents: int
    """That carry testers."""
    bound_ms: float | None
    """Greatest error of any time of any agent: of every number to which more than one of them adds. None: not known of
    any."""
    bound_unknown: tuple[str, ...]
    """Agents with transactions of whose clock nothing is known."""
    least_quantum_s: float
    """Ten times the bound: no series over the agents has finer quanta."""
    start_spread_ms: float | None
    """Between the first agent to begin and the last."""
    start_spread_bound_ms: float | None
    """Greatest error of that: the two greatest bounds together."""
    jain_hosts: float | None
    """Over the work per tester of the hosts."""
    jain_sites: float | None
    """Over the work per tester of the sites."""
    rtt_source: RttSource
    """What `response_less_rtt_ms` takes off: tcp (median of the testers' own connections), probes (the least to the
    controller, where the services of the experiment run), or nothing."""
    missing: int | None
    """Transactions of lost agents that the live view had counted and that are not on disk: a lower bound. None:
    unknown."""
    coverage_mean: float | None
    """Agents that were there, mean over the measured window, as a part of all."""
    sites: tuple[PlaceResult, ...]
    hosts: tuple[PlaceResult, ...]
    clocks: tuple[AgentClockResult, ...]
    events: tuple[HostEvent, ...]
    coverage: tuple[CoverageStep, ...]
    lost: tuple[LostAgent, ...]
