"""Computes the result of one run from its summary, its counts and its monitors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.analyse.components.bottleneck import bottleneck
from plimsoll.analyse.components.utilization import CPU_LIMIT
from plimsoll.analyse.components.utilization_hosts import greatest_detail
from plimsoll.analyse.results.actions import ActionsResult
from plimsoll.analyse.results.analysis import OpenLoad, RunResult
from plimsoll.analyse.results.components.hosts import HostsResult
from plimsoll.analyse.results.load.tester_sessions import TesterSessions
from plimsoll.analyse.results.named import NamedMetric
from plimsoll.analyse.results.run import (
    CacheTimes,
    ComponentResources,
    Connections,
    CountedService,
    Counts,
    Staleness,
    TierCounts,
    Utilization,
)
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import Reason, RunReason, RunVerdict, Severity
from plimsoll.analyse.results.wording import percent
from plimsoll.analyse.run.summary import RunSummary, without_overload
from plimsoll.analyse.run.validity.own_delays import NOT_RECORDED, OwnDelays
from plimsoll.analyse.run.validity.validity import Loss, ValidityFigures, against, judge_run, verdict_of
from plimsoll.plan.model.cell import Validity


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of a run other than its transactions.

    `planned`, `started`: starts that the arrival process planned, and those made, without the starts dropped or skipped
    on request (None: a closed load plans none). `busiest_thread`, `thread_demand`: of the agents, 0..1, without
    spinning (None: not watched).
    """

    id: str
    cell: Mapping[str, str]
    repetition: int
    order: int
    block: str | None
    status: str
    warmup_s: float
    counts: Counts
    utilization: Sequence[Utilization] = ()
    planned: float | None = None
    started: float | None = None
    busiest_thread: float | None = None
    thread_demand: float | None = None
    throttled: float = 0.0
    """Cores that the testers of one host waited for because of their CPU limit, at most."""
    own: OwnDelays = NOT_RECORDED
    monitor_cpu: float | None = None
    notes: Sequence[str] = ()
    metrics: tuple[NamedMetric, ...] = ()
    open_load: OpenLoad = "none"
    services: tuple[CountedService, ...] = ()
    tiers: tuple[TierCounts, ...] = ()
    staleness: Staleness | None = None
    caches: tuple[CacheTimes, ...] = ()
    connections: Connections | None = None
    tester_sessions: TesterSessions | None = None
    steal: float | None = None
    """Greatest steal of the hosts of the testers, if there are several hosts."""
    hosts: HostsResult | None = None
    loss: Loss | None = None
    actions: ActionsResult | None = None
    components: tuple[ComponentResources, ...] = ()
    is_only: bool = False
    """Whether the experiment has no other run."""


def run_result(facts: RunFacts, summary: RunSummary, limits: Validity) -> RunResult:
    """The result of the run with its verdicts, without texts. `limits`: the section `validity:`."""
    verdict = judge_run(_observed(facts, summary), limits)
    reasons = (*_unfinished(facts), *verdict.reasons)
    if verdict_of(reasons) == RunVerdict.INVALID or _are_throttled(facts, limits):
        summary = without_overload(summary)
    limiting = bottleneck(facts.utilization)
    return RunResult(
        id=facts.id,
        cell=dict(facts.cell),
        repetition=facts.repetition,
        order=facts.order,
        block=facts.block,
        status=facts.status,
        valid=verdict_of(reasons) != RunVerdict.INVALID,
        invalid_reasons=(),
        doubtful_reasons=(),
        evidence=verdict.evidence,
        counts=facts.counts,
        traffic=summary.traffic,
        jain_index=summary.fairness.jain,
        share_cv=summary.fairness.cv,
        utilization=tuple(facts.utilization),
        bottleneck=limiting.component,
        bottleneck_reason="",
        peak=summary.peak,
        stages=summary.stages,
        workloads=summary.workloads,
        operations=summary.operations,
        testers=summary.testers,
        series=summary.series,
        ecdf=summary.ecdf,
        warmup_s=facts.warmup_s,
        monitor_cpu=facts.monitor_cpu,
        notes=(*facts.notes, *_by_limit(facts, limits), *_advice(facts, summary)),
        metrics=facts.metrics,
        open_load=facts.open_load,
        services=facts.services,
        tiers=_tiers(facts),
        staleness=facts.staleness,
        caches=facts.caches,
        connections=facts.connections,
        tester_sessions=facts.tester_sessions,
        hosts=facts.hosts,
        actions=facts.actions,
        without_lost=summary.without_lost,
        components=facts.components,
        first=summary.first,
        share_min=summary.fairness.ends[0],
        share_max=summary.fairness.ends[1],
        verdict=verdict_of(reasons),
        reasons=reasons,
        validity_rule=rule(RuleName.VALIDITY),
        bottleneck_verdict=limiting.verdict,
        bottleneck_why=limiting.reason,
        bottleneck_rule=rule(RuleName.BOTTLENECK),
    )


def _unfinished(facts: RunFacts) -> tuple[Reason, ...]:
    """An interrupted run is invalid if there are other runs: it would be compared with complete ones, and `--resume`
    repeats it. An interrupted only run is doubtful: the user who stops it needs its figures."""
    if facts.status == "finished":
        return ()
    is_partial = facts.status == "interrupted" and facts.is_only
    severity = Severity.DOUBTFUL if is_partial else Severity.INVALID
    return (against(RunReason.NOT_FINISHED, severity, status=facts.status),)


def _observed(facts: RunFacts, summary: RunSummary) -> ValidityFigures:
    return ValidityFigures(
        succeeded=summary.traffic.transactions,
        failed=summary.traffic.errors,
        busiest_thread=facts.busiest_thread,
        planned=facts.planned,
        started=facts.started,
        thread_demand=facts.thread_demand,
        throttled=min(1.0, facts.throttled),
        own=facts.own,
        trend=summary.trend,
        balanced=facts.counts.balanced,
        lost_records=facts.counts.lost_records,
        steal=facts.steal
        if facts.hosts
        else next(
            (
                component.detail.get("cpu.steal")
                for component in facts.utilization
                if component.component == "host"
            ),
            None,
        ),
        unknown_clocks=facts.hosts.bound_unknown if facts.hosts else (),
        loss=facts.loss,
        tiers=_tiers(facts),
    )


def _tiers(facts: RunFacts) -> tuple[TierCounts, ...]:
    """The comparisons of a run whose requests are all on record."""
    is_whole = facts.loss is None and facts.counts.balanced and not facts.counts.lost_records
    return facts.tiers if is_whole else ()


def _are_throttled(facts: RunFacts, limits: Validity) -> bool:
    """Whether a CPU limit of the experiment stopped testers: starts that are missing may be theirs, so nothing is said
    about an overload of the target."""
    return facts.throttled > limits.gaps


def _by_limit(facts: RunFacts, limits: Validity) -> tuple[str, ...]:
    """Whether the CPU limit of the testers stopped them, which the experiment asked for."""
    cores = greatest_detail((used for used in facts.utilization if used.role == "testers"), CPU_LIMIT)
    if cores is None or not _are_throttled(facts, limits):
        return ()
    return (
        f"the testers used their CPU limit of {percent(cores, 2)} of a core (`hosts.limits`), which stopped them for "
        f"{percent(min(1.0, facts.throttled), 2)} of the window: this is no reason against the run",
    )


def _advice(facts: RunFacts, summary: RunSummary) -> tuple[str, ...]:
    """The advice of the warm-up detector, if it is supported and longer than the warm-up of the run by more than a
    tenth of the run."""
    cut = summary.warmup_advice.cut_s
    length = facts.warmup_s + summary.traffic.window_s
    if cut is None or not summary.warmup_advice.supported or cut <= facts.warmup_s + 0.1 * length:
        return ()
    return (
        f"the throughput looks {summary.warmup_advice.remark} (MSER-5); the warm-up was {facts.warmup_s:g} s",
    )
