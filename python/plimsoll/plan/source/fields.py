"""The types of values in an experiment file.

Each converts the text of the file into the internal value (a duration into nanoseconds), states in
its error what was expected, returns the text when the effective configuration is written, and
describes itself to the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.functional_validators import PlainValidator
from pydantic_core import CoreSchema, PydanticCustomError

from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.source import units
from plimsoll.plan.source.secret import HIDDEN, Secret


class Raw(BaseModel):
    """Base of all models of an experiment file: unknown keys are rejected, types are not converted.

    A validator is built at its first use: every command imports all models, and an experiment file
    uses few of them.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, defer_build=True
    )


class ShortForm:
    """Marks a mapping that may also be written in a short form, for the JSON Schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [self.schema, handler(core)]}


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


def _quantity(parse: Callable[[object], Any], show: Callable[[Any], str], pattern: str, example: str) -> Any:
    return (PlainValidator(parse), PlainSerializer(show, return_type=str), _schema(pattern, example))


Duration = Annotated[
    int, *_quantity(units.parse_duration, units.show_duration, units.DURATION_PATTERN, "30s")
]
"""Nanoseconds."""

Size = Annotated[int, *_quantity(units.parse_size, units.show_size, units.SIZE_PATTERN, "10kB")]
"""Bytes."""

Rate = Annotated[float, *_quantity(units.parse_rate, units.show_rate, units.RATE_PATTERN, "500/s")]
"""Per second."""

RateRange = Annotated[
    tuple[float, float],
    *_quantity(
        units.parse_rate_range, units.show_rate_range, units.RATE_PATTERN[:-1] + r"(\.\..*)?$", "50/s..500/s"
    ),
]
"""Per second, at start and end."""

Fraction = Annotated[
    float, *_quantity(units.parse_fraction, units.show_fraction, units.FRACTION_PATTERN, "10%")
]
"""0 to 1."""


def text_of(value: object) -> str | Secret:
    """A value as text: numbers and booleans as they are written; a secret stays a secret."""
    if isinstance(value, (str, Secret)):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise PydanticCustomError("text", "expected a string, got {shown}", {"shown": shown(value)})


def label_of(value: object) -> str:
    """The label of a level: its value as text, so that 1 and "1" are the same level."""
    text = text_of(value)
    if isinstance(text, Secret):
        raise PydanticCustomError("text", "a secret cannot be used as a name")
    return text


def plain_text_of(value: object) -> str:
    """A text that is stored and shown, so it cannot be a secret."""
    text = text_of(value)
    if isinstance(text, Secret):
        raise PydanticCustomError(
            "text",
            "a secret is not allowed here: it is allowed in headers, bodies, environments, commands and proxies",
        )
    return text


def null_word(value: object) -> object:
    """The word null. Without quotes, YAML reads it as "no value"."""
    return "null" if value is None else value


def shown(value: object) -> str:
    """An invalid value for a message: its type for a mapping or a list, otherwise its text, at most 60 characters."""
    if value is None:
        return "nothing"
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"a mapping ({', '.join(map(str, list(value)[:4]))})" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of length {len(value)}"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


_SECRET_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"secret": {"type": "string"}},
    "required": ["secret"],
    "additionalProperties": False,
}
_SCALAR_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean"]}

Text = Annotated[
    str | Secret,
    PlainValidator(text_of),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"anyOf": [_SCALAR_SCHEMA, _SECRET_SCHEMA]}),
]
"""A text that may be a secret."""

PlainText = Annotated[str, PlainValidator(plain_text_of), WithJsonSchema(_SCALAR_SCHEMA)]
"""A text that cannot be a secret."""


class MetricName:
    """Marks the name of a metric in a section, for the JSON Schema. `experiment` checks the name when the factors are
    known."""

    def __init__(self, use: Use) -> None:
        self.use = use

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return catalogue.METRICS.schema(self.use)


Label = Annotated[str, PlainValidator(label_of), WithJsonSchema(_SCALAR_SCHEMA)]
"""The name of a level."""


def format_version(own: int) -> BeforeValidator:
    """A validator of the first key of a file, the version of its format. It accepts only the version `own`."""

    def check(value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool) and value > own:
            raise PydanticCustomError(
                "version",
                "the file has format {found}, this version of Plimsoll reads format {own}: install a newer "
                "Plimsoll",
                {"found": value, "own": own},
            )
        if value != own or isinstance(value, bool):
            raise PydanticCustomError(
                "version", "expected {own}, got {shown}", {"own": own, "shown": shown(value)}
            )
        return value

    return BeforeValidator(check)


def _labels(value: object) -> object:
    return value if isinstance(value, list) else [value]


_LIST_OF_LABELS: dict[str, Any] = {"anyOf": [_SCALAR_SCHEMA, {"type": "array", "items": _SCALAR_SCHEMA}]}
Labels = Annotated[list[Label], BeforeValidator(_labels), WithJsonSchema(_LIST_OF_LABELS)]
"""One level or a list of levels."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
"""A name of the user: letters, digits, - and _, beginning with a letter or _."""

ServiceReference = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[1-9][0-9]?)?$")]
"""The name of a service, or of one of its instances: `web`, `web.2`."""

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""A number of things, at least one."""

Testers = Annotated[int, Field(ge=1, le=1_000_000)]
Cores = list[Annotated[int, Field(ge=0, le=4095)]]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class UniformDuration(Raw):
    """Two durations, written as `uniform: [from, to]`."""

    low: Duration
    high: Duration


def _pair(value: object) -> object:
    if isinstance(value, list) and len(value) == 2:
        return {"low": value[0], "high": value[1]}
    raise PydanticCustomError(
        "pair", "expected two durations [minimum, maximum], got {shown}", {"shown": shown(value)}
    )


class Dist(Raw):
    """A fixed or random duration: `1s`, `{exponential: 1s}` (its mean), `{uniform: [0s, 2s]}`."""

    fixed: Duration | None = None
    exponential: Duration | None = None
    uniform: Annotated[
        UniformDuration | None,
        BeforeValidator(_pair),
        PlainSerializer(
            lambda v: None if v is None else [units.show_duration(v.low), units.show_duration(v.high)]
        ),
        WithJsonSchema({"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "string"}}),
    ] = None


def _dist(value: object) -> object:
    if not isinstance(value, dict):
        return {"fixed": value}
    if len(value) != 1:
        raise PydanticCustomError("dist", "give one of fixed, exponential, uniform")
    return value


def _show_dist(value: Dist) -> object:
    return (
        units.show_duration(value.fixed) if value.fixed is not None else value.model_dump(exclude_none=True)
    )


Drawn = Annotated[
    Dist,
    BeforeValidator(_dist),
    PlainSerializer(_show_dist),
    ShortForm({"type": "string", "pattern": units.DURATION_PATTERN, "examples": ["1s"]}),
]
"""A fixed or random duration."""


def _argv(value: object) -> object:
    if isinstance(value, str):
        raise PydanticCustomError(
            "argv",
            'expected a list of arguments such as ["squid", "-N", "-f", "{dir}/squid.conf"], got a single string',
        )
    return value


Argv = Annotated[list[Text], BeforeValidator(_argv), Field(min_length=1)]
"""A program and its arguments, without a shell."""
