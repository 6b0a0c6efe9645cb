"""Raw model of `data:`. It checks the form only."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.source.fields import Count, Fraction, Name, PlainText, Raw, Seed, Size

ColumnType = Literal["text", "int", "float", "double", "time", "blob"]


NUMBER_BYTES: Final = 8
"""Length of a number or a time of the payload of COOL data, as in the engine."""


class TableData(Raw):
    """A table that is written before the runs. Its key is its name. `tables`: writes NAME_1,
    NAME_2, ... instead; `versions`: adds a column that writers change."""

    into: Name
    kind: Literal["table"] = "table"
    rows: Count
    row: Annotated[Size, Field(ge=1, le=16_000_000)]
    compressibility: Annotated[Fraction, Field(le=0.95)] = 0.0
    columns: Annotated[int, Field(ge=1, le=1000)] = 1
    types: list[ColumnType] = Field(default_factory=list)
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
    types: list[ColumnType] = Field(default_factory=list)
    compressibility: Annotated[Fraction, Field(le=0.95)] = 0.0
    seed: Seed = 1

    @model_validator(mode="after")
    def _check_payload(self) -> CoolData:
        count = self.columns or len(self.types)
        kinds = [self.types[index % len(self.types)] for index in range(count if self.types else 0)]
        strings = sum(kind in ("text", "blob") for kind in kinds)
        least = NUMBER_BYTES * (len(kinds) - strings) + strings
        if kinds and (self.payload < least or (strings == 0 and self.payload > least)):
            raise PydanticCustomError(
                "payload",
                "with these types, payload must be {bound} {least} B ({size} B for each number or time{rest}), got "
                "{payload} B",
                {
                    "bound": "at least" if strings else "exactly",
                    "least": least,
                    "size": NUMBER_BYTES,
                    "rest": ", at least 1 B for each string" if strings else "",
                    "payload": self.payload,
                },
            )
        return self


class CondDbData(Raw):
    """A conditions database in the layout of CMS and CREST: several tables, whose names begin with
    `prefix`."""

    into: Name
    kind: Literal["conddb"]
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,39})?$")] = ""
    global_tags: Annotated[int, Field(ge=1, le=10_000)] = 1
    tags: Annotated[int, Field(ge=1, le=10_000)]
    iovs: Annotated[int, Field(ge=1, le=2**48)]
    payloads: Annotated[int, Field(ge=1, le=2**48)] | None = None
    payload: Annotated[Size, Field(ge=1, le=16_000_000)]
    compressibility: Annotated[Fraction, Field(le=0.95)] = 0.0
    seed: Seed = 1

    @model_validator(mode="after")
    def _check_payloads(self) -> CondDbData:
        if self.payloads is not None and self.payloads > self.iovs:
            raise PydanticCustomError("payloads", "payloads (of each tag) must be at most iovs")
        return self


class CatalogueData(Raw):
    """A file catalogue in the layout of LFC: directories, entries and their replicas."""

    into: Name
    kind: Literal["catalogue"]
    entries: Annotated[int, Field(ge=1, le=100_000_000)]
    directory: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    replicas: Annotated[int, Field(ge=1, le=20)] = 1
    owner: Annotated[str, Field(pattern=r"^[ -~]{1,255}$")] = "/O=Plimsoll/CN=owner"
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
    Annotated[TableData | CoolData | CondDbData | CatalogueData | SqlData, Field(discriminator="kind")],
    BeforeValidator(_with_kind),
]
