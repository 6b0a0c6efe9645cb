"""The service kind `frontier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic.functional_validators import PlainValidator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind, Service
from plimsoll.plan.services.database import database_address, database_kind, resolve_database
from plimsoll.plan.services.section import (
    Addresses,
    FollowedDatabase,
    SentBytes,
    ServiceAdditions,
    Services,
    WorkerPool,
    find_service,
    kind_of,
    plain,
)
from plimsoll.plan.services.squid import SquidService
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Name, PlainText, Raw, ShortForm, Text, shown
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import DURATION_PATTERN, NS, parse_duration, show_duration

DATABASE_KINDS: Final = ("sqlite", "postgres", "mariadb")
"""Kinds that a gateway reads, as its messages list them. A test compares them with `database_kind` of all kinds."""
_HOURS: Final = ("long_hour", "short_hour")
NO_KEEPALIVES: Final = "none"
_SAME: Final = (
    *("connections", "threads", "server_name", "stale_if_error", "expire_empty_like_errors"),
    *("last_modified_table", "files", "key_file", "cert_file"),
)
"""Settings that the engine reads under the same name and in the same unit."""
_SECONDS: Final = ("keepalive", "query_timeout", "max_acquire", "max_execute")
"""Durations that the engine reads in seconds, under a name that ends in `_s`; 0 for None."""


def _interval(value: object) -> int | None:
    return None if value is None or value == NO_KEEPALIVES else parse_duration(value)


def _show_interval(value: int | None) -> str:
    return NO_KEEPALIVES if value is None else show_duration(value)


Keepalive = Annotated[
    int | None,
    PlainValidator(_interval),
    PlainSerializer(_show_interval, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [{"const": NO_KEEPALIVES}, {"type": "string", "pattern": DURATION_PATTERN}],
            "examples": ["5s"],
        }
    ),
]
"""Interval of keepalives, ns; None: no keepalives."""


class Ages(Raw):
    """How long caches may keep an answer of the gateway, by the `ttl` of the request."""

    short: Duration = 0
    long: Duration = 7 * NS["d"]
    forever: Duration = 365 * NS["d"]
    error: Duration = 300 * NS["s"]
    long_hour: Annotated[int, Field(ge=0, le=23)] | None = None
    short_hour: Annotated[int, Field(ge=0, le=23)] | None = None


class WhenRaw(Raw):
    """When a gateway purges objects: when their tables have changed, or all objects at the interval
    `every`."""

    every: Duration | None = None


def _when(value: object) -> object:
    if isinstance(value, str):
        if value != "change":
            raise PydanticCustomError(
                "when",
                "expected change or {example}, got {shown}",
                {"shown": shown(value), "example": "{every: 10s}"},
            )
        return {}
    return value


class InvalidationRaw(Raw):
    """Caches in front of a gateway, which the gateway notifies when objects change."""

    caches: list[Name] = Field(min_length=1)
    on: Annotated[WhenRaw, BeforeValidator(_when), ShortForm({"const": "change"})] = Field(
        default_factory=WhenRaw
    )
    settle: Duration | None = None
    again: Duration = NS["s"]
    most_keys: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000
    triggers: Literal["install", "present"] = "install"
    scope: Literal["everything", "table", "row"] = "table"
    detection: Literal["triggers", "logical-decoding"] = "triggers"


class FrontierService(StatelessSection):
    """The Frontier gateway of Plimsoll, which answers requests from a database."""

    kind: Literal["frontier"]
    database: Text
    connections: Annotated[int, Field(ge=1, le=1000)] = 10
    threads: Annotated[int, Field(ge=1, le=10_000)] = 100
    ages: Ages = Field(default_factory=Ages)
    server_name: PlainText = "plimsoll"
    keepalive: Keepalive = 5 * NS["s"]
    max_acquire: Duration = 300 * NS["s"]
    max_execute: Duration = 10 * NS["s"]
    query_timeout: Duration = 300 * NS["s"]
    stale_if_error: bool = True
    expire_empty_like_errors: bool = False
    validate_last_modified: Duration = 0
    last_modified_table: Annotated[str, Field(pattern=r"^[A-Za-z0-9_$]+(\.[A-Za-z0-9_$]+)?$")] | None = None
    files: PlainText | None = None
    key_file: PlainText | None = None
    cert_file: PlainText | None = None
    invalidation: InvalidationRaw | None = None

    runs_in_engine: ClassVar[bool] = True
    request_counter: ClassVar[str | None] = "answered"
    arrival_counter: ClassVar[str | None] = "received"
    forward_counter: ClassVar[str | None] = "queries"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("payload_bytes", 1, "payload")
    main_counters: ClassVar[tuple[str, ...]] = ("answered", "queries", "not_modified", "database_errors")
    worker_pool: ClassVar[WorkerPool | None] = WorkerPool(
        "database connection", "request", "connections_in_use", "connections_limit", "connections_waiting"
    )

    def scheme(self) -> str:
        return "http"

    def followed_database(self) -> FollowedDatabase | None:
        invalidation = self.invalidation
        if invalidation is None or invalidation.on.every is not None or isinstance(self.database, Secret):
            return None
        return FollowedDatabase(self.database, decodes=invalidation.detection == "logical-decoding")

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        needs, database = resolve_database(self.database, name, services, DATABASE_KINDS, context)
        settings: dict[str, Any] = {"database": database}
        self._check_times(services, at, context)
        for key in ("files", "key_file", "cert_file"):
            if (file := getattr(self, key)) is not None:
                settings[key] = context.file(file, (*at, key))
        if self.invalidation is not None:
            self._check_detection(self.invalidation, services, (*at, "invalidation"), context)
            caches = self._caches(name, self.invalidation, services, context)
            settings["invalidation"] = {**plain(self.invalidation), "caches": caches}
        return ServiceAdditions(needs, settings)

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        settings: Mapping[str, Any] = service.settings
        ages = {key: value for key, value in settings["ages"].items() if value is not None}
        config = {
            "database": database_address(service, addresses),
            "ages": {key: value if key in _HOURS else int(value // NS["s"]) for key, value in ages.items()},
            "validate_last_modified_s": int(settings["validate_last_modified"] // NS["s"]),
            **{key: settings[key] for key in _SAME},
            **{f"{key}_s": (settings[key] or 0) / NS["s"] for key in _SECONDS},
        }
        if settings["invalidation"]:
            config["invalidation"] = _invalidation_config(settings["invalidation"], addresses)
        return config

    def _database_kind(self, services: Services) -> DatabaseKind | None:
        return database_kind(self.database, services)

    def _check_times(self, services: Services, at: KeyPath, context: Context) -> None:
        for key in ("keepalive", "max_acquire", "query_timeout"):
            value = getattr(self, key)
            if value is not None and value < NS["ms"]:
                context.wrong((*at, key), "expected at least 1ms")
        if self.validate_last_modified % NS["s"]:
            context.wrong((*at, "validate_last_modified"), "expected whole seconds")
        if (
            self.validate_last_modified
            and not self.last_modified_table
            and self._database_kind(services) != "mariadb"
        ):
            context.wrong(
                (*at, "validate_last_modified"),
                "give `last_modified_table` too: this database does not record when its tables change",
            )

    def _check_detection(
        self, invalidation: InvalidationRaw, services: Services, at: KeyPath, context: Context
    ) -> None:
        """Reports a scope and a detection that the database does not support."""
        database = self._database_kind(services)
        followed = self.followed_database()
        section = services.get(followed.name) if followed is not None else None
        if section is not None and section.replicates is not None:
            context.wrong(
                (*at, "on"),
                f"changes cannot be detected in {self.database}, a replica: use {section.replicates} as the database, "
                "or `on: {every: 10s}`",
            )
        for key, value, standard in (
            ("scope", invalidation.scope, "table"),
            ("detection", invalidation.detection, "triggers"),
        ):
            if value == standard:
                continue
            if invalidation.on.every is not None:
                context.wrong((*at, key), "is allowed only with `on: change`")
            elif value != "everything" and database != "postgres":
                context.wrong((*at, key), f"{value} needs PostgreSQL; with MariaDB use {standard}")

    def _caches(
        self, name: str, invalidation: InvalidationRaw, services: Services, context: Context
    ) -> list[str]:
        """The caches that the gateway notifies of changes, nearest first: a child that is notified before its parent
        would fetch the old object again."""
        at: KeyPath = ("services", name, "invalidation")
        every = invalidation.on.every
        if every is not None and every < 10 * NS["ms"]:
            context.wrong((*at, "on", "every"), "expected at least 10ms")
        if every is None and self._database_kind(services) not in ("postgres", "mariadb"):
            context.wrong(
                (*at, "on"),
                "change detection needs PostgreSQL or MariaDB; `on: {every: 10s}` also works with SQLite",
            )
        has_parents: dict[str, bool] = {}
        for index, cache in enumerate(invalidation.caches):
            here: KeyPath = (*at, "caches", index)
            section = find_service(cache, services, here, context)
            if section is None:
                continue
            if not isinstance(section, SquidService):
                context.wrong(
                    here, f"{cache} is a service of kind {kind_of(type(section))}: expected one of kind squid"
                )
            elif (origin := section.origin_in(services)) not in (name, None):
                context.wrong(here, f"{cache} is not a proxy of {name}: its origin is {origin}")
            else:
                has_parents[cache] = bool(section.parents)
        return sorted(has_parents, key=lambda cache: has_parents[cache])


def _invalidation_config(invalidation: Mapping[str, Any], addresses: Addresses) -> dict[str, Any]:
    config = {
        "caches": [{"proxy": addresses.caches[cache]} for cache in invalidation["caches"]],
        "triggers": invalidation["triggers"],
        "scope": invalidation["scope"],
        "detection": invalidation["detection"],
        "again_ms": round(invalidation["again"] / NS["ms"]),
        "most_keys": invalidation["most_keys"],
    }
    if invalidation["settle"] is not None:
        config["settle_ms"] = round(invalidation["settle"] / NS["ms"])
    every = invalidation["on"]["every"]
    if every is not None:
        config |= {"on": "every", "every_s": every / NS["s"]}
    return config
