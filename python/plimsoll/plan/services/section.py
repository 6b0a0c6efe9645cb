"""What a kind of services states about itself: its section of `services:`, and how this section is resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, get_args

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.limits import LimitsRaw
from plimsoll.plan.model.cell import DatabaseKind, Service
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Cores, Duration, PlainText, Raw
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.units import NS

Fresh = Literal["experiment", "cell", "run"]
COMMON_KEYS: Final = frozenset(
    {
        *("kind", "fresh", "cpus", "ready_timeout", "host", "site", "address", "instances", "limits", "perf"),
        "enabled",
    }
)
"""Keys of every section. The other keys are the settings of the kind."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses that a service of Plimsoll is started with. `urls`: of the running services, by name; `caches`: HTTP
    URLs, by name, at which caches will listen that are started later."""

    urls: Mapping[str, Sequence[str]]
    caches: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServiceAdditions:
    """What a kind adds to a service. `needs`: services that must run before it; `settings`: replace the values of the
    file; `fresh`: replaces that of the file."""

    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fresh: Fresh | None = None


@dataclass(frozen=True, slots=True)
class FollowedDatabase:
    """A database whose changes a service detects. `name`: a service or a URL; `decodes`: by logical decoding of its
    write-ahead log."""

    name: str
    decodes: bool


@dataclass(frozen=True, slots=True)
class SentBytes:
    """A counter of the bytes that a service sends to its clients, in units of `unit` bytes. `column`: the column of the
    transactions with the same bytes."""

    counter: str
    unit: int
    column: Literal["payload", "received"]


@dataclass(frozen=True, slots=True)
class ReceivedBytes:
    """A counter of the bytes that a service receives from its clients, in units of `unit` bytes."""

    counter: str
    unit: int


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """The workers of a service, such as threads. Each worker serves one request or connection at a time.

    `worker`, `waiter`: nouns for a worker and for what waits for one. `in_use`: gauge of the workers in use. `limit`:
    gauge, or key of the section, with the number of workers. `waiting`: gauge of the waiting requests or connections;
    None: there is none, and `in_use` may include them. `readers`: number of workers that serve the reading itself,
    which the stored `in_use` does not include."""

    worker: str
    waiter: str
    in_use: str
    limit: str
    waiting: str | None = None
    readers: int = 0


class ServiceSection(Raw):
    """The keys of every service. A kind is a subclass with a field `kind`, which defines the class variables and
    methods below where the defaults do not apply. `host`: the host on which the service runs; `site`: its first host
    without testers is that host; `address`: at which clients reach the service; `limits`: of all its processes;
    `perf`: whether call stacks are sampled; `enabled`: whether the service is started, so that cells can have different
    services."""

    fresh: Fresh = "experiment"
    cpus: Cores | None = None
    ready_timeout: Duration = 30 * NS["s"]
    host: PlainText | None = None
    site: PlainText | None = None
    address: PlainText | None = None
    limits: LimitsRaw = Field(default_factory=LimitsRaw)
    perf: bool = False
    enabled: bool = True

    database_kind: ClassVar[DatabaseKind | None] = None
    """The database that the service is. None: it stores no tables."""
    starts_process: ClassVar[bool] = True
    """False: the service is a file."""
    start_ns: ClassVar[int] = 300 * NS["ms"]
    """Assumed time to stop the service and to start it again, ns: `plan` prints the sum."""
    runs_in_engine: ClassVar[bool] = False
    """True: `plimsoll-engine serve KIND` is the service, with the JSON of `engine_config`."""
    serves_counters: ClassVar[bool] = False
    """True: the service answers HTTP requests for its counters on its port, although its own protocol is not HTTP."""
    request_counter: ClassVar[str | None] = None
    """The counter of the requests or statements that the service has served. None: it counts none."""
    arrival_counter: ClassVar[str | None] = None
    """The counter of the requests that have arrived, which can be compared with those that were sent. None: there is
    none that is exact."""
    sent_bytes: ClassVar[SentBytes | None] = None
    """The counter of the bytes of its responses. None: it does not count them."""
    received_bytes: ClassVar[ReceivedBytes | None] = None
    """The counter of the bytes that it received from its clients. None: it does not count them."""
    forward_counter: ClassVar[str | None] = None
    """The counter of the requests that it sends to the service behind it. None: it does not count them."""
    main_counters: ClassVar[tuple[str, ...]] = ()
    """The counters that charts over time show as rates, the most important first. Each counts events."""
    worker_pool: ClassVar[WorkerPool | None] = None
    """Its workers, if it counts those in use."""

    @property
    def is_placed(self) -> bool:
        """Whether the service runs on another host than the lab."""
        return self.host is not None or self.site is not None

    @property
    def replicates(self) -> str | None:
        """The service whose tables this one has as a replica. None: it has its own."""
        return None

    @property
    def makes_credentials(self) -> bool:
        """Whether the service makes certificates for its clients: `{NAME.credentials}` is their directory."""
        return False

    def scheme(self) -> str:
        """Scheme of the URL at which the service is reached, such as http, sqlite, postgresql or gsiftp."""
        raise NotImplementedError

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        """Checks the section of the service `name` against the other `services`, and reports problems to `context`."""
        return ServiceAdditions()

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        """The configuration that `plimsoll-engine serve` reads, as JSON. Only called if `runs_in_engine`. Raises
        ServiceError if a service that it needs was not started."""
        return dict(service.settings)

    def followed_database(self) -> FollowedDatabase | None:
        """The database whose changes this service detects, if there is one."""
        return None


Services = Mapping[str, ServiceSection]
"""The sections of `services:`, by name, in the order of the file."""


def check_order(name: str, other: str, services: Services, at: KeyPath, context: Context) -> None:
    """Reports `other` if it is not listed above `name`, which needs it."""
    order = list(services)
    if order.index(other) >= order.index(name):
        context.wrong(at, f"move {other} above {name}: services start in the order of the file")


def file_of_host(section: ServiceSection, name: str, at: KeyPath, context: Context) -> str:
    """Absolute path of a file or directory on the host of a service. It is only checked on the host of the lab."""
    if not section.is_placed:
        return context.file(name, at)
    if not name.startswith("/"):
        context.wrong(at, f'expected an absolute path of the host on which the service runs, got "{name}"')
    return name


def find_service(other: str, services: Services, at: KeyPath, context: Context) -> ServiceSection | None:
    """The section of `other`; reports the name if no service has it."""
    section = services.get(other)
    if section is None:
        context.wrong(at, f"there is no service {other}", nearest(other, services))
    return section


def url_variable(name: str) -> str:
    """The environment variable of hooks that contains the URL of the service `name`."""
    return f"PLIMSOLL_URL_{re.sub('[^A-Z0-9_]', '_', name.upper())}"


def check_url_variables(services: Services, context: Context) -> None:
    """Reports each service whose environment variable is that of a service above it."""
    owners: dict[str, str] = {}
    for name in services:
        variable = url_variable(name)
        other = owners.setdefault(variable, name)
        if other != name:
            context.wrong(
                ("services", name),
                f"{name} and {other} have the same environment variable {variable}: rename one of them",
            )


def kind_of(section: type[ServiceSection]) -> str:
    """Name of the kind."""
    (name,) = get_args(section.model_fields["kind"].annotation)
    return str(name)


def plain(value: Any) -> Any:
    """Sections inside settings as plain data, quantities as numbers."""
    if isinstance(value, Raw):
        return {
            info.alias or key: plain(getattr(value, key)) for key, info in type(value).model_fields.items()
        }
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
