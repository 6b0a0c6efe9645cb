"""The resolved model: what one run does, with every default filled in and every reference followed.

Frozen dataclasses, made once by `resolve` and compared, never changed. Durations are nanoseconds, sizes
bytes, rates per second, fractions 0 to 1. A `Secret` shows as ***; `stored` forms hold no value that came
from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.model_hosts import Hosts, WatchedHost
from plimsoll.plan.source.secret import Secret

Json = Any
"""Plain data: mappings with text keys, lists, scalars; a leaf may be a Secret."""


OPERATION: Final = "operation"
WORKLOAD: Final = "workload"
PARTS: Final = (OPERATION, WORKLOAD)
"""Words that `where:` of a rule knows beside factors: the parts of a run that a rule is judged on."""


MAX_OPERATIONS: Final = 100
"""The maximum number of operations of a workload with separate figures: a table of hundreds is not
readable."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `ns`."""

    ns: int


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential with this mean."""

    mean_ns: int


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform between the two."""

    from_ns: int
    to_ns: int


Distribution = Fixed | Exponential | Uniform


@dataclass(frozen=True, slots=True)
class Closed:
    """Each tester starts its next transaction a think time after the last has ended. `per_host`: so many on each host
    that carries the workload, which `testers` follows from."""

    testers: int
    think: Distribution
    per_host: int | None = None


@dataclass(frozen=True, slots=True)
class Every:
    """Each tester has a slot every `every_ns`. `per_host`: as of Closed."""

    testers: int
    every_ns: int
    late: Literal["skip", "catch-up"]
    per_host: int | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Starts by an arrival law, whatever the target does; at most `in_flight` in progress."""

    rate: float
    arrivals: Literal["poisson", "even"]
    in_flight: int
    when_full: Literal["wait", "drop"]


@dataclass(frozen=True, slots=True)
class Ramp:
    """Closed testers that join one after the other, `every_ns` apart; each stays for `life_ns` (None: to the
    end)."""

    testers: int
    every_ns: int
    life_ns: int | None
    think: Distribution


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a staged load: `testers`, or rates per second at its start and end, linear in between."""

    name: str
    for_ns: int
    testers: int | None
    rate: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Staged:
    """Parts one after the other; think time of the closed ones, law and slots of the open ones."""

    stages: tuple[Stage, ...]
    think: Distribution
    arrivals: Literal["poisson", "even"]
    in_flight: int
    when_full: Literal["wait", "drop"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Starts at the times of a log, `at_ns` since the start of the run; at most `in_flight` in progress."""

    at_ns: tuple[int, ...] = field(repr=False)
    in_flight: int
    when_full: Literal["wait", "drop"]


Load = Closed | Every | Open | Ramp | Recorded | Staged


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address: a URL, or a service of the experiment whose address is known once it runs."""

    name: str
    url: str | Secret | None
    service: str | None


@dataclass(frozen=True, slots=True)
class Via:
    """A proxy that is a service of the experiment."""

    service: str


@dataclass(frozen=True, slots=True)
class Watched:
    """An exporter of metrics that is read while a run goes on. `kind`: whose names it has, of others only `metrics` are
    kept; `shown`: its URL as it may be stored; `host`: of the URL; `optional`: it may be missing."""

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
class Target:
    """Where requests go, over which HTTP proxies, and what is watched of it: exporters, hosts."""

    name: str
    endpoints: tuple[Endpoint, ...]
    choose: Literal["per-request", "per-tester"] = "per-request"
    order: Literal["round-robin", "random"] = "round-robin"
    proxies: tuple[str | Secret | Via, ...] = ()
    watch: tuple[Watched, ...] = ()
    hosts: tuple[WatchedHost, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of request; its share is weight / sum of the weights. `request`: the driver's keys for it; `first`: each
    tester begins with so many of them, before it chooses by weight."""

    name: str
    weight: float
    request: Mapping[str, Json]
    first: int = 0


@dataclass(frozen=True, slots=True)
class OnError:
    """What a tester does after a failure. `first_ns`, `max_ns` and `when` of backoff, `after` of stop-tester."""

    kind: Literal["continue", "backoff", "stop-tester"] = "continue"
    first_ns: int = 0
    max_ns: int = 0
    when: Literal["failed", "refused"] = "failed"
    after: int = 0


@dataclass(frozen=True, slots=True)
class Generator:
    """The source of the values of a `{name}`: exactly one of uniform, zipf, list, file."""

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
    """One population of testers. `remarks`, `warnings`: what `plan` says of it; `sites`: whose agents alone carry it,
    none: all."""

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


DatabaseKind = Literal["sqlite", "postgres", "mariadb"]
"""Kinds of services that store tables."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that the lab starts. `needs`: services that it talks to; `settings`: the keys of its kind; `scheme`: of
    its URL; `database_kind`: None if it stores no tables; `starts_process`: False for a file."""

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


@dataclass(frozen=True, slots=True)
class Data:
    """A data set that is written into a service before the runs: a table, or several that belong together. `settings`:
    as the engine takes them; of `sql` the absolute name of the `file`, and as it is `shown`. `bytes`: about so many
    will be written."""

    name: str
    into: str
    kind: Literal["table", "cool", "sql"]
    settings: Mapping[str, Json]
    bytes: int


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Binding to cores: auto (decided by `pinning` on the machine), none, or set (these cores)."""

    mode: Literal["auto", "none", "set"]
    testers: tuple[int, ...] = ()
    services: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Length and end of a run. `end_ns`: warm-up and measured window together, None where only counts end
    it."""

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


@dataclass(frozen=True, slots=True)
class Hook:
    """A command before or after a run. `on`: this host, every host that carries testers of the run, or both."""

    argv: tuple[str | Secret, ...]
    on: Literal["controller", "hosts", "all"]
    needs_root: bool
    timeout_ns: int

    @property
    def shown(self) -> str:
        """For people; secrets are hidden."""
        return " ".join(str(part) for part in self.argv)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that one cell of the design does."""

    services: tuple[Service, ...]
    data: tuple[Data, ...]
    workloads: tuple[Workload, ...]
    run: RunSettings
    cpus: CpuPlan
    ceiling: tuple[Ceiling, ...]
    before_run: tuple[Hook, ...]
    after_run: tuple[Hook, ...]
    hosts: Hosts = field(default_factory=Hosts)

    def service(self, name: str) -> Service:
        """The service of that name. Raises KeyError."""
        for service in self.services:
            if service.name == name:
                return service
        raise KeyError(name)

    @property
    def watched(self) -> tuple[Watched, ...]:
        """What is watched of its targets, each once."""
        return tuple({one.name: one for work in self.workloads for one in work.target.watch}.values())

    @property
    def watched_hosts(self) -> tuple[WatchedHost, ...]:
        """Hosts of its targets at which agents look, each once."""
        return tuple({one.host.name: one for work in self.workloads for one in work.target.hosts}.values())


@dataclass(frozen=True, slots=True)
class Response:
    """A response for which effects are computed."""

    metric: str
    scale: Literal["linear", "log"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A rule judged for each cell that `where` names (factor: labels; empty: every cell), on all transactions or on
    those of each of the `parts`."""

    metric: str
    rule: Rule
    text: str
    where: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names by PARTS: operations, workloads."""

    def applies(self, cell: Mapping[str, str]) -> bool:
        """Whether it is judged in this cell. A nested factor that is absent matches nothing."""
        return all(cell.get(factor) in labels for factor, labels in self.where.items())


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """What usable (`response`) and error-limited (`errors`) capacity mean; None: not asked for. Texts as
    written."""

    response: Rule | None = None
    errors: Rule | None = None
    response_text: str = ""
    errors_text: str = ""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The operation, the workload, that the rules are about; empty: all transactions."""


@dataclass(frozen=True, slots=True)
class Validity:
    """When a run is invalid because the load generator was the bottleneck."""

    tester_cpu: float = 0.98
    started: float = 0.99
    lateness_share: float = 0.1
    lateness_floor_ns: int = 1_000_000
    gaps: float = 0.01
    steal: float = 0.05
    success: bool = True
    trend: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels.

    `labels`: factor to label, without nested factors that are absent; `values`: factor to number, where the
    level is one (seconds, bytes, per second, fractions); `stored`: the effective file of this cell as plain
    data, with defaults, without secrets or values from the environment; `secrets`: what must never be seen.
    """

    labels: Mapping[str, str]
    values: Mapping[str, float]
    config: Config
    stored: Mapping[str, Json] = field(repr=False)
    secrets: frozenset[str] = field(repr=False, default=frozenset())
