"""Results of one run: the figures of its windows, its testers, resources and services.

Parts of the tree in `results`, whose rules for names and units hold here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from plimsoll.analyse.results.verdicts import BinOutcome, OverloadVerdict, RampVerdict, ResourceKind, RuleId
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.quantiles import is_beyond


@dataclass(frozen=True, slots=True)
class Latency:
    """Distribution of a duration in milliseconds; a percentile is None where the sample is too small.

    `missing`: transactions of open loads that are known to take longer than any of `count` (never started, timed out,
    cut off). A percentile among them is None, too, and so is the mean if they are more than 0.1 %.
    `bound`: a percentile among them is above this time, ms; None without missing ones.
    """

    count: int
    mean: float | None
    sd: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None
    mean_interval: Interval | None = None
    effective_samples: float | None = None
    missing: int = 0
    bound: float | None = None

    def is_beyond(self, q: float) -> bool:
        """Whether quantile q (0..1) is among the missing values: then only a lower bound, `bound`, is known."""
        return self.missing > 0 and is_beyond(q, self.count, self.missing)


@dataclass(frozen=True, slots=True)
class Cohort:
    """What became of the transactions of open loads that were scheduled in a window: each is one of these."""

    in_window: int
    """Succeeded, and ended in the window."""
    in_drain: int
    """Succeeded, and ended after it."""
    failed: int
    cut_off: int
    """Still in progress when the run ended, or when the agent was lost."""
    never_started: int
    """No slot was free: dropped on request, or still waiting when the run ended."""

    @property
    def scheduled(self) -> int:
        """All of them."""
        return self.in_window + self.in_drain + self.failed + self.cut_off + self.never_started


@dataclass(frozen=True, slots=True)
class Overload:
    """Planned starts against completions in the second half of a window. `shortfall`: share of the planned starts that
    was not completed in the same time, with its 95 % interval."""

    verdict: OverloadVerdict
    planned_per_s: float
    completed_per_s: float
    shortfall: float
    low: float
    high: float
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Failed transactions of one kind: outcome (wrong, error, timeout, refused, cancelled) and code."""

    outcome: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class CodeCount:
    """Successful transactions with one code of their driver, such as the status of an answer."""

    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was done in a window: counts, rates, times. The same for a run, a stage, a workload.

    Throughput, concurrency and what ended are of the window. Times and errors are, too, for closed loads; those of open
    loads are of the transactions *scheduled* in the window, whenever they ended (`cohort`).
    """

    window_s: float
    transactions: int
    """Successful transactions that ended in the window."""
    errors: int
    error_rate: float | None
    errors_by_kind: tuple[ErrorCount, ...]
    throughput_per_s: float
    items_per_s: float
    payload_bytes_per_s: float
    wire_bytes_per_s: float
    offered_per_s: float
    concurrency: float
    response_ms: Latency
    request_ms: Latency
    lateness_ms: Latency
    throughput_interval: Interval | None = None
    """By batch means within the window."""
    successes_by_code: tuple[CodeCount, ...] = ()
    """Successful transactions with a code from the driver, the most frequent first."""
    cohort: Cohort | None = None
    """None: no load is open, or single transactions were not kept."""
    overload: Overload | None = None
    """None: no load is open, too few starts, or the load generator was not able to make the load."""


@dataclass(frozen=True, slots=True)
class CacheTimes:
    """Successful transactions of the window with the same report from caches. `share`: of all of them, 0..1."""

    cache: str
    """hit, miss, revalidated; none: a cache reported nothing, but others did."""
    share: float
    response_ms: Latency


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage of a staged load; `start_s` and `end_s` count from the start of the run."""

    stage: int
    name: str
    start_s: float
    end_s: float
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class RampBin:
    """Part of a run whose load changes, in seconds from its start; `load_low` to `load_high`: the planned load in it.
    Of open loads, times and errors are of what was scheduled in it."""

    start_s: float
    end_s: float
    load_low: float
    load_high: float
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class RampRule:
    """A rule of `thresholds:` or `capacity:` over the bins of a rising load."""

    metric: str
    test: str
    verdict: RampVerdict
    first: int | None
    """The bin (from 0) from which on it failed up to the highest load, and"""
    load_low: float | None
    load_high: float | None
    """the load of that bin. A constant load of `load_high` fails the rule, too."""
    held_up_to: float | None
    """Highest load of the last bin before it in which the rule held; what a constant load does is not known."""
    outcomes: tuple[BinOutcome, ...]
    """By bin."""
    observed: tuple[float | None, ...]
    """By bin, in seconds, fractions, per second. None: nothing ended, or the value is above all that did."""
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class Ramp:
    """A run of a load that changes by plan, by load. `unit`: planned starts per second (rate), or testers. `rising`:
    first bin and the one after the last in which the load rises; rules are judged there."""

    unit: Literal["rate", "testers"]
    bins: tuple[RampBin, ...]
    rising: tuple[int, int]
    rules: tuple[RampRule, ...]


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """One population of a run with several."""

    workload: str
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class OperationResult:
    """One operation of a mix. What never started belongs to none: it is drawn when a transaction starts."""

    workload: str
    operation: str
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class TesterResult:
    """Work done by one tester in the window. `share` 1 is fair (glossary: share)."""

    agent: str
    tester: int
    transactions: int
    errors: int
    throughput_per_s: float
    response_ms_mean: float | None
    share: float | None
    name: str = ""
    """SITE/HOST/NUMBER, and what follows: where there are several agents."""
    response_ms_p50: float | None = None
    response_ms_p95: float | None = None
    rtt_ms: float | None = None
    """Median round trip of its own connections (TCP_INFO)."""
    response_less_rtt_ms: float | None = None
    """Median response time less one round trip to the target."""


@dataclass(frozen=True, slots=True)
class Utilization:
    """Busy share of one component (host, a service, the testers) in the window, 0 to 1.

    `mean` and interval are those of the component's binding resource (`resource`: "cpu of the service's cores",
    "busiest thread", ...); `detail` contains every watched resource, by name.
    """

    component: str
    role: str
    """host, service, testers, or cores. Services share these cores; `detail` has the share that each used."""
    resource: str
    mean: float
    low: float | None
    high: float | None
    detail: dict[str, float] = field(default_factory=dict)
    host: str = ""
    """The watched host that it is, or runs on; empty: the host of the lab."""
    kind: ResourceKind = ResourceKind.OTHER
    cores: int = 0
    """Those that the resource is of; 0: of no cores, or of all of the host."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The books of a run: started = succeeded + failed + in_flight_at_end, to the last one."""

    started: int
    succeeded: int
    failed: int
    in_flight_at_end: int
    dropped: int
    missed: int
    """Slots of `every` that were skipped because the previous transaction had not ended (`late: skip`)."""
    lost_records: int
    """Transactions that the recorder had no room for; any makes the run damaged."""
    balanced: bool


@dataclass(frozen=True, slots=True)
class Series:
    """Time series of a run for charts; one value per quantum, all lists of equal length."""

    quantum_s: float
    t_s: tuple[float, ...]
    throughput_per_s: tuple[float, ...]
    errors_per_s: tuple[float, ...]
    concurrency: tuple[float, ...]
    offered_per_s: tuple[float, ...]
    active_testers: tuple[float, ...]
    response_ms_mean: tuple[float | None, ...]
    response_ms_p50: tuple[float | None, ...]
    response_ms_p95: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Ecdf:
    """Points of the empirical distribution of the response time: `share` of transactions at or below `ms`."""

    ms: tuple[float, ...]
    share: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak window (glossary) in seconds from the start of the run, with its throughput."""

    start_s: float
    end_s: float
    active_testers: float
    throughput_per_s: float


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """A metric that a driver measured of its transactions, in its own unit (`_s` seconds, `_bytes` bytes)."""

    name: str
    count: int
    mean: float
    sd: float | None
    p50: float | None
    p95: float | None
    max: float


@dataclass(frozen=True, slots=True)
class Statement:
    """One of the slowest statements of a database in a run, by their total time. Constants are taken out."""

    statement: str
    calls: int
    total_s: float
    mean_ms: float | None
    rows: int


@dataclass(frozen=True, slots=True)
class CountedService:
    """The counters of a service over the whole run, with warm-up and drain.

    `counters` (differences) and `gauges` (last values) have the names of the service; `derived`: figures computed from
    them, such as `hit_ratio`, None where nothing was counted.
    """

    name: str
    kind: str
    version: str
    derived: dict[str, float | None]
    counters: dict[str, float]
    gauges: dict[str, float]
    statements: tuple[Statement, ...] = ()
    means: dict[str, float] = field(default_factory=dict)
    """Of what was watched: means of the gauges over its readings, and"""
    peaks: dict[str, float] = field(default_factory=dict)
    """their greatest values."""


@dataclass(frozen=True, slots=True)
class Readers:
    """What the readers of a workload, or of all of them, were answered: the reads that started in the window."""

    workload: str
    """Empty: of all."""
    answers: int
    """Successful reads with a known version of the answer. All other fields count these reads only."""
    unjudged: int
    """Successful reads whose answer contained no object or no version."""
    stale: int
    """Answers whose version had been superseded before the read began."""
    stale_share: Interval | None
    stale_age_ms: Latency
    """Of the stale answers: how long before the read began their version had been superseded."""
    stale_age_ms_mean: float | None
    """Over all answers; one that is not stale counts as 0."""
    reads_per_s: float
    """Successful reads that ended in the window."""
    hits: int
    revalidations: int
    fetches: int
    """Reads that reached the origin for their data: a cache missed, or none stood between."""
    origin_share: float | None
    """Fetches / answers."""
    needless: int
    """Fetches whose version is that of the previous answer for the same object."""
    needless_share: Interval | None
    """Needless / fetches."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """How old the versions were that readers got, and what it took to have them so; `readers`: all of them."""

    readers: Readers
    workloads: tuple[Readers, ...]
    """Each that reads, where there are several."""
    objects: int
    """Objects with a known answer, over the whole run."""
    writes: int
    """Acknowledged in the window."""
    writes_failed: int
    """Ended in the window without success; they may have been done all the same."""
    writes_unjudged: int
    """Acknowledged in the window, but telling no object or no version: they make no answer stale."""
    writes_per_s: float


@dataclass(frozen=True, slots=True)
class NameLookup:
    """One lookup of a host name, when the run was prepared: connections use its result."""

    agent: str
    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class Connections:
    """The TCP connections that testers opened in the whole run, warm-up included: most kept ones are opened there."""

    opened: int
    connect_ms: Latency
    tls_handshake_ms: Latency
    lookups: tuple[NameLookup, ...] = ()
