"""The machine-readable result of an analysis: `analysis.json` and `--json`.

One tree of frozen dataclasses, filled by the other modules of `analyse` and read by `report` and `cli`; nothing in it
is computed twice. Field names are the keys of the JSON and contain the unit (`_ms`, `_per_s`); a field without unit is
a count or a fraction of 1. `None` always means "unknown from this sample", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plimsoll.analyse.results.actions import ActionsResult
from plimsoll.analyse.results.charts import Chart
from plimsoll.analyse.results.components.component_series import RunComponentSeries
from plimsoll.analyse.results.components.conditions import Condition
from plimsoll.analyse.results.components.hosts import HostsResult
from plimsoll.analyse.results.components.memory import MemoryGrowth
from plimsoll.analyse.results.components.pool import PoolResult
from plimsoll.analyse.results.load.demands import CellDemand, FanOut
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.load.search import SearchResult
from plimsoll.analyse.results.load.sessions import DatabaseSessions, ExplainingWait
from plimsoll.analyse.results.load.sufficient import SufficientLevel
from plimsoll.analyse.results.load.tester_sessions import TesterSessions
from plimsoll.analyse.results.load.until_tight import UntilTightResult
from plimsoll.analyse.results.named import NamedMetric
from plimsoll.analyse.results.run import (
    CacheTimes,
    ComponentResources,
    Connections,
    CountedService,
    Counts,
    Ecdf,
    FewTransactions,
    FirstResult,
    OperationResult,
    Peak,
    Ramp,
    RunChange,
    Series,
    StageResult,
    Staleness,
    TesterResult,
    TierCounts,
    Traffic,
    Utilization,
    WindowResult,
    WorkloadResult,
)
from plimsoll.analyse.results.verdicts import (
    BottleneckVerdict,
    CapacityKind,
    Finding,
    Gain,
    LeftOutPart,
    RankingVerdict,
    Reason,
    RuleId,
    RunVerdict,
    SaturationReason,
    SaturationVerdict,
    SupersededVerdict,
    TermPart,
    ThresholdVerdict,
    VerdictRule,
)
from plimsoll.analyse.stats.interval import Interval

OpenLoad = Literal["none", "some", "all"]
FORMAT = "plimsoll.analysis/1"
"""Name and major version of the JSON form. A reader refuses a greater major version."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """All results of one run."""

    id: str
    cell: dict[str, str]
    repetition: int
    order: int
    block: str | None
    status: str
    """finished, interrupted, failed (service died, agent lost, ...)"""
    valid: bool
    invalid_reasons: tuple[str, ...]
    doubtful_reasons: tuple[str, ...]
    evidence: dict[str, float | None]
    """The numbers behind the verdicts, by the keys of `validity:`."""
    counts: Counts
    traffic: Traffic
    jain_index: float | None
    share_cv: float | None
    utilization: tuple[Utilization, ...]
    bottleneck: str
    """Name of a component, or "not resolved"."""
    bottleneck_reason: str
    peak: Peak | None
    stages: tuple[StageResult, ...]
    workloads: tuple[WorkloadResult, ...]
    """Empty if there is only one workload."""
    testers: tuple[TesterResult, ...]
    series: Series | None
    ecdf: Ecdf | None
    warmup_s: float
    monitor_cpu: float | None
    """Share of one core that the monitor itself used."""
    operations: tuple[OperationResult, ...] = ()
    """Empty if no workload has several operations."""
    notes: tuple[str, ...] = ()
    metrics: tuple[NamedMetric, ...] = ()
    open_load: OpenLoad = "none"
    """Which of its workloads are open. The testers of an open load are slots that take the next arrival, not users. If
    all workloads are open, `jain_index`, `share_cv` and the shares are no measure of fairness; if some are, the testers
    of the open ones are left out of these figures."""
    services: tuple[CountedService, ...] = ()
    tiers: tuple[TierCounts, ...] = ()
    """Empty if no service counts requests whose number is known from the tier before it."""
    staleness: Staleness | None = None
    """None if no operation reads versions."""
    caches: tuple[CacheTimes, ...] = ()
    """Empty if no cache on the path reported hits or misses."""
    connections: Connections | None = None
    """None if the driver opens no connections, or not every transaction was kept."""
    hosts: HostsResult | None = None
    """None if there is only one agent."""
    without_lost: Traffic | None = None
    """The figures of the window without the transactions of lost agents; None if no agent was lost."""
    verdict: RunVerdict = RunVerdict.VALID
    reasons: tuple[Reason, ...] = ()
    """`invalid_reasons` and `doubtful_reasons` as codes and figures."""
    validity_rule: RuleId | None = None
    bottleneck_verdict: BottleneckVerdict = BottleneckVerdict.NOT_RESOLVED
    bottleneck_why: Reason | None = None
    """`bottleneck_reason` as a code with the utilizations that were compared."""
    bottleneck_rule: RuleId | None = None
    ramp: Ramp | None = None
    """None unless the load of its only workload changes by plan and single transactions were kept."""
    changes: tuple[RunChange, ...] | None = None
    """Changes of throughput, response time and CPU, in order of time. None if they were not examined: the load changes
    by plan, the run had actions, an agent was lost, or the window has less than 30 seconds."""
    few: FewTransactions | None = None
    """None if the testers of closed loads ended at least ten transactions each, or there are none."""
    actions: ActionsResult | None = None
    """None if the run had no actions, or if single transactions were not kept."""
    components: tuple[ComponentResources, ...] = ()
    component_series: RunComponentSeries | None = None
    """None: no component was measured."""
    conditions: tuple[Condition, ...] = ()
    """Conditions of hosts and services that can explain slow or failed transactions. They are no reason against the
    run."""
    first: tuple[FirstResult, ...] = ()
    """Empty unless a threshold has `where: {first: ...}`."""
    sessions: tuple[DatabaseSessions, ...] = ()
    """Of each database whose sessions were read."""
    tester_sessions: TesterSessions | None = None
    """None if no workload has `session:`, or if single transactions were not kept."""
    at_peak: WindowResult | None = None
    """Figures of the part of the peak window after the warm-up; None unless a response or rule has `over: peak`, and if
    there is no such part."""
    share_min: float | None = None
    share_max: float | None = None
    """The smallest and the greatest share of a tester; None if no tester has a share."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell of the design over its valid repetitions. Responses by the name of the metric."""

    cell: dict[str, str]
    load: float | None
    """Numeric value of the load factor; None if there is none."""
    repetitions: int
    valid: int
    responses: dict[str, Interval]
    error_rate: float | None
    error_rate_upper: float | None
    """Upper 95 % bound (Wilson) of the error rate over all valid repetitions."""
    stretch: float | None
    scaling: float | None
    bottleneck: str
    bottleneck_rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity with its definition. `load` is the level at which it was reached."""

    kind: CapacityKind
    value: Interval | None
    load: float | None
    definition: str
    reached: bool
    remark: str = ""
    asked_metric: str = ""
    asked: str = ""
    """The rule of `capacity:` that it satisfies, as written, and the metric of the rule; empty for the nominal
    capacity."""
    reasons: tuple[Reason, ...] = ()
    """`remark` as codes and figures."""
    rule: RuleId | None = None
    loads: tuple[float, ...] = ()
    """The loads of the plateau of which `value` is the mean; empty: `value` is that of `load` alone."""
    rivals: int = 1
    """Of a nominal capacity without plateau, and of a usable capacity among the loads that meet its rules: number of
    loads that are not shown to have less throughput than `load`, itself included. From 2 on `value` is likely too high;
    its interval allows for the selection."""
    also: tuple[str, ...] = ()
    """The further rules of a usable capacity, each with its metric."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """The saturation of one combination of the other factors: bracket, capacities and bottleneck."""

    combination: dict[str, str]
    metric: str
    load_factor: str
    lower: float | None
    upper: float | None
    verdict: SaturationVerdict
    text: str
    bottleneck: str
    capacities: tuple[Capacity, ...]
    efficiency: float | None
    levels: int = 0
    """Number of levels of the load with a valid run."""
    reason: SaturationReason | None = None
    """Why there is no bracket, or the evidence for it."""
    falls_from: float | None = None
    """The load from which throughput is shown to fall again."""
    doubt: Gain | None = None
    """The gain that is not decided; None if there is none."""
    has_error: bool = True
    """False: no level has two valid runs."""
    rule: RuleId | None = None
    bottleneck_rule: RuleId | None = None
    gains: tuple[Gain, ...] = ()
    """The gains from each level to the next."""
    more_runs: int | None = None
    """Number of further valid runs per level that would probably decide. None: decided, not known, or more than
    100."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The combination of the highest nominal capacity, compared with the next (`second`) and the lowest (`worst`).
    `over_second`, `over_worst`: ratios of the capacities, with their own intervals."""

    verdict: RankingVerdict
    best: dict[str, str]
    second: dict[str, str]
    worst: dict[str, str]
    over_second: Interval
    over_worst: Interval
    metric: str = ""
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One level of one term of the fitted model on one response."""

    response: str
    scale: str
    term: str
    """"A", "A:B", "residual" or "block" """
    level: str
    effect: float | None
    """linear: added to the mean; log: factor by which the mean is multiplied"""
    interval: Interval | None
    variation_percent: float | None
    """Share of the term in the total variation (on the first level's row of a term; None on the others)."""
    p_value: float | None = None
    df: float | None = None
    parts: tuple[TermPart, ...] = ()
    """The parts of `term`: its factors, then those of each alias; empty for "residual" and "block"."""
    adjusted_p_value: float | None = None
    """`p_value` adjusted for all terms of the model (Holm). `interval` is individual."""


@dataclass(frozen=True, slots=True)
class Model:
    """The fit behind the effects of one response: the fitted values, the terms that cannot be estimated, and the
    residuals."""

    response: str
    scale: str
    sum_of_squares: str
    """orthogonal, type II, type III"""
    r_squared: float | None
    error_df: float
    not_estimable: tuple[str, ...]
    remarks: tuple[str, ...]
    run_ids: tuple[str, ...]
    fitted: tuple[float, ...]
    residuals: tuple[float, ...]
    order: tuple[int, ...]
    reasons: tuple[Reason, ...] = ()
    """`remarks` as codes and figures."""
    family: int = 0
    """Number of terms that were tested, for which the p-values are adjusted."""
    intervals: str = "individual"
    """Each interval of an effect has a coverage of 95 %; all of them together have less."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One threshold judged on one cell."""

    metric: str
    test: str
    cell: dict[str, str]
    observed: float | None
    passed: bool
    reason: str
    judged: bool = True
    """False as long as no run of the cell is valid and further runs are planned; `passed` is then also false."""
    verdict: ThresholdVerdict | None = None
    reasons: tuple[Reason, ...] = ()
    """`reason` as codes and figures."""
    rule: RuleId | None = None
    unit: str = ""
    """Unit of `observed`: `s` for times (other fields contain times in ms); empty for shares of 1 and counts."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """The responses that readers received, and their cost, over the valid runs of a cell, or of all cells with one
    level of a factor."""

    cell: dict[str, str]
    """The levels that these runs share."""
    runs: int
    answers: int
    stale: int
    stale_share: Interval | None
    """Of a cell: as its other responses; of one run: within it; of a level: over its cells, weighted by their numbers
    of responses. If no response was stale: the upper bound for that number of responses."""
    stale_age_ms_p50: float | None
    stale_age_ms_p95: float | None
    stale_age_ms_max: float | None
    """Ages of the stale responses of all runs together."""
    fetches_per_answer: float | None
    needless_share: float | None
    busy: dict[str, float]
    """Mean utilization of each service, over the runs."""
    relative_reads: Interval | None = None
    """Of a level: its reads per second relative to the level with the most reads. Cells with the same levels of all
    other factors are compared with each other (geometric mean)."""


@dataclass(frozen=True, slots=True)
class ConsistencyResult:
    """Readers' responses over the runs: by cell, and by level of `factor`, the first factor that is not the load."""

    cells: tuple[Consistency, ...]
    factor: str | None
    levels: tuple[Consistency, ...]


@dataclass(frozen=True, slots=True)
class ExperimentInfo:
    """The properties of the experiment that the analysis needs, copied so that the JSON is self-contained."""

    name: str
    question: str
    directory: str
    seed: int | None
    factors: dict[str, list[str]]
    load_factor: str | None
    design: str
    repetitions: int
    planned_runs: int
    finished_runs: int
    complete: bool
    responses: tuple[str, ...]
    started: str
    """UTC, ISO 8601"""
    shared_services: tuple[str, ...] = ()
    """Services whose one instance all runs shared: intervals hold for this instance."""
    looped: tuple[str, ...] = ()
    """Factors of `design.loop`: their levels were run in the same order in each pass."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The root. `answer` is the answer to the experiment's question in sentences."""

    experiment: ExperimentInfo
    answer: tuple[str, ...]
    runs: tuple[RunResult, ...]
    cells: tuple[CellResult, ...]
    saturation: tuple[Saturation, ...]
    effects: tuple[Effect, ...]
    models: tuple[Model, ...]
    verdicts: tuple[Verdict, ...]
    left_out: tuple[LeftOutPart, ...]
    rankings: tuple[Ranking, ...] = ()
    """One for each metric with a saturation whose combinations can be compared."""
    consistency: ConsistencyResult | None = None
    """None if no operation reads versions."""
    findings: tuple[Finding, ...] = ()
    """The sentences of `answer`, each with the verdict and the rule behind it."""
    rules: tuple[VerdictRule, ...] = ()
    """The rules that made the verdicts."""
    superseded: tuple[SupersededVerdict, ...] = ()
    """Verdicts of earlier analyses of these measurements that differ by newer rules."""
    notes: tuple[str, ...] = ()
    """Remarks about this analysis itself."""
    regressions: tuple[Regression, ...] = ()
    """Of each response, on the factors whose levels are at least three different numbers."""
    memory_growth: tuple[MemoryGrowth, ...] = ()
    """Of each service, over the runs with at least three numbers of testers."""
    charts: tuple[Chart, ...] = ()
    """Of `charts:` in the experiment file, then the main effects and interactions of the responses."""
    demands: tuple[CellDemand, ...] = ()
    """What a transaction costs each component, of each cell with a valid run, in the order of `cells`."""
    until: UntilTightResult | None = None
    """How far each cell came; None if the number of repetitions is fixed."""
    search: SearchResult | None = None
    """None without `search:`."""
    controls: tuple[RunResult, ...] = ()
    """Further runs of the old level of a paired design. No other figure includes them; `comparison` does."""
    comparison: object = None
    """The comparison of a paired design, a `plimsoll.compare.result.ComparisonResult`: None without `design.pair`, and
    as long as nothing can be compared."""
    fan_out: tuple[FanOut, ...] = ()
    """Of each service behind other services that count their requests, in the order of the topology."""
    pool: PoolResult | None = None
    """The network of the testers' hosts before and after the runs; None without `hosts: {baseline: true}`."""
    sufficient: tuple[SufficientLevel, ...] = ()
    """Of each factor with numbers, the lowest level that meets the rules of `capacity`; empty without rules."""
    session_waits: tuple[ExplainingWait, ...] = ()
    """At most one of each database."""
    format: str = FORMAT
