"""Raw model of `hosts:`, in an experiment file or in a separate file: checks the form only.

As with drivers, sections of kinds that are not selected are allowed, so that one file can be run on
several kinds of hosts. `resolve_hosts` reports keys that conflict.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from plimsoll.plan.limits import LimitsRaw
from plimsoll.plan.links import LinkChangesRaw
from plimsoll.plan.metrics.rules import Operator
from plimsoll.plan.model.hosts import HostKind
from plimsoll.plan.source import units
from plimsoll.plan.source.fields import Count, Duration, Name, PlainText, Raw, ShortForm, Text, shown
from plimsoll.plan.source.units import NS

FILE_VERSION: Final = 1
"""Format version of a hosts file."""
_BOUND: Final = re.compile(r"\s*(<=|>=|<|>)\s*(\S.*?)\s*\Z")
_PORTS: Final = re.compile(r"\s*([0-9]{1,5})\s*\.\.\s*([0-9]{1,5})\s*\Z")
_BITS: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(bit|kbit|Mbit|Gbit|Tbit)/s\s*\Z")
_BITS_SCALE: Final = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}


def _text(pattern: str, like: str) -> Any:
    """Annotations of a string that matches `pattern`. `like`: the expected form in the message."""

    def check(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value):
            return value
        raise PydanticCustomError(
            "form", "expected {like}, got {shown}", {"like": like, "shown": shown(value)}
        )

    return (PlainValidator(check), WithJsonSchema({"type": "string", "pattern": f"^{pattern}$"}))


HostName = Annotated[
    str, *_text("[A-Za-z0-9_][A-Za-z0-9._:%-]{0,252}", "a host: its name, its address, or its ssh alias")
]
"""A host as ssh accepts it. It cannot begin with a dash: ssh would read it as an option."""
AgentName = Annotated[
    str, *_text("[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", "a name of letters, digits, '.', '_' and '-'")
]
"""A name that becomes part of file names."""
UserName = Annotated[str, *_text("[A-Za-z0-9_][A-Za-z0-9._@-]{0,99}", "an account")]
Directory = Annotated[
    str,
    *_text(
        "(~|(/[A-Za-z0-9._+@%=,-]+))(/[A-Za-z0-9._+@%=,-]+)+/?",
        "a directory on the hosts such as ~/.cache/plimsoll, without spaces and shell metacharacters",
    ),
]
"""Absolute and at least two levels deep, or below the home of the login user: Plimsoll removes its
files there."""


def number_of(value: object) -> float:
    """The count of a bound: "2". Raises UnitError."""
    text = str(value)
    if not re.fullmatch(r"[0-9]+", text):
        raise units.UnitError(f"{shown(text)} is not a whole number")
    return float(text)


def bit_rate_of(value: object) -> float:
    """Bytes per second of a rate of bits: "10Gbit/s". Raises UnitError."""
    match = _BITS.match(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise units.UnitError(f"expected a rate of bits such as 10Gbit/s, got {shown(value)}")
    return float(match[1]) * _BITS_SCALE[match[2]] / 8


BOUNDS: Final[dict[str, tuple[Callable[[object], float], str]]] = {
    "cores": (number_of, ">=2"),
    "memory": (units.parse_size, ">=4GB"),
    "rtt": (units.parse_duration, "<5ms"),
    "clock_bound": (units.parse_duration, "<1ms"),
    "network": (bit_rate_of, ">=50Mbit/s"),
}
"""Quantities of a host that can be required: the parser of the value (a count, bytes, nanoseconds or bytes per second),
and an example."""


def read_bound(quantity: str, text: str) -> tuple[Operator, float]:
    """Operator and value of a bound such as ">=4GB". `quantity`: a key of BOUNDS. Raises UnitError."""
    parse, example = BOUNDS[quantity]
    parts = _BOUND.match(text)
    if parts is None:
        raise units.UnitError(f'expected a bound such as "{example}", got {shown(text)}')
    operator: Operator = "<"
    match parts[1]:
        case "<=" | ">=" | ">" as other:
            operator = other
    return operator, float(parse(parts[2]))


def _bound(quantity: str) -> Any:
    def check(value: object) -> str:
        read_bound(quantity, value if isinstance(value, str) else shown(value))
        return str(value)

    schema = {"type": "string", "pattern": r"^\s*(<=|>=|<|>)", "examples": [BOUNDS[quantity][1]]}
    return (PlainValidator(check), WithJsonSchema(schema))


class RequireRaw(Raw):
    """Requirements for a host."""

    cores: Annotated[str, *_bound("cores")] | None = None
    memory: Annotated[str, *_bound("memory")] | None = None
    rtt: Annotated[str, *_bound("rtt")] | None = None
    clock_bound: Annotated[str, *_bound("clock_bound")] | None = None
    network: Annotated[str, *_bound("network")] | None = None
    architecture: PlainText | None = None


def _ports(value: object) -> tuple[int, int]:
    match = _PORTS.match(value) if isinstance(value, str) else None
    low, high = (int(match[1]), int(match[2])) if match else (value, value)
    if not isinstance(low, int) or not isinstance(high, int) or isinstance(value, bool):
        raise PydanticCustomError(
            "ports", "expected ports such as 4000..4100, got {shown}", {"shown": shown(value)}
        )
    if not 1 <= low <= high <= 65535:
        raise PydanticCustomError(
            "ports", "expected ports from 1 to 65535, the lower first, got {shown}", {"shown": shown(value)}
        )
    return low, high


Ports = Annotated[
    tuple[int, int],
    PlainValidator(_ports),
    PlainSerializer(lambda v: f"{v[0]}..{v[1]}", return_type=str),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": r"^\s*[0-9]+\s*\.\.\s*[0-9]+\s*$"}, {"type": "integer"}]}
    ),
]
"""The first and the last port of a range; a single port is both."""


def _capacity(value: object) -> float:
    try:
        return bit_rate_of(value)
    except units.UnitError:
        raise PydanticCustomError(
            "capacity",
            "expected the capacity of a link such as 10Gbit/s, got {shown}",
            {"shown": shown(value)},
        ) from None


Capacity = Annotated[
    float,
    PlainValidator(_capacity),
    PlainSerializer(lambda v: f"{v * 8 / 1e6:g}Mbit/s", return_type=str),
    WithJsonSchema(
        {"type": "string", "pattern": _BITS.pattern.replace(r"\Z", "$"), "examples": ["10Gbit/s"]}
    ),
]
"""The capacity of a link, bytes per second."""


class HostRaw(Raw):
    """One host. `host`: the address for ssh; `name`: the name in the results, if `host` is not valid in file names;
    `agents`: 0 for a host that runs only services; `link`: the capacity of its network, if it is known better than it
    can be measured; `limits`: of each of its agents, instead of those of the section."""

    host: HostName
    name: AgentName | None = None
    agents: Annotated[int, Field(ge=0, le=1000)] | None = None
    user: UserName | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    link: Capacity | None = None
    limits: LimitsRaw | None = None


def _host(value: object) -> object:
    return {"host": value} if isinstance(value, str) else value


def _show_host(value: HostRaw) -> object:
    fields = value.model_dump(exclude_none=True)
    return fields["host"] if len(fields) == 1 else fields


AnyHost = Annotated[
    HostRaw, BeforeValidator(_host), PlainSerializer(_show_host), ShortForm({"type": "string"})
]
"""A host, or only its name."""
SomeHosts = Annotated[list[AnyHost], Field(min_length=1, max_length=100_000)]


class SshRaw(Raw):
    """How ssh is called. `options` precede those of Plimsoll, so they take precedence."""

    config: PlainText | None = None
    options: list[PlainText] = Field(default_factory=list)
    unknown_host_keys: Literal["refuse", "accept"] = "refuse"


Agents = Annotated[int, Field(ge=1, le=65_535)]
"""The engine numbers the agents of a run with 16 bits."""


class SlurmRaw(Raw):
    """A Slurm array job. `options`: further options of sbatch."""

    partition: PlainText | None = None
    time: Duration | None = None
    options: list[PlainText] = Field(default_factory=list)
    tasks: Agents


class DaskRaw(Raw):
    """The scheduler of a running cluster."""

    address: PlainText


class GramRaw(Raw):
    """Jobs of a GRAM gatekeeper. `request`: further relations of each job, in its own language (RSL)."""

    contact: Annotated[PlainText, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[^\s\"]*)?(:.+)?$")]
    request: Annotated[PlainText, Field(pattern=r"^\(.*\)$")] | None = None
    scratch: Annotated[PlainText, Field(pattern=r"^/[^\s\"]*$")] = "/tmp"
    agents: Agents


class JoinRaw(Raw):
    """Agents started by any batch system. `submit`: the command that submits the filled `template`,
    with `{file}` as its path."""

    submit: Annotated[list[Text], Field(min_length=1)] | None = None
    template: PlainText | None = None
    agents: Agents


class ControllerRaw(Raw):
    """The address at which agents and testers reach this host, and the ports that it may use."""

    address: HostName
    ports: Ports | None = None


class HostClockRaw(Raw):
    """Assumptions about clocks and network paths."""

    physical_min_rtt: Duration = 0
    max_rate_error_ppm: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)] = 500.0


class HostsRaw(Raw):
    """Where testers run."""

    kind: HostKind = "local"
    sites: dict[Name, SomeHosts] | None = None
    hosts: SomeHosts | None = None
    agents: Annotated[int, Field(ge=1, le=1000)] = 1
    use: Count | None = None
    at_least: Count | None = None
    require: RequireRaw | None = None
    baseline: bool = False
    limits: LimitsRaw | None = None
    ssh: SshRaw | None = None
    slurm: SlurmRaw | None = None
    dask: DaskRaw | None = None
    gram: GramRaw | None = None
    join: JoinRaw | None = None
    testbed: PlainText | None = None
    links: dict[Name, LinkChangesRaw] | None = None
    directory: Directory | None = None
    keep: Literal["engine", "nothing"] | None = None
    link: Literal["ssh", "tcp", "quic"] | None = None
    controller: ControllerRaw | None = None
    wait: Duration = 600 * NS["s"]
    link_grace: Duration = 60 * NS["s"]
    on_agent_loss: Literal["continue", "abort"] = "continue"
    clock: HostClockRaw = Field(default_factory=HostClockRaw)
