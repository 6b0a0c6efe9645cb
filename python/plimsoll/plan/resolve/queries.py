"""Resolves the sections from which the lab makes queries: `table:`, `cool:` and `conddb:` of a workload, `table:` of
entries of `mix`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.model import cell as model
from plimsoll.plan.queries.conddb import conddb_queries
from plimsoll.plan.queries.cool import cool_queries, payload_columns
from plimsoll.plan.queries.query import QuerySet, dialect_of, table_queries
from plimsoll.plan.queries.sections import CondDbWork, CoolWork, TableWork
from plimsoll.plan.schema.load import WorkloadRaw
from plimsoll.plan.source.document import KeyPath

_QUERY_DRIVERS: Final = tuple(name for name, driver in DRIVERS.items() if driver.query_request is not None)
"""Drivers that send queries."""


def object_numbers(works: Mapping[KeyPath, WorkloadRaw], context: Context) -> Mapping[str, str]:
    """The digits at the end of the numbers of objects, by table whose versions are written or read. With them, numbers
    of different tables differ; a single table needs none. Reports workloads that define the objects of a table in
    different ways. `works`: the workloads, by their path."""
    seen: dict[str, tuple[int, int, int]] = {}
    for at, raw in _versioned(works):
        name, layout = _table_name(raw), (raw.rows, raw.tables, raw.distinct)
        if seen.setdefault(name, layout) != layout:
            context.wrong(
                at,
                f"an object of {raw.table} is {_describe_layout(seen[name])} elsewhere in this file, and "
                f"{_describe_layout(layout)} here: writers and readers of versions need the same rows, tables "
                "and distinct",
            )
    if len(seen) < 2:
        return dict.fromkeys(seen, "")
    width = len(str(len(seen)))
    return {name: f"{number:0{width}d}" for number, name in enumerate(sorted(seen), 1)}


def _versioned(works: Mapping[KeyPath, WorkloadRaw]) -> Iterator[tuple[KeyPath, TableWork]]:
    for at, work in works.items():
        tables = [((*at, "table"), work.table)]
        tables += [((*at, "mix", index, "table"), entry.table) for index, entry in enumerate(work.mix or [])]
        yield from ((path, raw) for path, raw in tables if raw is not None and raw.versions != "none")


def _table_name(raw: TableWork) -> str:
    """The table without the schema `public`: `t` and `public.t` are the same table of PostgreSQL, and `Last-Modified`
    needs `public.t`."""
    return raw.table.lower().removeprefix("public.")


def _describe_layout(layout: tuple[int, int, int]) -> str:
    rows, tables, distinct = layout
    return f"one of {distinct} ranges of {rows} rows of {tables} tables"


def made_queries(
    raw: WorkloadRaw,
    section: Mapping[str, Any],
    target: model.Target,
    tree: Mapping[str, Any],
    at: KeyPath,
    services: Mapping[str, model.Service],
    numbers: Mapping[str, str],
    context: Context,
) -> dict[int | None, QuerySet]:
    """The queries that the lab makes: of `table:`, `cool:` or `conddb:` under the key None, of entries of `mix` by
    their index. `section`: of the driver, as plain data; `tree`: the whole file; `at`: path of the workload;
    `numbers`: see `object_numbers`."""
    query_sets: dict[int | None, QuerySet] = {}
    for index, entry in enumerate(raw.mix or []):
        if entry.table is None:
            continue
        here: KeyPath = (*at, "mix", index, "table")
        if _has_query_driver(raw, here, context):
            others = [key for key in ("queries", "from_log") if (entry.__pydantic_extra__ or {}).get(key)]
            _check_single_source(others, here, context)
            _check_table(entry.table, raw, target, tree, here, services, context)
            number = numbers.get(_table_name(entry.table), "")
            query_sets[index] = table_queries(entry.table, number, f"_{index + 1}")
    kinds = [kind for kind in ("table", "cool", "conddb") if getattr(raw, kind) is not None]
    if not kinds:
        return query_sets
    here = (*at, kinds[0])
    if not _has_query_driver(raw, here, context):
        return query_sets
    others = [*kinds[1:], *(key for key in ("queries", "from_log") if section.get(key))]
    _check_single_source([*others, "mix"] if raw.mix is not None else others, here, context)
    if raw.table is not None:
        _check_table(raw.table, raw, target, tree, here, services, context)
        query_sets[None] = table_queries(raw.table, numbers.get(_table_name(raw.table), ""))
    elif raw.cool is not None:
        _check_cool_data(raw.cool, tree, here, context)
        query_sets[None] = cool_queries(raw.cool, dialect_of(target, services))
    elif raw.conddb is not None:
        _check_conddb_data(raw.conddb, tree, here, context)
        query_sets[None] = conddb_queries(raw.conddb, dialect_of(target, services))
    return query_sets


def _has_query_driver(raw: WorkloadRaw, at: KeyPath, context: Context) -> bool:
    if raw.driver in _QUERY_DRIVERS:
        return True
    context.wrong(at, f"{at[-1]} makes queries for {' and '.join(_QUERY_DRIVERS)}, not for {raw.driver}")
    return False


def _check_single_source(others: list[str], at: KeyPath, context: Context) -> None:
    if others:
        context.wrong(at, f"give {at[-1]} or {others[0]}, not both: each defines the requests")


def _check_cool_data(raw: CoolWork, tree: Mapping[str, Any], at: KeyPath, context: Context) -> None:
    """Reports folders, channels and intervals that a data set of this file with the same prefix does not have."""
    for name, data_set in _of_kind("cool", raw.prefix, tree):
        _check_counts(raw, ("folders", "channels", "iovs"), name, data_set, at, context)
        columns, types = data_set.get("columns"), data_set.get("types")
        available = columns or (len(types) if isinstance(types, list) else None)
        if isinstance(available, int) and (requested := payload_columns(raw)) > available:
            context.wrong(
                (*at, "columns"),
                f"{requested} columns of the payload are requested, but data.{name} has only {available}",
            )
        tags = data_set.get("tags", 1)
        if raw.tag is not None and isinstance(tags, int) and raw.tag > tags:
            context.wrong((*at, "tag"), f"tag {raw.tag} is requested, but data.{name} has only {tags}")
        if data_set.get("versioning", "single") != raw.versioning:
            context.wrong(
                (*at, "versioning"),
                f"versioning is {raw.versioning}, but data.{name} has {data_set.get('versioning', 'single')}",
            )


def _check_conddb_data(raw: CondDbWork, tree: Mapping[str, Any], at: KeyPath, context: Context) -> None:
    """Reports tags, intervals and payloads that a data set of this file with the same prefix does not have."""
    for name, data_set in _of_kind("conddb", raw.prefix, tree):
        _check_counts(raw, ("global_tags", "tags", "iovs"), name, {"global_tags": 1, **data_set}, at, context)
        requested, available = raw.payloads or raw.iovs, data_set.get("payloads")
        if isinstance(available, int) and requested > available:
            context.wrong(
                (*at, "payloads"),
                f"{requested} payloads of each tag are requested, but data.{name} has only {available}",
            )
        if (seed := data_set.get("seed", 1)) != raw.seed:
            context.wrong(
                (*at, "seed"),
                f"seed is {raw.seed}, but data.{name} has {seed}: the hashes of the payloads follow from it",
            )


def _of_kind(kind: str, prefix: str, tree: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The data sets of this file of a kind and with a prefix."""
    for name, data_set in _data(tree).items():
        if (
            isinstance(data_set, Mapping)
            and data_set.get("kind") == kind
            and data_set.get("prefix", "") == prefix
        ):
            yield name, data_set


def _check_counts(
    raw: CoolWork | CondDbWork,
    keys: tuple[str, ...],
    name: str,
    data_set: Mapping[str, Any],
    at: KeyPath,
    context: Context,
) -> None:
    for key in keys:
        requested, available = getattr(raw, key), data_set.get(key)
        if isinstance(available, int) and requested > available:
            context.wrong(
                (*at, key), f"{requested} {key} are requested, but data.{name} has only {available}"
            )


def _check_table(
    raw: TableWork,
    work: WorkloadRaw,
    target: model.Target,
    tree: Mapping[str, Any],
    at: KeyPath,
    services: Mapping[str, model.Service],
    context: Context,
) -> None:
    _check_table_data(raw, tree, at, context)
    if raw.versions != "write":
        return
    if work.driver != "sql":
        context.wrong(
            (*at, "versions"),
            f"the driver {work.driver} only reads: put the writer into its own entry of `workloads`, with "
            f"`driver: sql` and the database as target",
        )
    elif dialect_of(target, services) == "sqlite":
        context.wrong(
            (*at, "versions"),
            "SQLite is opened read-only: use PostgreSQL or MariaDB to write versions",
        )


def _check_table_data(raw: TableWork, tree: Mapping[str, Any], at: KeyPath, context: Context) -> None:
    """Reports tables, rows and versions that a data set of this file does not have: with fewer rows than requested, the
    run would measure smaller responses."""
    data, key = _data(tree), raw.table.rpartition(".")[2]
    data_set = data.get(key)
    tables = data_set.get("tables", 1) if isinstance(data_set, Mapping) else 1
    if tables == 1 < raw.tables:  # the number of tables may be in the name of the data set
        key = f"{key}_{raw.tables}"
        data_set = data.get(key)
    elif tables > 1 and not 1 < raw.tables <= tables:
        context.wrong((*at, "tables"), f"{raw.tables} tables are requested, but data.{key} has {tables}")
    if not isinstance(data_set, Mapping) or data_set.get("kind", "table") != "table":
        return
    rows = data_set.get("rows")
    if isinstance(rows, int) and raw.rows * raw.distinct > rows:
        requested = f"{raw.distinct} x {raw.rows}" if raw.distinct > 1 else f"{raw.rows}"
        context.wrong((*at, "rows"), f"{requested} rows are requested, but data.{key} has only {rows}")
    if raw.versions != "none" and not data_set.get("versions", False):
        context.wrong((*at, "versions"), f"data.{key} has no versions: add `versions: true` to it")


def _data(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    data = tree.get("data")
    return data if isinstance(data, Mapping) else {}
