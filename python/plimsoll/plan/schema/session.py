"""Raw model of `session:` of a workload. It checks the form only."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from plimsoll.plan.source.fields import Argv, Drawn, Raw, ShortForm, shown

Queries = Annotated[int, Field(ge=0, le=100_000)]


class UniformCount(Raw):
    """Two numbers, written as `uniform: [from, to]`."""

    low: Queries
    high: Queries


def _count(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"low": value, "high": value}
    pair = value.get("uniform") if isinstance(value, dict) and len(value) == 1 else None
    if isinstance(pair, list) and len(pair) == 2:
        return {"low": pair[0], "high": pair[1]}
    raise PydanticCustomError(
        "queries",
        "expected a number of queries such as 5, or {uniform: [3, 8]}, got {shown}",
        {"shown": shown(value)},
    )


def _show_count(value: UniformCount) -> Any:
    return value.low if value.low == value.high else {"uniform": [value.low, value.high]}


_PAIR = {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 0}}

DrawnCount = Annotated[
    UniformCount,
    BeforeValidator(_count),
    PlainSerializer(_show_count),
    ShortForm({"type": "integer", "minimum": 0, "examples": [5]}),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"uniform": _PAIR},
            "required": ["uniform"],
            "additionalProperties": False,
        }
    ),
]
"""A fixed or random number."""


class SessionRaw(Raw):
    """An application job as a tester emulates it: a program, then computing with queries at random times."""

    start: Argv | None = None
    compute: Drawn
    busy: bool = False
    queries: DrawnCount
