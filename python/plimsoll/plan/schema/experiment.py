"""The raw model of an experiment file: one pydantic model, from which the JSON Schema for editors is also made.

It checks the form only: keys, types, units, and keys of a section that exclude each other. References (a target that
is not a service, a factor in `exclude`) are checked by `resolve` and `design`, which create the resolved model of
`model.py`. Raw models are frozen.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from plimsoll.plan.actions.command import HookRaw
from plimsoll.plan.actions.table import AnyAction
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.schema.data import DataRaw
from plimsoll.plan.schema.hosts import HostsRaw
from plimsoll.plan.schema.load import LoadRaw, PopulationRaw, WorkloadRaw
from plimsoll.plan.schema.search import SearchRaw
from plimsoll.plan.schema.targets import TargetRaw
from plimsoll.plan.services.table import AnyService
from plimsoll.plan.source.fields import (
    Cores,
    Count,
    Duration,
    Fraction,
    Label,
    Labels,
    MetricName,
    Name,
    PlainText,
    Raw,
    Seed,
    ShortForm,
    format_version,
    shown,
)
from plimsoll.plan.source.price import HourlyPrice
from plimsoll.plan.source.units import NS

FORMAT_VERSION = 1
REPETITION: Final = "repetition"
"""The name that `block` accepts in addition to factors."""
MIN_LOOK: Final = 5
MAX_LOOK: Final = 40
"""Numbers of repetitions for which the error rate of `repetitions: {until: ...}` is known."""


class CpusRaw(Raw):
    """The cores to which testers and services are bound."""

    mode: Literal["auto", "none", "set"] = "set"
    testers: Cores = Field(default_factory=list)
    services: dict[str, Cores] = Field(default_factory=dict)


def _cpus(value: object) -> object:
    if value in ("auto", "none"):
        return {"mode": value}
    if isinstance(value, dict):
        return value
    raise PydanticCustomError(
        "cpus",
        "expected auto, none or a mapping with testers and services, got {shown}",
        {"shown": shown(value)},
    )


def _show_cpus(value: Any) -> Any:
    return value.mode if value.mode != "set" else {"testers": value.testers, "services": value.services}


Cpus = Annotated[
    CpusRaw, BeforeValidator(_cpus), PlainSerializer(_show_cpus), ShortForm({"enum": ["auto", "none"]})
]


class Until(Raw):
    """Ends a run by counts instead of by time. The first limit that is reached ends the run."""

    each_tester: Count | None = None
    transactions: Count | None = None

    @model_validator(mode="after")
    def _check_one_limit(self) -> Until:
        if self.each_tester is None and self.transactions is None:
            raise PydanticCustomError("until", "give each_tester or transactions")
        return self


class RunRaw(Raw):
    """The length of a run, and what is kept of it."""

    warmup: Duration = 0
    duration: Duration | None = None
    until: Until | None = None
    drain: Duration = 10 * NS["s"]
    pause: Duration = 0
    keep: Literal["all", "summaries"] = "all"
    spin: Annotated[Duration, Field(le=NS["s"])] = 0


class RatioRaw(Raw):
    """The ratio of two metrics."""

    of: Annotated[PlainText, MetricName(Use.RESPONSE)]
    to: Annotated[PlainText, MetricName(Use.RESPONSE)]


Over = Annotated[Literal["peak"] | None, WithJsonSchema({"enum": ["peak"]})]
"""The window of a metric, if it is not the measured one."""


class ResponseRaw(Raw):
    """A response for which effects are computed: a metric, or a named ratio of two metrics."""

    metric: Annotated[PlainText, MetricName(Use.RESPONSE)] | None = None
    name: Name | None = None
    ratio: RatioRaw | None = None
    over: Over = None
    where: Annotated[dict[Literal["operation", "workload", "first"], PlainText], Field(max_length=1)] = Field(
        default_factory=dict
    )
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _check_one_metric(self) -> ResponseRaw:
        if self.metric is None and self.ratio is None:
            raise PydanticCustomError(
                "response",
                "required key missing: metric, or name and ratio, such as {name: reads_per_hit, ratio: "
                "{of: counter.db.blks_read, to: counter.squid.client_http.hits}}",
            )
        if self.metric is not None and self.ratio is not None:
            raise PydanticCustomError("response", "give either metric or ratio")
        if (self.name is None) != (self.ratio is None):
            raise PydanticCustomError("response", "name and ratio must be given together")
        return self


class ChartRaw(Raw):
    """A chart of the report: metrics over a factor or a metric, with a colour for each level of the factors of `by`
    (None: of all other factors)."""

    x: Label
    y: Annotated[Labels, Field(min_length=1, max_length=8)]
    by: Labels | None = None


class UsableRuleRaw(Raw):
    """A rule of the usable capacity, on any metric of thresholds."""

    metric: Annotated[PlainText, MetricName(Use.RULE)]
    test: PlainText
    over: Over = None
    where: dict[Literal["operation", "workload", "first"], PlainText] = Field(default_factory=dict)


class CapacityRaw(Raw):
    """The rules for usable and error-limited capacity: on the response time, on further metrics, and on the errors."""

    response: PlainText | None = None
    errors: PlainText | None = None
    where: dict[Literal["operation", "workload"], PlainText] = Field(default_factory=dict)
    usable: Annotated[list[UsableRuleRaw], Field(max_length=10)] = Field(default_factory=list)


class ThresholdRaw(Raw):
    """A rule, checked for each cell. If it fails, the exit code is 99."""

    metric: Annotated[PlainText, MetricName(Use.RULE)]
    test: PlainText
    over: Over = None
    where: dict[str, Labels] = Field(default_factory=dict)


class CeilingRaw(Raw):
    """A rule that stops a run after it has held for the given time."""

    metric: Annotated[PlainText, MetricName(Use.CEILING)]
    test: PlainText
    for_: Annotated[Duration, Field(ge=NS["s"])] = Field(default=10 * NS["s"], alias="for")


class ValidityRaw(Raw):
    """When a run is invalid because the load generator was the bottleneck."""

    tester_cpu: Fraction = 0.98
    started: Fraction = 0.99
    lateness_share: Fraction = 0.1
    lateness_floor: Duration = NS["ms"]
    gaps: Fraction = 0.01
    steal: Fraction = 0.05
    requests: Fraction = 0.01
    success: bool = True
    trend: bool = True


class UntilRaw(Raw):
    """Repetitions until the intervals of the named metrics are narrow enough."""

    until: Annotated[dict[PlainText, Fraction], Field(min_length=1)]
    at_least: Annotated[int, Field(ge=MIN_LOOK, le=MAX_LOOK)] = MIN_LOOK
    max_repetitions: Annotated[int, Field(ge=MIN_LOOK, le=MAX_LOOK)] = 20

    @model_validator(mode="after")
    def _check(self) -> UntilRaw:
        if self.at_least > self.max_repetitions:
            raise PydanticCustomError("until", "max_repetitions must not be less than at_least")
        if any(share == 0 for share in self.until.values()):
            raise PydanticCustomError("until", "expected a share above 0 %, such as 5%")
        return self


Repetitions = Annotated[
    Annotated[int, Field(ge=1, le=100_000), Tag("a number")] | Annotated[UntilRaw, Tag("a rule")],
    Discriminator(lambda value: "a rule" if isinstance(value, (dict, UntilRaw)) else "a number"),
]


class DesignRaw(Raw):
    """Which combinations of levels are run, how often and in which order."""

    kind: Literal["full-factorial", "one-at-a-time", "2^k", "table"] | None = None
    table: PlainText | None = None
    repetitions: Repetitions = 1
    order: Literal["random", "listed"] = "random"
    seed: Seed | None = None
    base: dict[str, Label] = Field(default_factory=dict)
    exclude: list[dict[str, Labels]] = Field(default_factory=list)
    block: Labels = Field(default_factory=list)
    loop: Labels = Field(default_factory=list)
    pair: Label | None = None
    control: bool = False
    drift: Annotated[Labels, Field(max_length=8)] = Field(default_factory=list)

    @property
    def until(self) -> UntilRaw | None:
        """The rule that ends the repetitions; None if their number is fixed."""
        return self.repetitions if isinstance(self.repetitions, UntilRaw) else None

    @property
    def max_repetitions(self) -> int:
        """The number of repetitions, or its maximum."""
        return self.repetitions if isinstance(self.repetitions, int) else self.repetitions.max_repetitions

    @property
    def blocks(self) -> Labels:
        """The blocks, from the outermost one. With `until` or `pair`, each repetition of all cells is one."""
        return self.block or ([REPETITION] if self.until is not None or self.pair is not None else [])

    @model_validator(mode="after")
    def _check_table_and_base(self) -> DesignRaw:
        if (self.kind == "table") != (self.table is not None) and self.kind is not None:
            raise PydanticCustomError("design", "`kind: table` and `table: FILE.csv` must be given together")
        if self.base and self.kind != "one-at-a-time":
            raise PydanticCustomError("design", "base needs `kind: one-at-a-time`")
        if self.until is not None and self.block[:1] not in ([], [REPETITION]):
            raise PydanticCustomError(
                "design", "with `until`, each repetition is a block: `block` must begin with repetition"
            )
        return self

    @model_validator(mode="after")
    def _check_pair(self) -> DesignRaw:
        if self.pair is None:
            if self.control or self.drift:
                key = "control" if self.control else "drift"
                raise PydanticCustomError("design", f"{key} needs `pair: FACTOR`")
            return self
        if self.kind in ("one-at-a-time", "table") or self.table is not None:
            raise PydanticCustomError("design", "pair needs `kind: full-factorial` or `kind: 2^k`")
        if self.block not in ([], [REPETITION]):
            raise PydanticCustomError(
                "design", "with `pair`, each repetition is a block: expected `block: repetition`"
            )
        if self.loop:
            raise PydanticCustomError("design", "pair states the innermost order of the runs: remove loop")
        if self.max_repetitions < 2:
            raise PydanticCustomError(
                "design",
                "pair needs `repetitions` of at least 2, because the differences between runs are unknown with one; "
                "6 or more are recommended",
            )
        return self


LOAD_MISSING: Final = (
    "required key missing: load states when requests start, for example `load: {testers: 4}`"
)


class ExperimentRaw(Raw):
    """A whole experiment file."""

    plimsoll: Annotated[int, format_version(FORMAT_VERSION), WithJsonSchema({"const": FORMAT_VERSION})]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    question: PlainText = ""
    vars: dict[Name, Any] = Field(default_factory=dict)
    services: dict[Name, AnyService] = Field(default_factory=dict)
    data: dict[Name, DataRaw] = Field(default_factory=dict)
    targets: dict[Name, TargetRaw] = Field(default_factory=dict)
    workload: WorkloadRaw | None = None
    workloads: dict[Name, PopulationRaw] | None = None
    load: LoadRaw | None = None
    factors: dict[str, Any] = Field(default_factory=dict)
    design: DesignRaw = Field(default_factory=DesignRaw)
    search: SearchRaw | None = None
    run: RunRaw
    cpus: Cpus | None = None
    costs: dict[PlainText, HourlyPrice] = Field(default_factory=dict)
    responses: list[ResponseRaw] = Field(default_factory=list)
    charts: Annotated[list[ChartRaw], Field(max_length=20)] = Field(default_factory=list)
    capacity: CapacityRaw = Field(default_factory=CapacityRaw)
    thresholds: list[ThresholdRaw] = Field(default_factory=list)
    ceiling: list[CeilingRaw] = Field(default_factory=list)
    validity: ValidityRaw = Field(default_factory=ValidityRaw)
    before_run: list[HookRaw] = Field(default_factory=list)
    after_run: list[HookRaw] = Field(default_factory=list)
    actions: Annotated[list[AnyAction], Field(max_length=100)] = Field(default_factory=list)
    hosts: Annotated[HostsRaw, ShortForm({"type": "string", "examples": ["hosts.yaml"]})] = Field(
        default_factory=HostsRaw
    )

    @model_validator(mode="after")
    def _check_sections_together(self) -> ExperimentRaw:
        return self.check_sections()

    def check_sections(self) -> ExperimentRaw:
        """Returns the file. Raises PydanticCustomError if valid sections do not fit together."""
        if (self.workload is None) == (self.workloads is None):
            raise PydanticCustomError(
                "workload", "give either workload (one population) or workloads (several)"
            )
        if self.workload is not None and self.load is None:
            raise PydanticCustomError("load", LOAD_MISSING)
        if self.workloads is not None and self.load is not None:
            raise PydanticCustomError(
                "load", "load applies only to workload; each entry of workloads has its own load"
            )
        if self.workloads is not None and not self.workloads:
            raise PydanticCustomError("workload", "workloads is empty: give at least one population")
        return self


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of an experiment file, for editors: `plimsoll schema`."""
    schema = ExperimentRaw.model_json_schema(by_alias=True, mode="validation")
    _drop_numbers_as_defaults(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plimsoll experiment file",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _drop_numbers_as_defaults(node: Any) -> None:
    """Removes defaults that the file does not accept: a default of 60000000000 for a text such as "60s" would mislead.
    The reference of the file lists all defaults."""
    if isinstance(node, dict):
        default = node.get("default")
        if "default" in node and (node.get("type") == "string" or "anyOf" in node or "$ref" in node):
            if not isinstance(default, str):
                del node["default"]
        elif isinstance(default, (list, dict)):
            del node["default"]
        for value in node.values():
            _drop_numbers_as_defaults(value)
    elif isinstance(node, list):
        for value in node:
            _drop_numbers_as_defaults(value)
