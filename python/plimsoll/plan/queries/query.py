"""Queries that the lab makes for both drivers `frontier` and `sql`: from tables, logs and dictionaries.

The values that differ between requests come from generators of the engine. Names of values of this module begin with an
underscore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from plimsoll.plan.model import cell as model
from plimsoll.plan.queries.database_url import is_database
from plimsoll.plan.queries.request_log import RequestLog
from plimsoll.plan.queries.sections import FromLog, TableWork

Dialect = Literal["oracle", "standard", "sqlite"]
"""The kind of the dictionary: ALL_... of Oracle, INFORMATION_SCHEMA of PostgreSQL and MariaDB, or SQLITE_MASTER."""


_NOT_OURS: Final = (
    "TABLE_SCHEMA NOT IN ('information_schema','pg_catalog','mysql','performance_schema','sys')"
)


@dataclass(frozen=True, slots=True)
class Version:
    """Texts that expand to the number of an object, and to the version that is written; or the column from which the
    version is read."""

    object: str
    column: str | None = None
    written: str | None = None

    def to_json(self) -> dict[str, model.Json]:
        """The JSON for the engine."""
        return {"object": self.object, "column": self.column, "written": self.written}


@dataclass(frozen=True, slots=True)
class Query:
    """One query, which is one operation. `first`: the number of these queries with which each tester begins; `version`:
    the version that it reads or writes."""

    name: str
    text: str
    weight: float = 1.0
    first: int = 0
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries and the generators of their values. `at_ns`: times of a log to replay; `remarks`: texts that `plan`
    prints."""

    queries: tuple[Query, ...]
    values: Mapping[str, model.Generator] = field(default_factory=dict)
    at_ns: tuple[int, ...] | None = None
    remarks: tuple[str, ...] = ()


def table_queries(raw: TableWork, number: str = "", mark: str = "") -> QuerySet:
    """`SELECT columns FROM table LIMIT rows`. Different queries select different ranges of `id`, and several tables are
    used in turn, or joined. `number`: suffix of the numbers of objects of this table; `mark`: suffix of the names of
    values."""
    if raw.versions != "none":
        return _versions(raw, number, mark)
    if raw.join:
        return _join(raw, mark)
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


def _join(raw: TableWork, mark: str) -> QuerySet:
    """A query for the same range of `id` of all tables. The tables are listed with commas: the servlet of Frontier does
    not find the tables of `JOIN ... ON`. The rows are always those of a range: with LIMIT, a database could begin with
    a join of all rows."""
    values: dict[str, model.Generator] = {}
    part = "0"
    if raw.distinct > 1:
        part = f"{{_part{mark}}}"
        values[f"_part{mark}"] = model.Generator("uniform", low=0, high=raw.distinct - 1)
    numbers = range(1, raw.tables + 1)
    columns = ", ".join(f"T{number}.{column}" for number in numbers for column in raw.columns)
    tables = ", ".join(f"{raw.table}_{number} T{number}" for number in numbers)
    equal = " AND ".join(f"T{number}.id=T1.id" for number in numbers[1:])
    text = f"SELECT {columns} FROM {tables} WHERE {equal} AND {_range(part, raw.rows, raw.rows, 'T1.')}"
    return QuerySet((Query(raw.table, text),), values)


def _versions(raw: TableWork, number: str, mark: str) -> QuerySet:
    """A query that writes or reads versions of random objects. An object is a range of `id` of a table.

    The number of an object is the digits of its table and of its range, drawn as texts. It is the same for writers and
    readers. All ranges have the same number of digits, so that numbers of objects are unique. A version is the time at
    which it was written. It never decreases, whichever of several writers is the last.
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


def _range(part: str, rows: int, count: int, of: str = "") -> str:
    """A condition for the first `count` rows of a range. `of`: the table, with a point."""
    return f"{of}id>{part}*{rows} AND {of}id<={part}*{rows}+{count}"


def in_turn(count: int, width: int = 1) -> model.Generator:
    """The numbers 1 to `count` in turn, with at least `width` digits."""
    return model.Generator("list", items=tuple(f"{number:0{width}d}" for number in range(1, count + 1)))


def log_queries(raw: FromLog, log: RequestLog, name: str) -> QuerySet:
    """The queries of a log: at random with their frequencies, or in their order. `name`: of the log in the remark."""
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
    """The kind of dictionary of the databases behind a target. If the file does not define it, it is that of Oracle, as
    behind the gateways in production."""
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
    """The queries of a CORAL client about the dictionary, before its queries for data: tables and their columns,
    constraints, views, users. `prefix`: of the tables (empty: all)."""
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
            # PostgreSQL stores names in lower case, MariaDB as written; both also list their system tables.
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
