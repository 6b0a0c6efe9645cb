"""Whether a run measured the target or the load generator: the rules of the experiment file's `validity:`.

A run is *invalid* when its numbers do not describe the target, and *doubtful* when they do with a reservation. Each
verdict has its evidence, each reason the rule behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.analyse.results.components.hosts import LostAgent
from plimsoll.analyse.results.run import TierCounts
from plimsoll.analyse.results.verdict_rules import rule_of
from plimsoll.analyse.results.verdicts import Reason, RunReason, RunVerdict, Severity, Value
from plimsoll.analyse.run.validity.own_delays import NOT_RECORDED, OwnDelay, OwnDelays
from plimsoll.analyse.stats.steady import Trend, TrendVerdict
from plimsoll.plan.model.cell import Validity

NEARLY_FULL = 0.9
"""A generator with a thread above this makes the run doubtful: the target may serve more than was measured."""
MAX_STALL_S = 0.05
"""Gaps of up to this total make a run doubtful, not invalid: a single stall of a busy host in a run of a second or
two."""
MAX_JUDGED_QUANTILE = 0.99
"""Own lateness above this quantile makes a run doubtful, not invalid."""

MIN_REQUESTS = 5
"""A difference of up to this number of requests between two counts is no reason for a doubt."""
MAX_PASSED = 0.5
"""A greater difference behind a program that does not count its requests is the purpose of this program: it answers
most requests itself, or sends several for each."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Agents that were lost in a run that continued without them. `of`: number of all agents; `on_disk`: share of the
    transactions known to have started that is on disk (None: not known); `unknown`: share of the planned time of the
    testers, in the window, in which the load is unknown."""

    agents: tuple[LostAgent, ...]
    of: int
    on_disk: float | None
    unknown: float = 0.0


@dataclass(frozen=True, slots=True)
class ValidityFigures:
    """The figures by which a run is judged. `busiest_thread`: share of a core that the generator's busiest thread used;
    `thread_demand`: share that one of its threads used or waited for (None: not watched). `planned`, `started`: starts
    in the window, without those dropped or skipped on request (None: a closed load plans none). `steal`: share of the
    processor time of the host that the hypervisor assigned to other guests (None: not watched). `throttled`: share of
    the window for which a CPU limit of the experiment stopped the testers of one host, at most; `thread_demand` is
    without this time."""

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
    tiers: tuple[TierCounts, ...] = ()
    loss: Loss | None = None
    throttled: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of the rules. A valid run has no reasons. `evidence`: the numbers by the keys of `validity:`."""

    reasons: tuple[Reason, ...]
    evidence: dict[str, float | None]

    @property
    def verdict(self) -> RunVerdict:
        """The verdict by the most severe of the reasons."""
        return verdict_of(self.reasons)


def verdict_of(reasons: Iterable[Reason]) -> RunVerdict:
    """The verdict on a run with these reasons against it."""
    severities = {reason.severity for reason in reasons}
    if Severity.INVALID in severities:
        return RunVerdict.INVALID
    return RunVerdict.DOUBTFUL if Severity.DOUBTFUL in severities else RunVerdict.VALID


def is_lower_bound(reasons: Iterable[Reason]) -> bool:
    """Whether the throughput of a run with these reasons is a lower bound: the load generator limited it."""
    return any(reason.code == RunReason.TESTER_CPU for reason in reasons)


def against(code: RunReason, severity: Severity, **values: Value) -> Reason:
    """A reason against a run, with the rule behind it."""
    return Reason(code, severity, values, rule_of(code))


def judge_run(observed: ValidityFigures, limits: Validity) -> Judgement:
    """Applies the rules of `validity:` to a run."""
    share = _started_share(observed)
    slow = tuple(
        filter(None, (_tester_cpu(observed, limits), _lateness(observed, limits), _gaps(observed, limits)))
    )
    reasons = (
        _success(observed, limits),
        *slow,
        _started(share, limits) if observed.loss or verdict_of(slow) == RunVerdict.INVALID else None,
        _damage(observed, limits),
        _trend(observed, limits),
        _steal(observed, limits),
        _lost_agents(observed, limits),
        _clocks(observed),
        *(_requests(tier, limits) for tier in observed.tiers),
    )
    return Judgement(tuple(filter(None, reasons)), _evidence(observed, share))


def _success(observed: ValidityFigures, limits: Validity) -> Reason | None:
    """No transaction ended. A target that refuses all requests was measured: its responses are errors."""
    if not limits.success or observed.succeeded > 0 or observed.failed > 0:
        return None
    return against(RunReason.NOTHING_ENDED, Severity.INVALID)


def _tester_cpu(observed: ValidityFigures, limits: Validity) -> Reason | None:
    busiest, limit = observed.busiest_thread, limits.tester_cpu
    shares = [share for share in (busiest, observed.thread_demand) if share is not None]
    # The counters of a thread are read a little later than the clock: a sum above a whole core is a full core.
    demand = min(1.0, max(shares, default=0.0))
    if demand <= min(limit, NEARLY_FULL):
        return None
    severity = Severity.INVALID if demand > limit else Severity.DOUBTFUL
    figures = {"busiest_thread": busiest, "demand": demand, "limit": limit}
    return against(RunReason.TESTER_CPU, severity, **figures)


def _started(share: float | None, limits: Validity) -> Reason | None:
    """Too few starts. Applied only if another rule shows that the generator was slow: otherwise the target is
    overloaded, because it leaves no slot free."""
    if share is None or share >= limits.started:
        return None
    return against(RunReason.STARTED, Severity.INVALID, share=share, limit=limits.started)


def _lateness(observed: ValidityFigures, limits: Validity) -> Reason | None:
    """Own lateness at each reported percentile. Above p99 the sample may consist of a few stalls of the host."""
    floor_s = limits.lateness_floor_ns / 1e9
    if observed.throttled > limits.gaps:
        return None  # of the delays of the testers, those by their limit cannot be told apart
    late = [
        delay for delay in observed.own.at if delay.share > limits.lateness_share and delay.own_s > floor_s
    ]
    if not late:
        return None
    common = [delay for delay in late if delay.quantile <= MAX_JUDGED_QUANTILE]
    worst: OwnDelay = max(common or late, key=lambda delay: delay.share)
    figures = {"quantile": worst.quantile, "own_s": worst.own_s, "share": worst.share}
    severity = Severity.INVALID if common else Severity.DOUBTFUL
    limit = {"limit_share": limits.lateness_share, "limit_s": floor_s}
    return against(RunReason.LATENESS, severity, **figures, **limit)


def _gaps(observed: ValidityFigures, limits: Validity) -> Reason | None:
    if observed.own.stopped is None:
        return None
    by_host = max(0.0, observed.own.stopped - observed.throttled)
    if by_host <= limits.gaps:
        return None
    stopped_s = observed.own.stopped_s * by_host / observed.own.stopped
    severity = Severity.INVALID if stopped_s > MAX_STALL_S else Severity.DOUBTFUL
    return against(RunReason.GAPS, severity, share=by_host, limit=limits.gaps)


def _damage(observed: ValidityFigures, limits: Validity) -> Reason | None:
    """Transactions that are not on record. The last transactions of a lost agent are unknown, so the run is judged by
    the share of started transactions on record, with the limit for the share of planned starts."""
    loss = observed.loss
    if observed.lost_records or not observed.balanced:
        return against(RunReason.DAMAGED, Severity.INVALID, lost_records=observed.lost_records)
    if loss is not None and loss.unknown > 1 - limits.started:
        unknown = {"unknown": loss.unknown, "limit": 1 - limits.started}
        return against(RunReason.UNKNOWN_LOAD, Severity.INVALID, **_lost_values(loss), **unknown)
    if loss is None or loss.on_disk is None or loss.on_disk >= limits.started:
        return None
    figures = {"on_record": loss.on_disk, "limit": limits.started}
    return against(RunReason.LOST_RECORDS, Severity.INVALID, **_lost_values(loss), **figures)


def _lost_values(loss: Loss) -> dict[str, Value]:
    return {
        "agents": tuple(agent.agent for agent in loss.agents),
        "lost_s": tuple(agent.lost_s for agent in loss.agents),
        "brought_in": tuple(agent.brought_in for agent in loss.agents),
        "of": loss.of,
    }


def _started_share(observed: ValidityFigures) -> float | None:
    if observed.planned is None or observed.started is None or observed.planned <= 0:
        return None
    return observed.started / observed.planned


def _trend(observed: ValidityFigures, limits: Validity) -> Reason | None:
    trend = observed.trend
    if not limits.trend or trend is None or trend.verdict != TrendVerdict.TRENDS:
        return None
    figures = {"change": trend.change, "p": trend.p_value, "noise": trend.noise, "metric": trend.metric}
    return against(RunReason.TREND, Severity.DOUBTFUL, **figures)


def _steal(observed: ValidityFigures, limits: Validity) -> Reason | None:
    if observed.steal is None or observed.steal <= limits.steal:
        return None
    return against(RunReason.STEAL, Severity.DOUBTFUL, share=observed.steal, limit=limits.steal)


def _lost_agents(observed: ValidityFigures, limits: Validity) -> Reason | None:
    if observed.loss is None or _damage(observed, limits) is not None:
        return None
    return against(RunReason.LOST_AGENTS, Severity.DOUBTFUL, **_lost_values(observed.loss))


def _clocks(observed: ValidityFigures) -> Reason | None:
    if not observed.unknown_clocks:
        return None
    return against(RunReason.UNKNOWN_CLOCKS, Severity.DOUBTFUL, agents=tuple(observed.unknown_clocks))


def _requests(tier: TierCounts, limits: Validity) -> Reason | None:
    """A service counted another number of requests than the tier before it sent."""
    if tier.is_watched or abs(tier.difference) <= max(MIN_REQUESTS, limits.requests * tier.sent):
        return None
    if tier.through and abs(tier.difference) > MAX_PASSED * tier.sent:
        return None
    return against(
        RunReason.REQUESTS,
        Severity.DOUBTFUL,
        service=tier.service,
        before=tier.before,
        through=tier.through,
        sent=tier.sent,
        counted=tier.counted,
        difference=tier.difference,
        share=tier.share,
        limit=limits.requests,
    )


def _evidence(observed: ValidityFigures, share: float | None) -> dict[str, float | None]:
    return {
        "succeeded": float(observed.succeeded),
        "failed": float(observed.failed),
        "tester_cpu": observed.busiest_thread,
        "tester_demand": observed.thread_demand,
        "started": share,
        "lateness_share": max(
            (delay.share for delay in observed.own.at if delay.quantile <= MAX_JUDGED_QUANTILE), default=None
        ),
        "gaps": observed.own.stopped,
        **({"throttled": observed.throttled} if observed.throttled else {}),
        "trend_change": observed.trend.change if observed.trend else None,
        "steal": observed.steal,
        "trend_p": observed.trend.p_value if observed.trend else None,
        **({"requests_difference": _greatest_difference(observed.tiers)} if observed.tiers else {}),
        **(
            {"recorded": observed.loss.on_disk, "unknown_load": observed.loss.unknown}
            if observed.loss is not None
            else {}
        ),
    }


def _greatest_difference(tiers: Iterable[TierCounts]) -> float | None:
    """The difference of the greatest share of what was sent, among the services that Plimsoll started."""
    return max(
        (tier.share for tier in tiers if tier.share is not None and not tier.is_watched),
        key=abs,
        default=None,
    )
