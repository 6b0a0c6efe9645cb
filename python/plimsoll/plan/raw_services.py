"""Raw model of `services:`, `data:` and `targets:`: the file as written, checked for form only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.fields import (
    Cores,
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
from plimsoll.plan.units import NS

KINDS: Final = ("command", "delay", "echo", "frontier", "null", "sqlite")
LATER_KINDS: Final = ("mariadb", "mysql", "nginx", "postgres", "postgresql", "squid", "varnish", "xrootd")
"""Real databases and caches come with a later version; until then their names are known and refused."""


class ServiceRaw(Raw):
    """What every service has."""

    fresh: Literal["experiment", "cell", "run"] = "experiment"
    cpus: Cores | None = None
    ready_timeout: Duration = 30 * NS["s"]


class Ages(Raw):
    """For how long caches may keep an answer of the gateway, by the request's `ttl`."""

    short: Duration = 0
    long: Duration = 7 * NS["d"]
    forever: Duration = 365 * NS["d"]
    error: Duration = 300 * NS["s"]


class FrontierService(ServiceRaw):
    """Our gateway that answers Frontier requests from an SQLite database."""

    kind: Literal["frontier"]
    database: PlainText
    connections: Annotated[int, Field(ge=1, le=1000)] = 10
    threads: Annotated[int, Field(ge=1, le=10_000)] = 100
    ages: Ages = Field(default_factory=Ages)
    server_name: PlainText = "plimsoll"
    keepalive: Duration = 5 * NS["s"]


class SqliteService(ServiceRaw):
    """An embedded SQLite file: nothing is started, `data:` fills it; or `file`, one that exists, opened for
    reading."""

    kind: Literal["sqlite"]
    file: PlainText | None = None


class EchoService(ServiceRaw):
    """Answers at once: HTTP with a body of a fixed size, or raw TCP that sends back what it gets."""

    kind: Literal["echo"]
    http: bool = True
    body: Size = 2
    status: Annotated[int, Field(ge=200, le=599)] = 200


class NullService(ServiceRaw):
    """Reads everything; answers each line with `reply`, or nothing."""

    kind: Literal["null"]
    reply: PlainText | None = None


class Stall(Raw):
    """All servers stand still once, `at` after the start of the service, `for` so long."""

    at: Duration
    for_: Duration = Field(alias="for")


class DelayService(ServiceRaw):
    """`servers` servers behind one queue, each request takes `time`: M/M/c where it is exponential."""

    kind: Literal["delay"]
    time: Drawn
    servers: Annotated[int, Field(ge=1, le=10_000)] = 1
    http: bool = True
    stall: Stall | None = None
    fail: Fraction = 0.0
    seed: Seed = 1


class Ready(Raw):
    """How to see that a service is ready: exactly one of the three."""

    tcp: Literal[True] | None = None
    http: PlainText | None = None
    log: PlainText | None = None

    @model_validator(mode="after")
    def _one(self) -> Ready:
        if sum(value is not None for value in (self.tcp, self.http, self.log)) != 1:
            raise PydanticCustomError(
                "ready", "give exactly one of `tcp: true`, `http: /path`, `log: regular expression`"
            )
        return self


def _argv(value: object) -> object:
    if isinstance(value, str):
        raise PydanticCustomError(
            "argv",
            'expected a list of arguments such as ["squid", "-N", "-f", "{dir}/squid.conf"], got one text',
        )
    return value


Argv = Annotated[list[Text], BeforeValidator(_argv), Field(min_length=1)]
"""A program and its arguments, no shell."""


class CommandService(ServiceRaw):
    """Any server binary. `{port}` is a free port, `{dir}` a directory of its own."""

    kind: Literal["command"]
    command: Argv
    ready: Ready = Field(default_factory=lambda: Ready(tcp=True))
    url: PlainText = "http://127.0.0.1:{port}"
    env: dict[str, Text] = Field(default_factory=dict)
    cwd: PlainText | None = None
    stop_timeout: Duration = 10 * NS["s"]


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
            "the service kind {kind} is not yet there; it comes with a later version (this one has {known})",
            {"kind": kind, "known": ", ".join(KINDS), "key": "kind"},
        )
    return value


AnyService = Annotated[
    Annotated[
        CommandService | DelayService | EchoService | FrontierService | NullService | SqliteService,
        Field(discriminator="kind"),
    ],
    BeforeValidator(_known_kind),
]


class DataRaw(Raw):
    """A table that is written before the runs; its name is the key under which it stands."""

    into: Name
    kind: Literal["table"] = "table"
    rows: Count
    row: Size
    compressibility: Annotated[Fraction, Field(le=0.95)] = 0.0
    seed: Seed = 1


class EndpointRaw(Raw):
    """An address of a target: a URL, or the name of a service of this file."""

    at: PlainText
    name: Label | None = None


def _endpoint(value: object) -> object:
    return {"at": value} if not isinstance(value, dict) else value


def _not_yet(value: object) -> object:
    raise PydanticCustomError(
        "later", "watching other hosts is not yet there; it comes with a later version: leave this key out"
    )


class TargetRaw(Raw):
    """A system that exists, or several services as one target."""

    endpoints: list[Annotated[EndpointRaw, BeforeValidator(_endpoint), Short({"type": "string"})]] = Field(
        min_length=1
    )
    choose: Literal["per-request", "per-tester"] = "per-request"
    order: Literal["round-robin", "random"] = "round-robin"
    proxies: list[Text] = Field(default_factory=list)
    watch: Annotated[None, BeforeValidator(_not_yet)] = None
