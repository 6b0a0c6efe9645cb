"""Raw model of the sections from which queries for the drivers `frontier` and `sql` are made: `table:`, `cool:` and
`conddb:` of a workload, `from_log:` of a driver."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.queries.access_line import DurationUnit
from plimsoll.plan.queries.log_fields import FormatError
from plimsoll.plan.queries.log_format import NAMES, line_format
from plimsoll.plan.source.fields import Count, Fraction, PlainText, Raw, Seed, Size, null_word, shown

MAX_JOIN: Final = 60
"""Maximum number of tables of a join. The limit of MariaDB is 61; those of the others are greater."""
MAX_TIMES: Final = 10_000
"""Maximum number of time points of `times`, because they are listed."""
MAX_OBJECTS: Final = 100_000
"""Maximum number of ranges of a table with versions, and of payloads with hashes: they are listed, and the numbers of
ranges are exact as metrics."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?")


def _identifier(value: str) -> str:
    if _IDENTIFIER.fullmatch(value):
        return value
    raise PydanticCustomError(
        "identifier",
        "expected an SQL name (letters, digits and _, optionally with a schema: a.b), got {shown}",
        {"shown": shown(value)},
    )


def _prefix(value: str) -> str:
    return value if not value else _identifier(value)


def _column(value: str) -> str:
    return value if value == "*" else _identifier(value)


Identifier = Annotated[PlainText, AfterValidator(_identifier)]


class TableWork(Raw):
    """`SELECT columns FROM table LIMIT rows`, from one or several tables, with the same or
    different rows. With `join`, each query reads all tables. With versions, it writes or reads the
    rows of an object, which is a range of rows."""

    table: Identifier
    rows: Count = 1000
    columns: list[Annotated[PlainText, AfterValidator(_column)]] = Field(
        default_factory=lambda: ["string"], min_length=1
    )
    tables: Annotated[int, Field(ge=1, le=10_000)] = 1
    join: bool = False
    distinct: Count = 1
    versions: Annotated[Literal["none", "read", "write"], BeforeValidator(null_word)] = "none"
    written: Count | None = None

    @model_validator(mode="after")
    def _join(self) -> TableWork:
        if not self.join:
            return self
        if not 2 <= self.tables <= MAX_JOIN:
            raise PydanticCustomError(
                "join",
                "join needs 2 to {most} tables, got {tables}: set tables, or leave out join",
                {"most": MAX_JOIN, "tables": self.tables},
            )
        if self.versions != "none":
            raise PydanticCustomError(
                "join", "join and versions exclude each other: an object with versions is in one table"
            )
        return self

    @model_validator(mode="after")
    def _versions(self) -> TableWork:
        if self.versions != "none" and self.distinct > MAX_OBJECTS:
            raise PydanticCustomError(
                "distinct",
                "with versions, distinct must be at most {most}, got {distinct}",
                {"most": MAX_OBJECTS, "distinct": self.distinct},
            )
        if self.written is not None and self.versions != "write":
            raise PydanticCustomError(
                "written", "written (the number of rows changed at a time) needs `versions: write`"
            )
        if self.written is not None and self.written > self.rows:
            raise PydanticCustomError("written", "written must be at most rows: an object has no more rows")
        return self


class CoolWork(Raw):
    """The requests of a client of a COOL conditions database in a session. The keys up to
    `versioning` are those of the data set."""

    prefix: Annotated[PlainText, AfterValidator(_prefix)] = ""
    folders: Annotated[int, Field(ge=1, le=9999)]
    channels: Count
    iovs: Count
    payload: Annotated[Size, Field(ge=1)]
    columns: Annotated[int, Field(ge=1, le=1000)] | None = None
    versioning: Literal["single", "multi"] = "single"
    access: Literal["by-channel", "by-range", "all-channels", "whole-folder", "by-tag", "head"] = "by-channel"
    tag: Annotated[int, Field(ge=1, le=10_000)] | None = None
    times: Annotated[int, Field(ge=1, le=MAX_TIMES)] | None = None
    mix: Literal["one-folder-many-channels", "one-channel-many-iovs", "many-folders"] = (
        "one-folder-many-channels"
    )
    repeat: Fraction = 0.0
    session: bool = True

    @model_validator(mode="after")
    def _versions(self) -> CoolWork:
        if self.versioning == "multi":
            if self.access == "head" and self.tag is not None:
                raise PydanticCustomError(
                    "tag", "access head reads the newest version: leave out tag, or give access by-tag"
                )
            return self
        if self.access in ("by-tag", "head"):
            raise PydanticCustomError(
                "access",
                "access {access} needs `versioning: multi`: single-version folders have no tags and no head",
                {"access": self.access},
            )
        if self.tag is not None:
            raise PydanticCustomError(
                "tag", "tag needs `versioning: multi`: single-version folders have no tags"
            )
        return self

    @model_validator(mode="after")
    def _all_channels(self) -> CoolWork:
        if self.access not in ("all-channels", "whole-folder"):
            return self
        if self.mix == "one-channel-many-iovs" and self.channels > 1:
            raise PydanticCustomError(
                "mix",
                "access {access} reads all channels of a folder: give mix one-folder-many-channels or many-folders",
                {"access": self.access},
            )
        if self.access == "whole-folder" and (self.times is not None or self.repeat > 0):
            raise PydanticCustomError(
                "access",
                "access whole-folder reads all times, so all queries for a folder are equal: leave out repeat "
                "and times",
            )
        return self


class CondDbWork(Raw):
    """The requests of a client of a conditions database with payloads by hash, in a session. The
    keys up to `seed` are those of the data set."""

    prefix: Annotated[PlainText, AfterValidator(_prefix)] = ""
    global_tags: Annotated[int, Field(ge=1, le=10_000)] = 1
    tags: Annotated[int, Field(ge=1, le=10_000)]
    iovs: Count
    payloads: Count | None = None
    seed: Seed = 1
    group: Count = 1000
    by_hash: Fraction = 0.5
    session: bool = True

    @model_validator(mode="after")
    def _check_payloads(self) -> CondDbWork:
        payloads = self.payloads or self.iovs
        if payloads > self.iovs:
            raise PydanticCustomError("payloads", "payloads (of each tag) must be at most iovs")
        if self.by_hash > 0 and self.tags * payloads > MAX_OBJECTS:
            raise PydanticCustomError(
                "payloads",
                "tags x payloads must be at most {most}, because the hashes are listed, got {count}: give fewer "
                "payloads or `by_hash: 0%`",
                {"most": MAX_OBJECTS, "count": self.tags * payloads},
            )
        return self


class FromLog(Raw):
    """Queries from a log of a cache (native or combined format) or of a gateway, plain or gzip."""

    file: PlainText
    as_: Literal["set", "replay"] = Field(default="set", alias="as")
    speed: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _check_speed(self) -> FromLog:
        if self.as_ == "set" and self.speed != 1.0:
            raise PydanticCustomError("speed", "speed needs `as: replay`: a set has no times")
        return self


_FORMAT_SCHEMA: Final[dict[str, Any]] = {"type": "string", "examples": list(NAMES)}


def _log_format(value: str) -> str:
    try:
        line_format(value)
    except FormatError as error:
        raise PydanticCustomError("format", "{reason}", {"reason": str(error)}) from None
    return value


class HttpFromLog(FromLog):
    """GET and HEAD requests from an access log of nginx, Apache, Squid or Traffic Server, plain or
    gzip."""

    format: Annotated[PlainText, AfterValidator(_log_format), WithJsonSchema(_FORMAT_SCHEMA)] = "auto"
    duration: DurationUnit | None = None

    @model_validator(mode="after")
    def _check_duration(self) -> HttpFromLog:
        if self.duration is not None and self.format not in ("nginx", "apache"):
            raise PydanticCustomError(
                "duration",
                "duration (the unit of the last field of each line) needs `format: nginx`, whose times are those of "
                "the end, or `format: apache`, whose times are those of the start",
            )
        return self


def _version(value: object) -> object:
    """The version as text: `1.0` without quotes is a number in YAML."""
    return str(value) if isinstance(value, float) else value


HttpVersion = Annotated[
    Literal["1.0", "1.1"], BeforeValidator(_version), WithJsonSchema({"enum": ["1.0", "1.1", 1.0, 1.1]})
]


def _refresh(value: object) -> object:
    if value == "max-age":
        return "max-age=0"
    if isinstance(value, str) and re.fullmatch(r"none|no-cache|max-age=[0-9]{1,9}", value):
        return value
    raise PydanticCustomError(
        "refresh",
        "expected none, no-cache, max-age=0 or max-age=N (seconds), got {shown}",
        {"shown": shown(value)},
    )


Refresh = Annotated[str, BeforeValidator(_refresh)]
