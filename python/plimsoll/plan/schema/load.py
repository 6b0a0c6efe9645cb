"""Raw model of `workload:`, `workloads:` and `load:`. It checks the form only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.broker import BrokerSection
from plimsoll.plan.drivers.catalogue import CatalogueSection
from plimsoll.plan.drivers.exec import ExecSection
from plimsoll.plan.drivers.frontier import FrontierSection
from plimsoll.plan.drivers.ftp import FtpSection
from plimsoll.plan.drivers.http import HttpSection
from plimsoll.plan.drivers.ldap import LdapSection
from plimsoll.plan.drivers.null import NullSection
from plimsoll.plan.drivers.replay import ReplaySection
from plimsoll.plan.drivers.section import MixEntry
from plimsoll.plan.drivers.sql import SqlSection
from plimsoll.plan.drivers.tcp import TcpSection
from plimsoll.plan.queries.sections import CondDbWork, CoolWork, TableWork
from plimsoll.plan.schema.session import SessionRaw
from plimsoll.plan.source.fields import (
    Count,
    Dist,
    Drawn,
    Duration,
    Labels,
    PlainText,
    Rate,
    RateRange,
    Raw,
    ShortForm,
    Testers,
    Text,
    null_word,
    shown,
)
from plimsoll.plan.source.units import NS


class Ramp(Raw):
    """Testers that join one after the other."""

    testers: Testers | None = None
    per_host: Testers | None = None
    every: Duration
    life: Duration | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Ramp:
        if (self.testers is None) == (self.per_host is None):
            raise PydanticCustomError("ramp", "a ramp needs either testers or per_host")
        if self.every == 0 and (self.testers or self.per_host or 0) > 1:
            raise PydanticCustomError("ramp", "`every` must be longer than 0s")
        if self.life == 0:
            raise PydanticCustomError("ramp", "`life` must be longer than 0s")
        return self


class Stage(Raw):
    """One part of a staged load."""

    for_: Duration = Field(alias="for")
    testers: Testers | None = None
    per_host: Testers | None = None
    rate: RateRange | None = None
    name: PlainText | None = None

    @property
    def is_closed(self) -> bool:
        """Whether it has testers, not a rate."""
        return self.rate is None

    @model_validator(mode="after")
    def _check_one(self) -> Stage:
        if sum(value is not None for value in (self.testers, self.per_host, self.rate)) != 1:
            raise PydanticCustomError("stage", "a stage needs either testers, per_host or a rate")
        if self.for_ == 0:
            raise PydanticCustomError("stage", "`for` must be longer than 0s")
        return self


class LoadRaw(Raw):
    """When requests start."""

    testers: Testers | None = None
    per_host: Testers | None = None
    think: Drawn | None = None
    every: Duration | None = None
    late: Literal["skip", "catch-up"] | None = None
    life: Duration | None = None
    rate: Rate | None = None
    arrivals: Literal["poisson", "even"] | None = None
    in_flight: Testers | None = None
    when_full: Literal["wait", "drop"] | None = None
    ramp: Ramp | None = None
    stages: list[Stage] | None = Field(default=None, min_length=1)
    replay: Literal["log"] | None = None

    @model_validator(mode="after")
    def _check_one_kind(self) -> LoadRaw:
        leads = [
            key
            for key in ("testers", "per_host", "rate", "ramp", "stages", "replay")
            if getattr(self, key) is not None
        ]
        if len(leads) != 1:
            got = f"got {' and '.join(leads)}" if leads else "got none of them"
            raise PydanticCustomError(
                "load",
                "give one of testers or per_host (with think or every), rate, ramp, stages, replay; {got}",
                {"got": got},
            )
        self._check_keys(leads[0])
        if self.every == 0 or self.life == 0:
            key = "every" if self.every == 0 else "life"
            raise PydanticCustomError("load", "`{key}` must be longer than 0s", {"key": key})
        return self

    @property
    def per_host_keys(self) -> list[tuple[str | int, ...]]:
        """Paths below the load of each `per_host`."""
        found: list[tuple[str | int, ...]] = [("per_host",)] if self.per_host is not None else []
        if self.ramp is not None and self.ramp.per_host is not None:
            found.append(("ramp", "per_host"))
        stages = enumerate(self.stages or ())
        return found + [("stages", at, "per_host") for at, stage in stages if stage.per_host is not None]

    def _check_keys(self, lead: str) -> None:
        """Rejects keys without effect in this kind of load: a reader would believe that they have an effect."""
        open_keys = {"arrivals", "in_flight", "when_full"}
        closed = {"every", "late"} if self.every is not None else {"think"}
        has_testers = lead == "stages" and any(stage.is_closed for stage in self.stages or ())
        allowed = {
            "testers": closed,
            "per_host": closed,
            "rate": open_keys,
            "ramp": closed,
            "stages": self._stage_keys(closed, open_keys),
            "replay": open_keys - {"arrivals"},
        }[lead]
        keys_of_kinds = ("think", "every", "late", "life", *open_keys)
        wrong = sorted({key for key in keys_of_kinds if getattr(self, key) is not None} - allowed)
        if wrong:
            slotted = self.every is not None and (lead in ("testers", "per_host", "ramp") or has_testers)
            kind = f"{lead} with `every`" if slotted else lead
            keys = ", ".join(sorted(allowed))
            known = f"the allowed keys are {keys}" if allowed else "no further keys are allowed"
            raise PydanticCustomError(
                "load",
                "{wrong} has no effect in a load of {kind}: {known}{hint}",
                {"wrong": " and ".join(wrong), "kind": kind, "known": known, "hint": _hint(lead, wrong)},
            )

    def _stage_keys(self, closed: set[str], open_keys: set[str]) -> set[str]:
        stages = self.stages or []
        of_testers = {*closed, "life"} if any(stage.is_closed for stage in stages) else set()
        return of_testers | (open_keys if any(not stage.is_closed for stage in stages) else set())


def _hint(lead: str, wrong: Sequence[str]) -> str:
    """What to write instead of a key without effect."""
    if lead == "ramp" and "life" in wrong:
        return "; write the life inside the ramp: ramp: {..., life: 1h}"
    if "late" in wrong and lead in ("testers", "per_host", "ramp", "stages"):
        return "; late needs `every`, the interval between the requests of a tester"
    if lead in ("testers", "per_host") and "life" in wrong:
        return "; run.duration ends all testers, and a ramp has a life for each"
    return ""


class Pair(Raw):
    """Two whole numbers, written as `[from, to]`."""

    low: Annotated[int, Field(ge=-(2**62), le=2**62)]
    high: Annotated[int, Field(ge=-(2**62), le=2**62)]


def _pair(value: object) -> object:
    if isinstance(value, list) and len(value) == 2:
        return {"low": value[0], "high": value[1]}
    raise PydanticCustomError(
        "pair", "expected two whole numbers [from, to], got {shown}", {"shown": shown(value)}
    )


class Zipf(Raw):
    """Ranks 1 to n. The probability of rank k is proportional to k to the power -s."""

    n: Count
    s: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0


class ValuesRaw(Raw):
    """The source of the values of a `{name}`: exactly one of uniform, zipf, list, file."""

    uniform: Annotated[
        Pair | None,
        BeforeValidator(_pair),
        PlainSerializer(lambda v: None if v is None else [v.low, v.high]),
        WithJsonSchema({"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer"}}),
    ] = None
    zipf: Zipf | None = None
    list_: list[PlainText] | None = Field(default=None, alias="list", min_length=1)
    file: PlainText | None = None
    order: Literal["sequential", "random", "zipf"] | None = None
    s: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> ValuesRaw:
        if sum(value is not None for value in (self.uniform, self.zipf, self.list_, self.file)) != 1:
            raise PydanticCustomError("values", "give exactly one of uniform, zipf, list, file")
        if self.order is not None and self.list_ is None and self.file is None:
            raise PydanticCustomError("values", "order needs list or file")
        if self.s is not None and self.order != "zipf":
            raise PydanticCustomError("values", "s, the exponent of Zipf's law, needs `order: zipf`")
        if self.uniform is not None and self.uniform.low > self.uniform.high:
            raise PydanticCustomError(
                "values", "the first number of uniform must not be greater than the second"
            )
        return self


class Backoff(Raw):
    """Waits `first` after a failure, and twice as long after each further consecutive failure, up
    to `max`. `when`: after any failure, or only when there was no connection."""

    first: Duration = 100 * NS["ms"]
    max: Duration = 10 * NS["s"]
    when: Literal["failed", "refused"] = "failed"


class StopTester(Raw):
    """Stops a tester after the given number of consecutive failures."""

    after: Count = 5


class OnErrorRaw(Raw):
    """What a tester does after a failure. Without a key it continues."""

    backoff: Backoff | None = None
    stop_tester: StopTester | None = Field(default=None, alias="stop-tester")

    @model_validator(mode="after")
    def _check_one(self) -> OnErrorRaw:
        if self.backoff is not None and self.stop_tester is not None:
            raise PydanticCustomError("on_error", "give one of continue, backoff, stop-tester")
        return self


def usual_on_error() -> OnErrorRaw:
    """The default: with a dead port, a tester without a pause measures only refused connections,
    and keeps the host from restarting the service."""
    return OnErrorRaw.model_validate({"backoff": {"first": "100ms", "max": "1s", "when": "refused"}})


def _on_error(value: object) -> object:
    if value == "continue":
        return {}
    if value in ("backoff", "stop-tester"):
        return {value: {}}
    if isinstance(value, dict) and value:
        return value
    raise PydanticCustomError(
        "on_error", "expected continue, backoff or stop-tester, got {shown}", {"shown": shown(value)}
    )


def _show_on_error(value: Any) -> Any:
    dumped = value.model_dump(by_alias=True, exclude_none=True)
    return dumped or "continue"


OnError = Annotated[
    OnErrorRaw,
    BeforeValidator(_on_error),
    PlainSerializer(_show_on_error),
    ShortForm({"enum": ["continue", "backoff", "stop-tester"]}),
]


class WorkloadRaw(Raw):
    """The requests and their target. The sections of drivers that are not selected are allowed,
    because levels can select them."""

    driver: Annotated[
        Literal[
            "broker", "catalogue", "exec", "frontier", "ftp", "http", "ldap", "null", "replay", "sql", "tcp"
        ],
        BeforeValidator(null_word),
    ]
    target: Text | None = None
    site: Labels | None = None
    timeout: Duration = 60 * NS["s"]
    on_error: OnError = Field(default_factory=usual_on_error)
    values: dict[str, ValuesRaw] = Field(default_factory=dict)
    mix: list[MixEntry] | None = Field(default=None, min_length=1)
    session: SessionRaw | None = None
    table: TableWork | None = None
    cool: CoolWork | None = None
    conddb: CondDbWork | None = None
    broker: BrokerSection | None = None
    catalogue: CatalogueSection | None = None
    exec: ExecSection | None = None
    frontier: FrontierSection | None = None
    ftp: FtpSection | None = None
    http: HttpSection | None = None
    ldap: LdapSection | None = None
    null: NullSection | None = None
    replay: ReplaySection | None = None
    sql: SqlSection | None = None
    tcp: TcpSection | None = None

    @model_validator(mode="after")
    def _check_timeout(self) -> WorkloadRaw:
        if self.timeout == 0:
            raise PydanticCustomError("timeout", "timeout must be longer than 0s")
        return self


class PopulationRaw(WorkloadRaw):
    """One of several populations: a workload with its own load."""

    load: LoadRaw


__all__ = ["Dist", "LoadRaw", "MixEntry", "PopulationRaw", "WorkloadRaw"]
