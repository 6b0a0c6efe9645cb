"""Queries that the lab makes for the drivers `frontier` and `sql` alike: of tables, of logs, of dictionaries.

What varies from request to request are values of the engine's generators, not texts written out. Names of values made
here begin with an underscore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from plimsoll.plan import model
from plimsoll.plan.queries.database_url import is_database
from plimsoll.plan.queries.request_log import RequestLog
from plimsoll.plan.queries.sections import FromLog, TableWork

Dialect = Literal["oracle", "standard", "sqlite"]
"""Whose dictionary there is: ALL_... of Oracle, INFORMATION_SCHEMA of PostgreSQL and MariaDB, SQLITE_MASTER."""


_NOT_OURS: Final = (
    "TABLE_SCHEMA NOT IN ('information_schema','pg_catalog','mysql','performance_schema','sys')"
)


@dataclass(frozen=True, slots=True)
class Version:
    """Texts that give the number of an object and the version that is written of it, or the column that it is read
    from."""

    object: str
    column: str | None = None
    written: str | None = None

    def told(self) -> dict[str, model.Json]:
        """As the drivers take it."""
        return {"object": self.object, "column": self.column, "written": self.written}


@dataclass(frozen=True, slots=True)
class Query:
    """One query, an operation of its own. `first`: each tester begins with so many of them; `version`: what it reads or
    writes of an object."""

    name: str
    text: str
    weight: float = 1.0
    first: int = 0
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries with the values that stand in them. `at_ns`: times of a log that is to be replayed; `remarks`: for
    people."""

    queries: tuple[Query, ...]
    values: Mapping[str, model.Generator] = field(default_factory=dict)
    at_ns: tuple[int, ...] | None = None
    remarks: tuple[str, ...] = ()


def table_queries(raw: TableWork, number: str = "", mark: str = "") -> QuerySet:
    """`SELECT columns FROM table LIMIT rows`; different queries take different ranges of `id`, several tables are taken
    in turn. `number`: digits behind those of the objects of this table; `mark`: behind the names of its values."""
    if raw.versions != "none":
        return _versions(raw, number, mark)
    values: dict[str, model.Generator] = {}
    name = raw.table
    if raw.tables > 1:
        name += f"_{{_table{mark}}}"
        values[f"_table{mark}"] = in_turn(raw.tables)
    text = f"SELECT {', '.join(raw.columns)} FROM {name}"
    if raw.distinct > 1:
        text += f" WHERE {_range(f'{{_part{mark}}}', raw.rows, raw.rows)}"
        values[f"_part{mark}"] = model.Generator("uniform", low=0, high=raw.distinct - 1)
    else:
        text += f" LIMIT {raw.rows}"
    return QuerySet((Query(raw.table, text),), values)


def _versions(raw: TableWork, number: str, mark: str) -> QuerySet:
    """Writes or reads the versions of objects, drawn at random: ranges of `id` of the tables.

    The digits of table and range, drawn as texts, are put one behind the other: the same number for whoever writes and
    reads the object. Those of the range are as many for each, so that no two objects have the same. A version is the
    time at which it was written, and never goes back, whichever of several writers comes last.
    """
    values: dict[str, model.Generator] = {}
    name, table, part = raw.table, "", "0"
    if raw.tables > 1:
        table = f"{{_table{mark}}}"
        name += f"_{table}"
        values[f"_table{mark}"] = replace(in_turn(raw.tables), order="random")
    if raw.distinct > 1:
        part = f"{{_part{mark}}}"
        width = len(str(raw.distinct - 1))
        items = tuple(f"{at:0{width}d}" for at in range(raw.distinct))
        values[f"_part{mark}"] = model.Generator("list", items=items, order="random")
    id_of = f"{table}{part}{number}"
    if raw.versions == "read":
        columns = raw.columns if {"*", "version"} & set(raw.columns) else ["version", *raw.columns]
        text = f"SELECT {', '.join(columns)} FROM {name} WHERE {_range(part, raw.rows, raw.rows)}"
        return QuerySet((Query(raw.table, text, version=Version(id_of, column="version")),), values)
    changed = _range(part, raw.rows, raw.written or 1)
    text = f"UPDATE {name} SET version={{now_us}} WHERE {changed} AND version<{{now_us}}"
    return QuerySet((Query(raw.table, text, version=Version(id_of, written="{now_us}")),), values)


def _range(part: str, rows: int, count: int) -> str:
    """The first `count` rows of a range."""
    return f"id>{part}*{rows} AND id<={part}*{rows}+{count}"


def in_turn(count: int, width: int = 1) -> model.Generator:
    """The numbers 1 to `count`, one after the other, with at least `width` digits."""
    return model.Generator("list", items=tuple(f"{number:0{width}d}" for number in range(1, count + 1)))


def log_queries(raw: FromLog, log: RequestLog, name: str) -> QuerySet:
    """Queries of a log: drawn as often as they were asked, or in their order."""
    remarks = (log.remark(name),)
    queries = (Query("log", "{_query}"),)
    if raw.as_ == "set":
        weights = tuple(map(float, log.counts))
        return QuerySet(
            queries,
            {"_query": model.Generator("weighted", items=log.queries, weights=weights)},
            None,
            remarks,
        )
    generator = model.Generator("recorded", items=log.queries, sequence=log.order)
    times = None if log.at_ns is None else tuple(round(at / raw.speed) for at in log.at_ns)
    return QuerySet(queries, {"_query": generator}, times, remarks)


def dialect_of(target: model.Target, services: Mapping[str, model.Service]) -> Dialect:
    """Whose dictionary the databases behind a target have, as far as the file tells; Oracle's where it does not, as
    behind the gateways of the field."""
    names = {endpoint.service for endpoint in target.endpoints if endpoint.service is not None}
    while more := {need for name in names for need in services[name].needs if need in services} - names:
        names |= more
    kinds = {services[name].kind for name in names}
    urls = [endpoint.url for endpoint in target.endpoints if endpoint.url is not None]
    if "sqlite" in kinds or any(isinstance(url, str) and url.startswith("sqlite:") for url in urls):
        return "sqlite"
    if kinds & {"postgres", "mariadb"} or any(is_database(url) for url in urls):
        return "standard"
    return "oracle"


def dictionary(dialect: Dialect, prefix: str = "") -> tuple[str, ...]:
    """What a CORAL client asks the dictionary before it asks for data: tables and their columns, constraints, views,
    users. `prefix`: of the tables that are meant; all where it is empty."""
    like = prefix.upper() + "%"
    match dialect:
        case "oracle":
            tables = f" AND TABLE_NAME LIKE '{like}'" if prefix else ""
            return (
                "SELECT TABLE_NAME, COLUMN_NAME FROM ALL_TAB_COLUMNS WHERE OWNER=USER"
                f"{tables} ORDER BY TABLE_NAME, COLUMN_ID",
                "SELECT COLUMN_ID, COLUMN_NAME, NULLABLE, DATA_TYPE, DATA_LENGTH, DATA_PRECISION, CHAR_LENGTH, "
                f"DATA_SCALE FROM ALL_TAB_COLUMNS WHERE OWNER=USER{tables} ORDER BY COLUMN_ID",
                "SELECT C.CONSTRAINT_NAME, C.COLUMN_NAME, C.POSITION FROM ALL_CONSTRAINTS A, ALL_CONS_COLUMNS C WHERE "
                "A.OWNER=USER AND C.OWNER=A.OWNER AND C.CONSTRAINT_NAME=A.CONSTRAINT_NAME "
                f"AND A.CONSTRAINT_TYPE IN ('P','U'){tables.replace('TABLE_NAME', 'A.TABLE_NAME')} "
                "ORDER BY C.CONSTRAINT_NAME, C.POSITION",
                "SELECT VIEW_NAME FROM ALL_VIEWS WHERE OWNER=USER ORDER BY VIEW_NAME",
                "SELECT USERNAME FROM ALL_USERS WHERE USERNAME=USER",
            )
        case "standard":
            # PostgreSQL writes names in small letters, MariaDB as they were given; both list their own tables as well.
            own = f"{_NOT_OURS} AND UPPER(TABLE_NAME) LIKE '{like}'"
            return (
                "SELECT TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS "
                f"WHERE {own} ORDER BY TABLE_NAME, ORDINAL_POSITION",
                "SELECT ORDINAL_POSITION, COLUMN_NAME, IS_NULLABLE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, "
                "NUMERIC_PRECISION, NUMERIC_SCALE FROM INFORMATION_SCHEMA.COLUMNS "
                f"WHERE {own} ORDER BY TABLE_NAME, ORDINAL_POSITION",
                "SELECT CONSTRAINT_NAME, COLUMN_NAME, ORDINAL_POSITION FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE "
                f"WHERE {own} ORDER BY CONSTRAINT_NAME, ORDINAL_POSITION",
                f"SELECT TABLE_NAME FROM INFORMATION_SCHEMA.VIEWS WHERE {own} ORDER BY TABLE_NAME",
            )
        case "sqlite":
            return (
                f"SELECT name, sql FROM sqlite_master WHERE type='table' AND name LIKE '{like}' ORDER BY name",
                f"SELECT name, tbl_name FROM sqlite_master WHERE type='index' AND tbl_name LIKE '{like}' ORDER BY name",
                f"SELECT name FROM sqlite_master WHERE type='view' AND name LIKE '{like}' ORDER BY name",
            )
