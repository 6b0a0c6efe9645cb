"""Raw model of `watch:` of a target: exporters, databases, control groups and hosts of an existing system. It checks
the form only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.common import Tls
from plimsoll.plan.schema.hosts import AgentName, Capacity, Directory, HostName, SshRaw, UserName
from plimsoll.plan.source.fields import Duration, Name, PlainText, Raw, ShortForm, Text, shown
from plimsoll.plan.source.units import NS


def _check_interval(value: int) -> int:
    if not NS["s"] <= value <= NS["h"]:
        raise PydanticCustomError(
            "every",
            "the interval must be from 1s to 1h: each reading is load on the watched system",
        )
    return value


class WatchRaw(Raw):
    """An exporter of Prometheus metrics that is read during a run."""

    prometheus: PlainText
    name: Name = ""
    kind: Literal["node", "squid"] | None = None
    metrics: list[Annotated[str, Field(pattern=r"^[A-Za-z_:*][A-Za-z0-9_:*]{0,199}$")]] = Field(
        default_factory=list
    )
    every: Annotated[Duration, AfterValidator(_check_interval)] = 5 * NS["s"]
    headers: dict[str, Text] = Field(default_factory=dict)
    optional: bool = False

    @model_validator(mode="after")
    def _check_metrics(self) -> WatchRaw:
        if self.kind is None and not self.metrics:
            raise PydanticCustomError(
                "watch",
                "give `kind: node` or `kind: squid` for a known exporter, or `metrics` with the names of "
                "the metrics to keep, such as [nginx_connections_active, 'myapp_*']",
            )
        return self


class WatchDatabaseRaw(Raw):
    """A database server whose counters are read during a run."""

    postgres: Text | None = None
    mariadb: Text | None = None
    name: Name = ""
    password: Text | None = None
    tls: Tls | None = None
    every: Annotated[Duration, AfterValidator(_check_interval)] = NS["s"]
    optional: bool = False

    @model_validator(mode="after")
    def _check_one_url(self) -> WatchDatabaseRaw:
        if (self.postgres is None) == (self.mariadb is None):
            raise PydanticCustomError("watch", "give one URL, as postgres or as mariadb")
        return self


def _cgroup(value: str) -> str:
    parts = value.split("/")
    if value.startswith("/") and value.isprintable() and ".." not in parts and len(value) <= 4096:
        return value
    raise PydanticCustomError(
        "cgroup",
        "expected the path of a control group such as /system.slice/nginx.service, got {shown}",
        {"shown": shown(value)},
    )


class WatchGroupRaw(Raw):
    """A control group of this host, or the one of a container, whose files are read during a run."""

    container: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$")] | None = None
    cgroup: Annotated[PlainText, AfterValidator(_cgroup)] | None = None
    name: Name = ""
    every: Annotated[Duration, AfterValidator(_check_interval)] = NS["s"]
    optional: bool = False

    @model_validator(mode="after")
    def _check_one(self) -> WatchGroupRaw:
        if (self.container is None) == (self.cgroup is None):
            raise PydanticCustomError("watch", "give either container or cgroup")
        return self


def _program(value: str) -> str:
    if not 1 <= len(value) <= 100 or not value.isprintable() or value.strip() != value:
        raise PydanticCustomError(
            "program", "expected the name of a program or unit, got {shown}", {"shown": shown(value)}
        )
    return value


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _short(value: list[Any]) -> Any:
    return value[0] if len(value) == 1 else value


def _one_or_more(schema: dict[str, Any]) -> tuple[Any, ...]:
    """Annotations of a list; a list of one item may be written as the item alone."""
    return (Field(max_length=100), BeforeValidator(_listed), PlainSerializer(_short), ShortForm(schema))


Programs = Annotated[
    list[Annotated[PlainText, AfterValidator(_program)]], *_one_or_more({"type": ["string", "number"]})
]
Pids = Annotated[list[Annotated[int, Field(ge=1, le=2**31 - 1)]], *_one_or_more({"type": "integer"})]


class WatchHostRaw(Raw):
    """A host of the target, on which an agent monitors the host and processes. The keys of a host
    are those of `hosts:`; `ssh` and `directory` override those of `hosts:`."""

    host: HostName
    name: AgentName | None = None
    user: UserName | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    link: Capacity | None = None
    process: Programs = Field(default_factory=list)
    pid: Pids = Field(default_factory=list)
    unit: Programs = Field(default_factory=list)
    ssh: SshRaw | None = None
    directory: Directory | None = None
    optional: bool = False


_KINDS: Final = {
    "host": "a host", "postgres": "a database", "mariadb": "a database", "container": "a group", "cgroup": "a group",
}  # fmt: skip
"""The kind of an entry by its key; otherwise it is an exporter."""


def _kind_of_entry(value: object) -> str:
    keys = value if isinstance(value, dict) else value.model_fields_set if isinstance(value, Raw) else ()
    return next((kind for key, kind in _KINDS.items() if key in keys), "an exporter")


AnyWatch = Annotated[
    Annotated[WatchRaw, Tag("an exporter")]
    | Annotated[WatchDatabaseRaw, Tag("a database")]
    | Annotated[WatchGroupRaw, Tag("a group")]
    | Annotated[WatchHostRaw, Tag("a host")],
    Discriminator(_kind_of_entry),
]
"""An exporter, a database, a control group or a host: its first key decides."""


def _with_names(value: object) -> object:
    """The entries of a mapping with their keys as names."""
    if not isinstance(value, dict):
        return value
    return {
        key: {**entry, "name": key} if isinstance(entry, dict) and "name" not in entry else entry
        for key, entry in value.items()
    }


WatchEntries = Annotated[
    Annotated[list[AnyWatch], Tag("a list")] | Annotated[dict[Name, AnyWatch], Tag("a mapping")],
    Discriminator(lambda value: "a mapping" if isinstance(value, dict) else "a list"),
    BeforeValidator(_with_names),
]
"""A list of entries with names, or a mapping from names to entries."""


def steps_of(entries: list[AnyWatch] | dict[str, AnyWatch]) -> Iterator[tuple[str | int, AnyWatch]]:
    """Each entry with its index or key in the file."""
    yield from entries.items() if isinstance(entries, dict) else enumerate(entries)
