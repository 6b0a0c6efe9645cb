"""Raw model of `services:`, `data:` and `targets:`: the file as written, checked for form only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from plimsoll.plan.schema.servers import (
    CommandService,
    MariadbService,
    NginxService,
    PostgresService,
    ServiceRaw,
    SquidService,
)
from plimsoll.plan.schema.watch import AnyWatch
from plimsoll.plan.source.fields import (
    Count,
    Drawn,
    Duration,
    Fraction,
    Label,
    Name,
    PlainText,
    Raw,
    Seed,
    Short,
    Size,
    Text,
    null_word,
    shown,
)
from plimsoll.plan.source.units import NS

KINDS: Final = (
    "command",
    "delay",
    "echo",
    "frontier",
    "mariadb",
    "nginx",
    "null",
    "postgres",
    "sqlite",
    "squid",
)
LATER_KINDS: Final = ("mysql", "varnish", "xrootd")
"""Kinds that come with a later version; until then their names are known and refused."""


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
    on: Annotated[WhenRaw, BeforeValidator(_when), Short({"const": "change"})] = Field(
        default_factory=WhenRaw
    )
    settle: Duration | None = None
    again: Duration = NS["s"]
    most_keys: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000
    triggers: Literal["install", "present"] = "install"


class FrontierService(ServiceRaw):
    """The Frontier gateway of Plimsoll, which answers requests from a database."""

    kind: Literal["frontier"]
    database: Text
    connections: Annotated[int, Field(ge=1, le=1000)] = 10
    threads: Annotated[int, Field(ge=1, le=10_000)] = 100
    ages: Ages = Field(default_factory=Ages)
    server_name: PlainText = "plimsoll"
    keepalive: Duration = 5 * NS["s"]
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


class SqliteService(ServiceRaw):
    """An SQLite file, without a server process. `data:` fills it; `file` is an existing file,
    opened read-only."""

    kind: Literal["sqlite"]
    file: PlainText | None = None


class EchoService(ServiceRaw):
    """Answers immediately: HTTP with a body of a fixed size, or raw TCP that echoes its input."""

    kind: Literal["echo"]
    http: bool = True
    body: Size = 2
    status: Annotated[int, Field(ge=200, le=599)] = 200


class NullService(ServiceRaw):
    """Reads all input, and answers each line with `reply`, or does not answer."""

    kind: Literal["null"]
    reply: PlainText | None = None


class Stall(Raw):
    """All servers pause once, `at` after the start of the service, for the duration `for`."""

    at: Duration
    for_: Duration = Field(alias="for")


class DelayService(ServiceRaw):
    """`servers` servers behind one queue. Each request takes `time`: M/M/c if it is exponential."""

    kind: Literal["delay"]
    time: Drawn
    servers: Annotated[int, Field(ge=1, le=10_000)] = 1
    http: bool = True
    body: Annotated[Size, Field(le=1_000_000)] = 0
    stall: Stall | None = None
    fail: Fraction = 0.0
    seed: Seed = 1


def _known_kind(value: object) -> object:
    """Before the choice by kind: kinds that come later are refused for what they are, not as unknown."""
    if not isinstance(value, dict):
        raise PydanticCustomError(
            "service", "expected a mapping with `kind`, got {shown}", {"shown": shown(value)}
        )
    if "kind" in value:
        value = {**value, "kind": null_word(value["kind"])}
    kind = value.get("kind")
    if isinstance(kind, str) and kind in LATER_KINDS:
        raise PydanticCustomError(
            "later",
            "the service kind {kind} is not available in this version: expected one of {known}",
            {"kind": kind, "known": ", ".join(KINDS), "key": "kind"},
        )
    return value


AnyService = Annotated[
    Annotated[
        CommandService
        | DelayService
        | EchoService
        | FrontierService
        | MariadbService
        | NginxService
        | NullService
        | PostgresService
        | SqliteService
        | SquidService,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_known_kind),
]


class TableData(Raw):
    """A table that is written before the runs. Its key is its name. `tables`: writes NAME_1,
    NAME_2, ... instead; `versions`: adds a column that writers change."""

    into: Name
    kind: Literal["table"] = "table"
    rows: Count
    row: Annotated[Size, Field(ge=1, le=16_000_000)]
    compressibility: Annotated[Fraction, Field(le=0.95)] = 0.0
    columns: Annotated[int, Field(ge=1, le=1000)] = 1
    types: list[Literal["text", "int", "float", "time", "blob"]] = Field(default_factory=list)
    tables: Annotated[int, Field(ge=1, le=10_000)] = 1
    versions: bool = False
    seed: Seed = 1


class CoolData(Raw):
    """A conditions database in the layout of COOL: several tables, whose names begin with `prefix`."""

    into: Name
    kind: Literal["cool"]
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,39})?$")] = ""
    folders: Annotated[int, Field(ge=1, le=9999)]
    channels: Annotated[int, Field(ge=1, le=2**31)]
    iovs: Annotated[int, Field(ge=1, le=2**48)]
    tags: Annotated[int, Field(ge=1, le=10_000)] = 1
    versioning: Literal["single", "multi"] = "single"
    payload: Annotated[Size, Field(ge=1, le=16_000_000)]
    columns: Annotated[int, Field(ge=1, le=1000)] | None = None
    compressibility: Annotated[Fraction, Field(le=0.95)] = 0.0
    seed: Seed = 1


class SqlData(Raw):
    """Tables of the user: a file of SQL statements."""

    into: Name
    kind: Literal["sql"]
    file: PlainText


def _with_kind(value: object) -> object:
    """`kind: table` is what is meant where nothing is said."""
    return {"kind": "table", **value} if isinstance(value, dict) else value


DataRaw = Annotated[
    Annotated[TableData | CoolData | SqlData, Field(discriminator="kind")],
    BeforeValidator(_with_kind),
]


class EndpointRaw(Raw):
    """An address of a target: a URL, or the name of a service of this file."""

    at: Text
    name: Label | None = None


def _endpoint(value: object) -> object:
    return {"at": value} if not isinstance(value, dict) else value


class TargetRaw(Raw):
    """An existing system, or several services as one target."""

    endpoints: list[Annotated[EndpointRaw, BeforeValidator(_endpoint), Short({"type": "string"})]] = Field(
        min_length=1
    )
    choose: Literal["per-request", "per-tester"] = "per-request"
    order: Literal["round-robin", "random"] = "round-robin"
    proxies: list[Text] = Field(default_factory=list)
    watch: list[AnyWatch] = Field(default_factory=list)
