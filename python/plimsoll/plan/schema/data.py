"""Raw model of `data:`. It checks the form only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from plimsoll.plan.source.fields import Count, Fraction, Name, PlainText, Raw, Seed, Size


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
    """`kind: table` is the default."""
    return {"kind": "table", **value} if isinstance(value, dict) else value


DataRaw = Annotated[
    Annotated[TableData | CoolData | SqlData, Field(discriminator="kind")],
    BeforeValidator(_with_kind),
]
