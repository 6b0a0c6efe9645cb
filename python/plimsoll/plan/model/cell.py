"""The resolved model: what one run does, with every default filled in and every reference followed.

Frozen dataclasses, which `resolve` creates. Durations are in nanoseconds, sizes in bytes, rates per second,
fractions from 0 to 1. A `Secret` is printed as ***. `stored` forms contain no value from the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.model.hosts import Hosts, WatchedHost
from plimsoll.plan.model.limits import NO_LIMITS, Limits
from plimsoll.plan.model.links import Link
from plimsoll.plan.model.session import Session
from plimsoll.plan.model.times import Distribution as Distribution
from plimsoll.plan.model.times import ExponentialTime as ExponentialTime
from plimsoll.plan.model.times import FixedTime as FixedTime
from plimsoll.plan.model.times import UniformTime as UniformTime
from plimsoll.plan.source.secret import Secret

Json = Any
"""Plain data: mappings with text keys, lists, scalars; a leaf may be a Secret."""


OPERATION: Final = "operation"
WORKLOAD: Final = "workload"
FIRST: Final = "first"
FIRST_OF_CONNECTION: Final = "connection"
FIRST_OF_TESTER: Final = "tester"
PARTS: Final = (OPERATION, WORKLOAD, FIRST)
"""Keys of `where:` of a rule in addition to factors: the parts of a run to which the rule is applied."""


MAX_OPERATIONS: Final = 100
"""The maximum number of operations of a workload with separate figures: a table of hundreds is not
readable."""


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """Each tester starts its next transaction a think time after the previous one has ended. `per_host`: number of
    testers on each host that runs the workload; `testers` is computed from it."""

    testers: int
    think: Distribution
    per_host: int | None = None


@dataclass(frozen=True, slots=True)
class PeriodicLoad:
    """Each tester has a slot every `every_ns`. `late`: what happens to a slot that a busy tester misses. `per_host`: as
    in `ClosedLoad`."""

    testers: int
    every_ns: int
    late: Literal["skip", "catch-up"]
    per_host: int | None = None


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """Starts at the times of an arrival process, independent of the target. At most `in_flight` transactions are in
    progress."""

    rate: float
    arrivals: Literal["poisson", "even"]
    in_flight: int
    when_full: Literal["wait", "drop"]


@dataclass(frozen=True, slots=True)
class SlotRule:
    """Each tester of a ramp or of stages has a slot every `every_ns` while it is active. `late`: as in
    `PeriodicLoad`."""

    every_ns: int
    late: Literal["skip", "catch-up"]


@dataclass(frozen=True, slots=True)
class RampLoad:
    """Closed testers that join one after the other, `every_ns` apart. Each runs for `life_ns` (None: until the end of
    the run), by its `slots`, or if they are None by its think time. `per_host`: as in `ClosedLoad`."""

    testers: int
    every_ns: int
    life_ns: int | None
    think: Distribution
    slots: SlotRule | None = None
    per_host: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a staged load: `testers`, or rates per second at its start and end, linear in between. `per_host`: as
    in `ClosedLoad`."""

    name: str
    for_ns: int
    testers: int | None
    rate: tuple[float, float] | None
    per_host: int | None = None


@dataclass(frozen=True, slots=True)
class StagedLoad:
    """Stages one after the other. `think`, `slots` and `life_ns` apply to stages with testers; `arrivals`, `in_flight`
    and `when_full` apply to stages with a rate. `life_ns`: how long a tester is active from the start of its first
    stage on (None: to the end of its last one)."""

    stages: tuple[Stage, ...]
    think: Distribution
    arrivals: Literal["poisson", "even"]
    in_flight: int
    when_full: Literal["wait", "drop"]
    slots: SlotRule | None = None
    life_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """Starts at the times of a log, `at_ns` after the start of the run. At most `in_flight` transactions are in
    progress."""

    at_ns: tuple[int, ...] = field(repr=False)
    in_flight: int
    when_full: Literal["wait", "drop"]


Load = ClosedLoad | PeriodicLoad | OpenLoad | RampLoad | RecordedLoad | StagedLoad


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address: a URL, or a service of the experiment, whose address is known only when it runs."""

    name: str
    url: str | Secret | None
    service: str | None


@dataclass(frozen=True, slots=True)
class Via:
    """A proxy that is a service of the experiment."""

    service: str


@dataclass(frozen=True, slots=True)
class WatchedExporter:
    """An exporter of metrics that is read during a run. `kind`: the exporter whose metric names are known ("other":
    only `metrics` are kept); `shown`: its URL as it may be stored; `host`: the host of the URL; `optional`: the run
    starts even if the exporter does not respond."""

    name: str
    kind: Literal["node", "squid", "other"]
    url: str
    shown: str
    host: str
    metrics: tuple[str, ...]
    every_ns: int
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True, slots=True)
class WatchedDatabase:
    """A database server that is read during a run. `database`: name of the database (empty: none); `password` of the
    user in the URL, unless the URL contains it; `tls`: the settings of TLS (None: no TLS); the other fields are as in
    `WatchedExporter`."""

    name: str
    kind: Literal["postgres", "mariadb"]
    url: str | Secret
    shown: str
    host: str
    database: str
    every_ns: int
    password: Secret | None = None
    tls: Mapping[str, Json] | None = field(default=None, hash=False)
    optional: bool = False


@dataclass(frozen=True, slots=True)
class WatchedGroup:
    """A control group of this host, or that of a container of Docker or Podman. `group`: its path below the root of
    the hierarchies (empty: `container` is the name of the container)."""

    name: str
    group: str
    container: str
    every_ns: int
    optional: bool = False
    kind: Literal["cgroup"] = "cgroup"
    host: str = "localhost"

    @property
    def shown(self) -> str:
        """What it is, for messages."""
        return f"container {self.container}" if self.container else f"cgroup {self.group}"


EMULATOR: Final = "link emulator"
"""Component: the process that forwards the packets of a testbed. It has one busy thread."""


@dataclass(frozen=True, slots=True)
class WatchedLinks:
    """The links of the testbed of the testers, which count what passes them, and the process that emulates them.
    `ends`: name and both sites of each link."""

    ends: tuple[tuple[str, str, str], ...]
    every_ns: int = 200_000_000
    """Short: the interval in which the load ends lowers the utilization of a short run."""
    optional: bool = True
    name: str = "testbed.links"
    kind: Literal["testbed"] = "testbed"
    host: str = "localhost"
    shown: str = "the links of the testbed"


WatchedSystem = WatchedExporter | WatchedDatabase | WatchedGroup | WatchedLinks
"""A system whose counters the lab reads."""


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoints of the requests, the HTTP proxies in front of them, and the watched systems and hosts."""

    name: str
    endpoints: tuple[Endpoint, ...]
    choose: Literal["per-request", "per-tester"] = "per-request"
    order: Literal["round-robin", "random"] = "round-robin"
    proxies: tuple[str | Secret | Via, ...] = ()
    watch: tuple[WatchedSystem, ...] = ()
    hosts: tuple[WatchedHost, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of request; its share is weight / sum of the weights. `request`: the driver's keys for it; `first`: the
    number of these requests with which each tester begins, before it selects by weight."""

    name: str
    weight: float
    request: Mapping[str, Json]
    first: int = 0


@dataclass(frozen=True, slots=True)
class OnError:
    """What a tester does after a failure. `first_ns`, `max_ns` and `when` apply to backoff, `after` (consecutive
    failures) to stop-tester."""

    kind: Literal["continue", "backoff", "stop-tester"] = "continue"
    first_ns: int = 0
    max_ns: int = 0
    when: Literal["failed", "refused"] = "failed"
    after: int = 0


@dataclass(frozen=True, slots=True)
class Generator:
    """The source of the values of a `{name}`. `low`, `high`: of uniform, both included; `n`, `s`: ranks and exponent of
    zipf; `items`: of list, weighted and recorded; `sequence`: indexes of `items` in their recorded order."""

    kind: Literal["uniform", "zipf", "list", "weighted", "recorded"]
    low: int = 0
    high: int = 0
    n: int = 0
    s: float = 0.0
    items: tuple[str, ...] = field(default=(), repr=False)
    order: Literal["round-robin", "random"] = "round-robin"
    weights: tuple[float, ...] = field(default=(), repr=False)
    sequence: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Workload:
    """One population of testers. `remarks`, `warnings`: what `plan` prints about it; `sites`: the sites whose agents
    run it (empty: all); `session`: None if the testers carry out single transactions."""

    name: str
    driver: str
    target: Target
    timeout_ns: int
    on_error: OnError
    settings: Mapping[str, Json]
    operations: tuple[Operation, ...]
    values: Mapping[str, Generator]
    load: Load
    remarks: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    session: Session | None = None


DatabaseKind = Literal["sqlite", "postgres", "mariadb"]
"""Kinds of services that store tables."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that the lab starts. `needs`: services that must run before it; `settings`: the keys of its kind;
    `scheme`: of its URL; `database_kind`: None if it stores no tables; `starts_process`: False if it is a file.
    `host`: name of the host on which it runs (None: that of the lab); `address`: at which clients reach it, if the file
    states it; `limits`: of all its processes together; `perf`: whether call stacks are sampled during the runs."""

    name: str
    kind: str
    fresh: Literal["experiment", "cell", "run"]
    cpus: tuple[int, ...] | None
    ready_timeout_ns: int
    needs: tuple[str, ...]
    settings: Mapping[str, Json]
    scheme: str
    database_kind: DatabaseKind | None
    starts_process: bool
    host: str | None = None
    address: str | None = None
    limits: Limits = NO_LIMITS
    perf: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """A data set that is written into a service before the runs: a table, or several related tables. `settings`: the
    settings that the engine reads; for kind `sql` the absolute path `file`, and the name `shown` of the experiment
    file. `bytes`: estimated size."""

    name: str
    into: str
    kind: Literal["table", "cool", "conddb", "catalogue", "sql"]
    settings: Mapping[str, Json]
    bytes: int


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Binding to cores: auto (`pinning` selects them on the machine), none, or set (these cores)."""

    mode: Literal["auto", "none", "set"]
    testers: tuple[int, ...] = ()
    services: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Length and end of a run. `end_ns`: warm-up and measured window together (None: only counts end the
    run)."""

    warmup_ns: int
    end_ns: int | None
    each_tester: int | None
    transactions: int | None
    drain_ns: int
    pause_ns: int
    keep: Literal["all", "summaries"]
    spin_ns: int


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A rule that stops a run once it has held for `for_ns`."""

    metric: str
    rule: Rule
    text: str
    for_ns: int


HookHosts = Literal["controller", "hosts", "all"] | tuple[str, ...]
"""Where a command runs."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A command before or after a run. `on`: this host, every host with testers or services of the run, both, or the
    hosts of these names."""

    argv: tuple[str | Secret, ...]
    on: HookHosts
    needs_root: bool
    timeout_ns: int

    @property
    def where(self) -> str:
        """The other hosts on which it runs, as text; empty: none."""
        if not isinstance(self.on, str):
            return f"on {', '.join(self.on)}"
        return {"hosts": "on every host", "all": "here and on every host"}.get(self.on, "")

    @property
    def shown(self) -> str:
        """The command as one text, with secrets hidden."""
        return " ".join(str(part) for part in self.argv)


@dataclass(frozen=True, slots=True)
class Action:
    """An action during a run, `at_ns` after its zero. `label`: as in charts ("kill db"); `service`: on whose processes
    it acts (empty: none); `for_ns`: its duration (0: an instant); `hook`: the command of kind `run`; `link`: a link as
    it is during the action, and `link_before`: as it is without it."""

    kind: str
    label: str
    at_ns: int
    service: str = ""
    for_ns: int = 0
    hook: Hook | None = None
    link: Link | None = None
    link_before: Link | None = None

    @property
    def subject(self) -> str:
        """The service or link on which it acts; empty if there is none."""
        return self.service or (f"link {self.link.name}" if self.link is not None else "")

    @property
    def end_ns(self) -> int:
        """Its planned end, ns from the run's zero."""
        return self.at_ns + self.for_ns


@dataclass(frozen=True, slots=True)
class Config:
    """The complete configuration of one cell of the design."""

    services: tuple[Service, ...]
    data: tuple[Data, ...]
    workloads: tuple[Workload, ...]
    run: RunSettings
    cpus: CpuPlan
    ceiling: tuple[Ceiling, ...]
    before_run: tuple[Hook, ...]
    after_run: tuple[Hook, ...]
    hosts: Hosts = field(default_factory=Hosts)
    actions: tuple[Action, ...] = ()
    """In order of time."""
    service_hosts: Hosts | None = None
    """The hosts on which services are placed; None: all run on the host of the lab."""

    @property
    def local_services(self) -> tuple[Service, ...]:
        """The services that run on the host of the lab."""
        return tuple(service for service in self.services if service.host is None)

    def service(self, name: str) -> Service:
        """The service of that name. Raises KeyError."""
        for service in self.services:
            if service.name == name:
                return service
        raise KeyError(name)

    @property
    def watched(self) -> tuple[WatchedSystem, ...]:
        """Watched systems of its targets, each once."""
        return tuple(
            {system.name: system for work in self.workloads for system in work.target.watch}.values()
        )

    @property
    def watched_links(self) -> tuple[WatchedLinks, ...]:
        """The links of the testbed of the testers. One without links emulates its sites."""
        if self.hosts.testbed is None:
            return ()
        return (WatchedLinks(tuple((link.name, link.first, link.second) for link in self.hosts.links)),)

    @property
    def watched_hosts(self) -> tuple[WatchedHost, ...]:
        """Watched hosts of its targets, each once."""
        return tuple({host.host.name: host for work in self.workloads for host in work.target.hosts}.values())


def hosts_to_reach(configs: Iterable[Config]) -> list[Hosts]:
    """The hosts of testers and of services of these configurations, each once."""
    found: dict[Hosts, None] = {}
    for config in configs:
        found[config.hosts] = None
        if config.service_hosts is not None:
            found[config.service_hosts] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class Response:
    """A response for which effects are computed."""

    metric: str
    scale: Literal["linear", "log"]


ChartAxis = Literal["factor", "metric"]
"""What the x axis of a chart shows."""


@dataclass(frozen=True, slots=True)
class ChartRequest:
    """A chart of the experiment file: the metrics `y` over `x`, which is a factor or a metric. `by`: the factors whose
    levels have a colour each (None: all factors that are not on the x axis); figures are means over the other
    factors."""

    x: str
    x_is: ChartAxis
    y: tuple[str, ...]
    by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class UntilTight:
    """Repetitions until the half width of the interval of each metric is at most this share of its estimate.
    `at_least`, `at_most`: repetitions."""

    widths: Mapping[str, float]
    at_least: int
    at_most: int


@dataclass(frozen=True, slots=True)
class Pair:
    """The comparison that an experiment carries out: the levels `old` and `new` of a factor. `control`: the old level
    has a second run in each block. `drift`: metrics that the change cannot affect."""

    factor: str
    old: str
    new: str
    control: bool = False
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Threshold:
    """A rule that is checked for each cell that `where` selects (factor: labels; empty: every cell), on all
    transactions or on those of each of the `parts`."""

    metric: str
    rule: Rule
    text: str
    where: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of operations and workloads, by the keys in PARTS."""

    def applies(self, cell: Mapping[str, str]) -> bool:
        """Whether the rule is checked in this cell. A nested factor that is absent matches no label."""
        return all(cell.get(factor) in labels for factor, labels in self.where.items())


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """The rules of usable (`response` and `usable`) and error-limited (`errors`) capacity; without rules a capacity is
    not computed. The texts are as written."""

    response: Rule | None = None
    errors: Rule | None = None
    response_text: str = ""
    errors_text: str = ""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The operation and the workload to which `response` and `errors` apply; empty: all transactions."""
    usable: tuple[Threshold, ...] = ()
    """Further rules of the usable capacity, each on all transactions or on one part."""

    @property
    def of_usable(self) -> tuple[tuple[Rule, Mapping[str, tuple[str, ...]]], ...]:
        """Every rule of the usable capacity, with the part to which it applies."""
        own = () if self.response is None else ((self.response, self.parts),)
        return (*own, *((threshold.rule, threshold.parts) for threshold in self.usable))


@dataclass(frozen=True, slots=True)
class Validity:
    """When a run is invalid because the load generator was the bottleneck."""

    tester_cpu: float = 0.98
    started: float = 0.99
    lateness_share: float = 0.1
    lateness_floor_ns: int = 1_000_000
    gaps: float = 0.01
    steal: float = 0.05
    requests: float = 0.01
    success: bool = True
    trend: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels.

    `labels`: factor to label, without nested factors that are absent; `values`: factor to number, if the level is
    a number (seconds, bytes, per second, fractions); `stored`: the effective file of this cell as plain data, with
    defaults, without secrets or values from the environment; `secrets`: values that must not be stored or shown.
    """

    labels: Mapping[str, str]
    values: Mapping[str, float]
    config: Config
    stored: Mapping[str, Json] = field(repr=False)
    secrets: frozenset[str] = field(repr=False, default=frozenset())
