"""Results of one run: the figures of its windows, its testers, resources and services.

Parts of the tree in `results`, under the same rules for names and units.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from plimsoll.analyse.results.components.kernel import KernelFigures
from plimsoll.analyse.results.named import NamedMetric
from plimsoll.analyse.results.verdicts import (
    BinOutcome,
    ChangedSeries,
    OverloadVerdict,
    RampVerdict,
    ResourceKind,
    RuleId,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.quantiles import is_beyond


@dataclass(frozen=True, slots=True)
class Latency:
    """Distribution of a duration in milliseconds; a percentile is None if the sample is too small.

    `missing`: transactions of open loads that are known to take longer than any of `count` (never started, timed out,
    cut off). A percentile among them is also None, and so is the mean if they are more than 0.1 %.
    `bound`: a percentile among them is above this time, ms; None without missing transactions.
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
    min: float | None = None

    def is_beyond(self, q: float) -> bool:
        """Whether quantile q (0..1) is among the missing values: then only a lower bound, `bound`, is known."""
        return self.missing > 0 and is_beyond(q, self.count, self.missing)


@dataclass(frozen=True, slots=True)
class Cohort:
    """Outcomes of the transactions of open loads that were scheduled in a window: each counts in one field."""

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
        """Number of all transactions of the cohort."""
        return self.in_window + self.in_drain + self.failed + self.cut_off + self.never_started


@dataclass(frozen=True, slots=True)
class Overload:
    """Planned starts and completions in the second half of a window. `shortfall`: share of the planned starts that was
    not completed in the same time, with its 95 % interval `low` to `high`."""

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
    """Successful transactions with one code of their driver, such as the status of a response."""

    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """The figures of a window: counts, rates, times. The same for a run, a stage, a workload.

    Throughput, concurrency and counts are those of transactions that ended in the window. So are times and errors of
    closed loads. Times and errors of open loads are those of the transactions *scheduled* in the window, also if they
    ended later (`cohort`).
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
    """From batch means within the window."""
    successes_by_code: tuple[CodeCount, ...] = ()
    """Successful transactions with a code from the driver, the most frequent first."""
    cohort: Cohort | None = None
    """None: no load is open, or single transactions were not kept."""
    overload: Overload | None = None
    """None: no load is open, there are too few starts, or the load generator was too slow for the load."""
    first_byte_ms: Latency | None = None
    """From the start of a request to the first byte of its answer; None: the driver does not record it."""
    transfer_ms: Latency | None = None
    """From the first byte of the answer to its end."""
    throughput_sd: float | None = None
    """Standard deviation of the throughput over the whole seconds of the window; None: fewer than two."""
    throughput_min: float | None = None
    throughput_max: float | None = None
    """Of the throughput in the whole seconds of the window; None: there is none."""
    response_less_rtt_ms: Latency | None = None
    """Response time less the least round trip of the tester's connections to the endpoint, of the transactions whose
    round trip was measured. None: it was not measured, or it is short and no metric of the experiment file needs it."""


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
    Times and errors of open loads are those of the transactions scheduled in it."""

    start_s: float
    end_s: float
    load_low: float
    load_high: float
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class RampStep:
    """Part of a ramp of testers, in seconds from the start of the run: from `load_low` to `load_high` testers are
    active. `merged`: number of planned steps (with one number of testers each) in it."""

    start_s: float
    end_s: float
    load_low: int
    load_high: int
    merged: int
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class RampRule:
    """A rule of `thresholds:` or `capacity:` over the bins of a rising load."""

    metric: str
    test: str
    verdict: RampVerdict
    first: int | None
    """The bin (from 0) from which on the rule failed up to the highest load; `load_low`, `load_high`: the load of that
    bin."""
    load_low: float | None
    load_high: float | None
    """A constant load of `load_high` also fails the rule."""
    held_up_to: float | None
    """Highest load of the last bin before `first` in which the rule held. The result of a constant load of this size is
    not known."""
    outcomes: tuple[BinOutcome, ...]
    """The outcome by bin."""
    observed: tuple[float | None, ...]
    """The observed value by bin, in seconds, fractions, per second. None: no transaction ended, or the value is above
    all that ended."""
    rule: RuleId | None = None


@dataclass(frozen=True, slots=True)
class Ramp:
    """The figures of a run whose load changes by plan, by load. `unit`: planned starts per second (rate), or testers.
    `rising`: the first bin of the part in which the load rises, and the bin after the last; rules are judged there."""

    unit: Literal["rate", "testers"]
    bins: tuple[RampBin, ...]
    rising: tuple[int, int]
    rules: tuple[RampRule, ...]
    steps: tuple[RampStep, ...] = ()
    """The run by the number of active testers, in order of time. Only of a ramp of testers. Steps that are too short or
    have too few transactions are merged; rules are judged on `bins`."""


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """One workload of a run with several workloads."""

    workload: str
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class OperationResult:
    """One operation of a mix. Transactions that never started have none: the operation is drawn at the start."""

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
    """SITE/HOST/NUMBER. This field and the next ones are filled in only if there are several agents."""
    response_ms_p50: float | None = None
    response_ms_p95: float | None = None
    rtt_ms: float | None = None
    """Median round trip of its own connections (TCP_INFO)."""
    response_less_rtt_ms: float | None = None
    """Median response time less one round trip to the target."""


@dataclass(frozen=True, slots=True)
class FewTransactions:
    """The remark on a run whose closed testers ended fewer than ten transactions each in the window. `median`: over the
    `testers`; `needed_s`: length of a window in which it would be ten (None: it was 0)."""

    testers: int
    median: float
    needed_s: float | None


@dataclass(frozen=True, slots=True)
class Utilization:
    """Busy share of one component (host, a service, the testers) in the window, 0 to 1.

    `mean` and interval are those of the component's binding resource (`resource`: "cpu of the service's cores",
    "busiest thread", ...); `detail` contains every watched resource, by name.
    """

    component: str
    role: str
    """host, service, testers, link, emulator (of the links of a testbed), or cores. Services share these cores;
    `detail` has the share that each used."""
    resource: str
    mean: float
    low: float | None
    high: float | None
    detail: dict[str, float] = field(default_factory=dict)
    host: str = ""
    """The watched host, or the host on which the component runs; empty: the host of the lab."""
    kind: ResourceKind = ResourceKind.OTHER
    cores: int = 0
    """Number of cores of the resource; 0: none, or all of the host."""


@dataclass(frozen=True, slots=True)
class ComponentResources:
    """Resources that one component used in the window, as means. None: not measured for this component."""

    component: str
    host: str = ""
    """The watched host, or the host on which the component runs; empty: the host of the lab, or several hosts."""
    utilization: float | None = None
    """Busy share of its binding resource, 0 to 1."""
    cpu: float | None = None
    """Busy cores."""
    memory: float | None = None
    """Bytes; of a service the sum of the resident set sizes of its processes."""
    own_memory: float | None = None
    """Bytes of processes, each page counted once: the proportional set size; of a service with limits, anonymous and
    shared memory of its control group."""
    disk_read: float | None = None
    disk_write: float | None = None
    network_in: float | None = None
    network_out: float | None = None
    """Bytes per second."""
    kernel: KernelFigures | None = None
    """None: no monitor, or an older one."""
    memory_peak: float | None = None
    """Bytes: the largest reading of what `memory` is the mean of; None also of the testers of several hosts, and of
    readings of exporters."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a run: started = succeeded + failed + in_flight_at_end, exactly."""

    started: int
    succeeded: int
    failed: int
    in_flight_at_end: int
    dropped: int
    missed: int
    """Slots of `every` that were skipped because the previous transaction had not ended (`late: skip`)."""
    lost_records: int
    """Transactions without room in the recorder's queue; if there are any, the record of the run is damaged."""
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
class OutsideCpu:
    """A change of the CPU used by processes outside the experiment, at `at_s` seconds from the start of the run.
    `before`, `after`: shares of all cores of the host, 0..1. `host`: empty for the host of the lab."""

    host: str
    at_s: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class RunChange:
    """A change during a run that no plan of the load explains, from `at_s` seconds after the start of the run on.

    `before`, `after`: means from the previous change to this one and from this one to the next, in `unit`: requests/s,
    ms (mean response time) or cores. `ratio`: after / before - 1, None if `before` is 0. `p`: of the test of this
    change. `component`, `host`: of the CPU; the component is empty for the host itself, the host for that of the lab.
    """

    series: ChangedSeries
    component: str
    host: str
    at_s: float
    before: float
    after: float
    unit: str
    ratio: float | None
    p: float
    outside: tuple[OutsideCpu, ...] = ()
    """Of throughput and response time: changes of the CPU of other processes at the same time that can explain it."""
    rule: RuleId | None = None
    text: str = ""

    def with_outside(self, outside: tuple[OutsideCpu, ...]) -> RunChange:
        """The change with its explanation."""
        return replace(self, outside=outside)


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
class Statement:
    """One of the statements of a database with the greatest total time in a run, without its constants."""

    statement: str
    calls: int
    total_s: float
    mean_ms: float | None
    rows: int


@dataclass(frozen=True, slots=True)
class CountedService:
    """The counters of a service over the whole run, with warm-up and drain.

    `counters` (differences) and `gauges` (last values) have the names of the service; `derived`: figures computed from
    them, such as `hit_ratio`, None if the counters did not change.
    """

    name: str
    kind: str
    version: str
    derived: dict[str, float | None]
    counters: dict[str, float]
    gauges: dict[str, float]
    statements: tuple[Statement, ...] = ()
    means: dict[str, float] = field(default_factory=dict)
    """Of watched hosts and processes: means of the gauges over the readings."""
    peaks: dict[str, float] = field(default_factory=dict)
    """Of watched hosts and processes: greatest values of the gauges."""
    window: dict[str, float] = field(default_factory=dict)
    """Increases of the counters in the window, interpolated between readings; only of counters with readings before
    and after it."""
    window_gauges: dict[str, float] = field(default_factory=dict)
    """Means of the gauges over the readings in the window."""
    window_derived: dict[str, float | None] = field(default_factory=dict)
    """`derived` of the increases in the window."""


@dataclass(frozen=True, slots=True)
class SentAndReceived:
    """Bytes that a service sent in the whole run, by its own counter, and those of them that the testers received."""

    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class TierCounts:
    """The requests that a service counted in the whole run, and those that the tier before it sent.

    `before`: `testers`, or names of services; `through`: what is between and does not count. `sent`: without those that
    found no connection, with every repeated try. `unsure`: those of `sent` that may not have been counted: failed,
    timed out, cut off at the end, repeated, or answered by a cache between. `difference`: `counted` - `sent` if more
    were counted, `counted` - (`sent` - `unsure`) if fewer than that were, else 0; `share`: of `sent`, None if nothing
    was sent. `is_watched`: Plimsoll did not start the service, and other clients are no reason for a doubt.
    """

    service: str
    before: tuple[str, ...]
    through: tuple[str, ...]
    sent: int
    unsure: int
    counted: int
    difference: int
    share: float | None
    is_watched: bool
    bytes: SentAndReceived | None = None
    """None: the service counts no bytes, or not only testers receive them."""


@dataclass(frozen=True, slots=True)
class Readers:
    """The responses to the readers of a workload, or of all workloads: the reads that started in the window."""

    workload: str
    """Empty for all workloads."""
    answers: int
    """Successful reads with a known version of the response. All other fields count these reads only."""
    unjudged: int
    """Successful reads whose response contained no object or no version."""
    stale: int
    """Responses whose version had been superseded before the read began."""
    stale_share: Interval | None
    stale_age_ms: Latency
    """Of the stale responses: time from the acknowledgement of a newer version to the start of the read."""
    stale_age_ms_mean: float | None
    """Over all responses; a response that is not stale counts as 0."""
    reads_per_s: float
    """Successful reads that ended in the window."""
    hits: int
    revalidations: int
    fetches: int
    """Reads that the origin served: a cache missed, or there was no cache."""
    origin_share: float | None
    """Fetches / responses."""
    needless: int
    """Fetches whose version is that of the previous response for the same object."""
    needless_share: Interval | None
    """Needless / fetches."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """Ages of the versions that readers received, and the cost; `readers`: over all workloads."""

    readers: Readers
    workloads: tuple[Readers, ...]
    """Each workload that reads; empty if only one reads."""
    objects: int
    """Number of objects with a known response, over the whole run."""
    writes: int
    """Writes acknowledged in the window."""
    writes_failed: int
    """Writes that ended in the window without success; the target may have carried them out."""
    writes_unjudged: int
    """Writes acknowledged in the window without an object or a version: they make no response stale."""
    writes_per_s: float


@dataclass(frozen=True, slots=True)
class NameLookup:
    """One lookup of a host name during the preparation of the run; connections use its result."""

    agent: str
    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class Connections:
    """The TCP connections that testers opened in the whole run, including the warm-up, in which most persistent
    connections are opened."""

    opened: int
    connect_ms: Latency
    tls_handshake_ms: Latency
    lookups: tuple[NameLookup, ...] = ()


@dataclass(frozen=True, slots=True)
class FirstResult:
    """The first transaction of each connection, or of each tester, in the whole run, including the warm-up. `of`:
    connection, or tester."""

    of: str
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class WindowResult:
    """Figures of a run in a window other than the measured one, in seconds from the start of the run. The fields are
    those of the run."""

    start_s: float
    end_s: float
    traffic: Traffic
    jain_index: float | None
    share_cv: float | None
    components: tuple[ComponentResources, ...]
    services: tuple[CountedService, ...]
    metrics: tuple[NamedMetric, ...]
    staleness: Staleness | None
    connections: Connections | None
    workloads: tuple[WorkloadResult, ...] = ()
    operations: tuple[OperationResult, ...] = ()
    first: tuple[FirstResult, ...] = ()
    """Those of the first transactions of the whole run that belong to this window."""
    share_min: float | None = None
    share_max: float | None = None
