"""Raw model of `services:` that are programs of this host: any binary, and the servers whose configuration we write and
whose counters we read. The file as written, checked for form only."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.functional_validators import PlainValidator
from pydantic_core import PydanticCustomError

from plimsoll.plan.source.fields import Argv, Cores, Duration, Name, PlainText, Raw, Short, Size, Text, shown
from plimsoll.plan.source.units import NS


class ServiceRaw(Raw):
    """What every service has."""

    fresh: Literal["experiment", "cell", "run"] = "experiment"
    cpus: Cores | None = None
    ready_timeout: Duration = 30 * NS["s"]


class Ready(Raw):
    """How to detect that a service is ready: exactly one of the three."""

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


class CommandService(ServiceRaw):
    """Any server binary. It listens on `{address}` and `{port}`; `{dir}` is its own directory."""

    kind: Literal["command"]
    command: Argv
    ready: Ready = Field(default_factory=lambda: Ready(tcp=True))
    url: PlainText = "http://{address}:{port}"
    env: dict[str, Text] = Field(default_factory=dict)
    cwd: PlainText | None = None
    stop_timeout: Duration = 10 * NS["s"]


def _version(value: object) -> str:
    text = str(value)
    if isinstance(value, bool) or not (text == "auto" or re.fullmatch(r"[1-9][0-9]?", text)):
        raise PydanticCustomError(
            "server_version",
            "expected auto or a major version such as 15, got {shown}",
            {"shown": shown(value)},
        )
    return text


ServerVersion = Annotated[
    str,
    PlainValidator(_version),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 99}]}),
]
"""A major version, or "auto": the newest that is there."""


def _one_line(value: str) -> str:
    if "\n" in value or "\r" in value:
        raise PydanticCustomError("one_line", "expected a single line")
    return value


Line = Annotated[PlainText, AfterValidator(_one_line)]
"""A line of a configuration file, or a value in one."""

SettingName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]
ServerSettings = dict[SettingName, Line]
"""Keys and values of a server's own configuration file, in the server's own units."""


class PostgresService(ServiceRaw):
    """A PostgreSQL server with its own cluster."""

    kind: Literal["postgres"]
    version: ServerVersion = "auto"
    settings: ServerSettings = Field(default_factory=dict)
    database: Name = "plimsoll"
    user: Name = "plimsoll"


class MariadbService(ServiceRaw):
    """A MariaDB server with its own data directory."""

    kind: Literal["mariadb"]
    settings: ServerSettings = Field(default_factory=dict)
    database: Name = "plimsoll"


class CacheRaw(Raw):
    """What a Squid may store, and what it contains when a run begins."""

    start: Literal["warm", "cold"] = "warm"
    memory: Size = 64_000_000
    object_in_memory: Size | None = None
    disk: Size = 0
    largest: Size = 100_000_000


def _cache(value: object) -> object:
    if isinstance(value, str):
        if value not in ("warm", "cold"):
            raise PydanticCustomError(
                "cache",
                "expected warm, cold or a mapping with start, memory, ..., got {shown}",
                {"shown": shown(value)},
            )
        return {"start": value}
    return value


Cache = Annotated[CacheRaw, BeforeValidator(_cache), Short({"enum": ["warm", "cold"]})]

REFRESH: Final = "refresh_pattern -i (/cgi-bin/|\\?) 0 0% 0\nrefresh_pattern . 0 20% 4320"
"""What Squid's own configuration file has."""


def _refresh(value: str) -> str:
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    for line in lines:
        if not line.startswith("refresh_pattern "):
            raise PydanticCustomError(
                "refresh",
                "expected lines like `refresh_pattern . 0 20% 4320`, got {shown}",
                {"shown": shown(line)},
            )
    return "\n".join(lines)


class SquidService(ServiceRaw):
    """A Squid cache: a reverse proxy for `origin`, or a forward proxy without `origin`."""

    kind: Literal["squid"]
    origin: Name | None = None
    parents: list[Name] = Field(default_factory=list)
    siblings: list[Name] = Field(default_factory=list)
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    cache: Cache = Field(default_factory=CacheRaw)
    collapsed_forwarding: bool = False
    refresh: Annotated[PlainText, AfterValidator(_refresh)] = REFRESH
    log: bool = True
    settings: list[Line] = Field(default_factory=list)


class NginxService(ServiceRaw):
    """nginx as a reverse proxy without cache, or as a file server."""

    kind: Literal["nginx"]
    origin: Name | None = None
    root: PlainText | None = None
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    settings: list[Line] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one(self) -> NginxService:
        if (self.origin is None) == (self.root is None):
            raise PydanticCustomError(
                "nginx",
                "give one of `origin: NAME` (a service listed above it) and `root: DIRECTORY` (files)",
            )
        return self
