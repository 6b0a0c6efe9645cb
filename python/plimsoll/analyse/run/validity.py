"""Whether a run measured the target or the load generator: the rules of the experiment file's `validity:`.

A run is *invalid* when its numbers do not describe the target, and *doubtful* when they do with a reservation. Each
verdict has its evidence, each reason the rule behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.analyse.results.hosts import LostAgent
from plimsoll.analyse.results.verdict_rules import rule_of
from plimsoll.analyse.results.verdicts import Reason, RunReason, RunVerdict, Severity, Value
from plimsoll.analyse.run.own_delays import NOT_RECORDED, OwnDelay, OwnDelays
from plimsoll.analyse.stats.steady import Trend, TrendVerdict
from plimsoll.plan.model import Validity

NEARLY_FULL = 0.9
"""A generator with a thread above this makes the run doubtful: the target may serve more than was measured."""
ONE_STALL_S = 0.05
"""Gaps of up to this make a run doubtful, not invalid: a single stall of a busy host in a run of a second or two."""
RARE = 0.99
"""Own lateness above this quantile makes a run doubtful, not invalid."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Agents that were lost in a run that continued without them. `of`: number of all agents; `on_disk`: of the
    transactions that are known to have been started, the part that is on disk (None: not known); `unknown`: the share
    of the planned time of the testers, in the window, in which the load is unknown."""

    agents: tuple[LostAgent, ...]
    of: int
    on_disk: float | None
    unknown: float = 0.0


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run showed. `busiest_thread`: share of a core that the busiest thread of the generator used, 0..1;
    `thread_demand`: share that one of its threads used or waited for (None: not watched). `planned`, `started`: starts
    in the window, without those dropped or skipped on request (None: a closed load plans none). `steal`: share of the
    processor time of the host that the hypervisor assigned to other guests (None: not watched)."""

    succeeded: int
    failed: int
    busiest_thread: float | None
    planned: float | None
    started: float | None
    trend: Trend | None
    thread_demand: float | None = None
    own: OwnDelays = NOT_RECORDED
    steal: float | None = None
    balanced: bool = True
    lost_records: int = 0
    unknown_clocks: tuple[str, ...] = ()
    loss: Loss | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """No reasons: nothing to object to. `evidence` has the numbers by the keys of `validity:`."""

    reasons: tuple[Reason, ...]
    evidence: dict[str, float | None]

    @property
    def verdict(self) -> RunVerdict:
        """By the gravest of the reasons."""
        return verdict_of(self.reasons)


def verdict_of(reasons: Iterable[Reason]) -> RunVerdict:
    """Of a run with these reasons against it."""
    severities = {reason.severity for reason in reasons}
    if Severity.INVALID in severities:
        return RunVerdict.INVALID
    return RunVerdict.DOUBTFUL if Severity.DOUBTFUL in severities else RunVerdict.VALID


def is_lower_bound(reasons: Iterable[Reason]) -> bool:
    """Whether the throughput of a run with these reasons against it is the generator's: the target may serve more."""
    return any(each.code == RunReason.TESTER_CPU for each in reasons)


def against(code: RunReason, severity: Severity, **values: Value) -> Reason:
    """A reason against a run, with the rule behind it."""
    return Reason(code, severity, values, rule_of(code))


def judge_run(seen: Observed, limits: Validity) -> Judgement:
    """Applies the rules."""
    share = _started_share(seen)
    slow = tuple(filter(None, (_tester_cpu(seen, limits), _lateness(seen, limits), _gaps(seen, limits))))
    found = (
        _success(seen, limits),
        *slow,
        _started(share, limits) if seen.loss or verdict_of(slow) == RunVerdict.INVALID else None,
        _damage(seen, limits),
        _trend(seen, limits),
        _steal(seen, limits),
        _lost_agents(seen, limits),
        _clocks(seen),
    )
    return Judgement(tuple(filter(None, found)), _evidence(seen, share))


def _success(seen: Observed, limits: Validity) -> Reason | None:
    """A target that refuses everything was measured: all its answers are errors."""
    if not limits.success or seen.succeeded > 0 or seen.failed > 0:
        return None
    return against(RunReason.NOTHING_ENDED, Severity.INVALID)


def _tester_cpu(seen: Observed, limits: Validity) -> Reason | None:
    busiest, limit = seen.busiest_thread, limits.tester_cpu
    demand = max((each for each in (busiest, seen.thread_demand) if each is not None), default=None)
    if demand is None or demand <= min(limit, NEARLY_FULL):
        return None
    severity = Severity.INVALID if demand > limit else Severity.DOUBTFUL
    figures = {"busiest_thread": busiest, "demand": min(1.0, demand), "limit": limit}
    return against(RunReason.TESTER_CPU, severity, **figures)


def _started(share: float | None, limits: Validity) -> Reason | None:
    """Only beside a sign that the generator was slow: a target that leaves no slot free is overloaded."""
    if share is None or share >= limits.started:
        return None
    return against(RunReason.STARTED, Severity.INVALID, share=share, limit=limits.started)


def _lateness(seen: Observed, limits: Validity) -> Reason | None:
    """At each percentile that is reported; above p99 a few stalls of the host are all of the sample."""
    floor_s = limits.lateness_floor_ns / 1e9
    late = [each for each in seen.own.at if each.share > limits.lateness_share and each.own_s > floor_s]
    if not late:
        return None
    common = [each for each in late if each.quantile <= RARE]
    worst: OwnDelay = max(common or late, key=lambda each: each.share)
    figures = {"quantile": worst.quantile, "own_s": worst.own_s, "share": worst.share}
    severity = Severity.INVALID if common else Severity.DOUBTFUL
    limit = {"limit_share": limits.lateness_share, "limit_s": floor_s}
    return against(RunReason.LATENESS, severity, **figures, **limit)


def _gaps(seen: Observed, limits: Validity) -> Reason | None:
    if seen.own.stopped is None or seen.own.stopped <= limits.gaps:
        return None
    severity = Severity.INVALID if seen.own.stopped_s > ONE_STALL_S else Severity.DOUBTFUL
    return against(RunReason.GAPS, severity, share=seen.own.stopped, limit=limits.gaps)


def _damage(seen: Observed, limits: Validity) -> Reason | None:
    """What of the transactions is not on record. Nobody knows the last ones of an agent that was lost, so a run without
    it is judged by how much of what was started is on record, as a run is by how much of its plan was started."""
    loss = seen.loss
    if seen.lost_records or not seen.balanced:
        return against(RunReason.DAMAGED, Severity.INVALID, lost_records=seen.lost_records)
    if loss is not None and loss.unknown > 1 - limits.started:
        unknown = {"unknown": loss.unknown, "limit": 1 - limits.started}
        return against(RunReason.UNKNOWN_LOAD, Severity.INVALID, **_lost(loss), **unknown)
    if loss is None or loss.on_disk is None or loss.on_disk >= limits.started:
        return None
    figures = {"on_record": loss.on_disk, "limit": limits.started}
    return against(RunReason.LOST_RECORDS, Severity.INVALID, **_lost(loss), **figures)


def _lost(loss: Loss) -> dict[str, Value]:
    return {
        "agents": tuple(one.agent for one in loss.agents),
        "lost_s": tuple(one.lost_s for one in loss.agents),
        "brought_in": tuple(one.brought_in for one in loss.agents),
        "of": loss.of,
    }


def _started_share(seen: Observed) -> float | None:
    if seen.planned is None or seen.started is None or seen.planned <= 0:
        return None
    return seen.started / seen.planned


def _trend(seen: Observed, limits: Validity) -> Reason | None:
    found = seen.trend
    if not limits.trend or found is None or found.verdict != TrendVerdict.TRENDS:
        return None
    figures = {"change": found.change, "p": found.p_value, "noise": found.noise, "metric": found.metric}
    return against(RunReason.TREND, Severity.DOUBTFUL, **figures)


def _steal(seen: Observed, limits: Validity) -> Reason | None:
    if seen.steal is None or seen.steal <= limits.steal:
        return None
    return against(RunReason.STEAL, Severity.DOUBTFUL, share=seen.steal, limit=limits.steal)


def _lost_agents(seen: Observed, limits: Validity) -> Reason | None:
    if seen.loss is None or _damage(seen, limits) is not None:
        return None
    return against(RunReason.LOST_AGENTS, Severity.DOUBTFUL, **_lost(seen.loss))


def _clocks(seen: Observed) -> Reason | None:
    if not seen.unknown_clocks:
        return None
    return against(RunReason.UNKNOWN_CLOCKS, Severity.DOUBTFUL, agents=tuple(seen.unknown_clocks))


def _evidence(seen: Observed, share: float | None) -> dict[str, float | None]:
    return {
        "succeeded": float(seen.succeeded),
        "failed": float(seen.failed),
        "tester_cpu": seen.busiest_thread,
        "tester_demand": seen.thread_demand,
        "started": share,
        "lateness_share": max((each.share for each in seen.own.at if each.quantile <= RARE), default=None),
        "gaps": seen.own.stopped,
        "trend_change": seen.trend.change if seen.trend else None,
        "steal": seen.steal,
        "trend_p": seen.trend.p_value if seen.trend else None,
        **(
            {"recorded": seen.loss.on_disk, "unknown_load": seen.loss.unknown}
            if seen.loss is not None
            else {}
        ),
    }
