"""Raw model of `watch:` of a target: exporters and hosts of an existing system. It checks the form only."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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
    name: Name
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


def _kind_of_entry(value: object) -> str:
    is_host = "host" in value if isinstance(value, dict) else isinstance(value, WatchHostRaw)
    return "a host" if is_host else "an exporter"


AnyWatch = Annotated[
    Annotated[WatchRaw, Tag("an exporter")] | Annotated[WatchHostRaw, Tag("a host")],
    Discriminator(_kind_of_entry),
]
"""An exporter or a host: the key `host` decides."""
