"""Resolves what the lab makes queries from: `table:` and `cool:` of a workload, `table:` of entries of `mix`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from plimsoll.plan import model
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.drivers.table import DRIVERS
from plimsoll.plan.queries.cool import cool_queries
from plimsoll.plan.queries.query import QuerySet, dialect_of, table_queries
from plimsoll.plan.queries.sections import CoolWork, TableWork
from plimsoll.plan.schema.load import WorkloadRaw
from plimsoll.plan.source.document import KeyPath

_ASKING: Final = tuple(name for name, driver in DRIVERS.items() if driver.asking is not None)
"""Drivers that ask queries."""


def object_numbers(works: Mapping[KeyPath, WorkloadRaw], context: Context) -> Mapping[str, str]:
    """Digits for each table whose versions are written or read, in the order of their names. They
    end the numbers of its objects, so that numbers of different tables differ. One table needs
    none. All workloads that use objects of a table must define them in the same way."""
    seen: dict[str, tuple[int, int, int]] = {}
    for at, raw in _versioned(works):
        name, layout = _name(raw), (raw.rows, raw.tables, raw.distinct)
        if seen.setdefault(name, layout) != layout:
            context.wrong(
                at,
                f"an object of {raw.table} is {_told(seen[name])} elsewhere in this file, and "
                f"{_told(layout)} here: writers and readers of versions need the same rows, tables and distinct",
            )
    if len(seen) < 2:
        return dict.fromkeys(seen, "")
    width = len(str(len(seen)))
    return {name: f"{number:0{width}d}" for number, name in enumerate(sorted(seen), 1)}


def _versioned(works: Mapping[KeyPath, WorkloadRaw]) -> Iterator[tuple[KeyPath, TableWork]]:
    for at, work in works.items():
        tables = [((*at, "table"), work.table)]
        tables += [((*at, "mix", index, "table"), one.table) for index, one in enumerate(work.mix or [])]
        yield from ((path, raw) for path, raw in tables if raw is not None and raw.versions != "none")


def _name(raw: TableWork) -> str:
    """The same for PostgreSQL's `t` and `public.t`, of which `Last-Modified` wants the latter."""
    return raw.table.lower().removeprefix("public.")


def _told(layout: tuple[int, int, int]) -> str:
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
    """Queries of `table:` or `cool:` (None), and of the entries of `mix` by their index. `tree`: the whole file."""
    found: dict[int | None, QuerySet] = {}
    for index, entry in enumerate(raw.mix or []):
        if entry.table is None:
            continue
        here: KeyPath = (*at, "mix", index, "table")
        if _asks(raw, here, context):
            others = [key for key in ("queries", "from_log") if (entry.__pydantic_extra__ or {}).get(key)]
            _alone(others, here, context)
            _table_fits(entry.table, raw, target, tree, here, services, context)
            number = numbers.get(_name(entry.table), "")
            found[index] = table_queries(entry.table, number, f"_{index + 1}")
    kinds = [kind for kind in ("table", "cool") if getattr(raw, kind) is not None]
    if not kinds:
        return found
    here = (*at, kinds[0])
    if not _asks(raw, here, context):
        return found
    others = [*kinds[1:], *(key for key in ("queries", "from_log") if section.get(key))]
    _alone([*others, "mix"] if raw.mix is not None else others, here, context)
    if raw.table is not None:
        _table_fits(raw.table, raw, target, tree, here, services, context)
        found[None] = table_queries(raw.table, numbers.get(_name(raw.table), ""))
    elif raw.cool is not None:
        _as_written(raw.cool, tree, here, context)
        found[None] = cool_queries(raw.cool, dialect_of(target, services))
    return found


def _asks(raw: WorkloadRaw, at: KeyPath, context: Context) -> bool:
    if raw.driver in _ASKING:
        return True
    context.wrong(at, f"{at[-1]} makes queries for {' and '.join(_ASKING)}, not for {raw.driver}")
    return False


def _alone(others: list[str], at: KeyPath, context: Context) -> None:
    if others:
        context.wrong(at, f"give {at[-1]} or {others[0]}, not both: each defines the requests")


def _as_written(raw: CoolWork, tree: Mapping[str, Any], at: KeyPath, context: Context) -> None:
    """A data set of this file with the same prefix must have at least what is requested."""
    for name, told in _data(tree).items():
        if (
            not isinstance(told, Mapping)
            or told.get("kind") != "cool"
            or told.get("prefix", "") != raw.prefix
        ):
            continue
        for key in ("folders", "channels", "iovs"):
            asked, there = getattr(raw, key), told.get(key)
            if isinstance(there, int) and asked > there:
                context.wrong((*at, key), f"{asked} {key} are requested, but data.{name} has only {there}")
        if told.get("versioning", "single") != raw.versioning:
            context.wrong(
                (*at, "versioning"),
                f"versioning is {raw.versioning}, but data.{name} has {told.get('versioning', 'single')}",
            )


def _table_fits(
    raw: TableWork,
    work: WorkloadRaw,
    target: model.Target,
    tree: Mapping[str, Any],
    at: KeyPath,
    services: Mapping[str, model.Service],
    context: Context,
) -> None:
    _as_filled(raw, tree, at, context)
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


def _as_filled(raw: TableWork, tree: Mapping[str, Any], at: KeyPath, context: Context) -> None:
    """A table of this file that has fewer rows than are asked for would be measured as if it had them."""
    data, key = _data(tree), raw.table.rpartition(".")[2]
    listed = data.get(key)
    made = listed.get("tables", 1) if isinstance(listed, Mapping) else 1
    if made == 1 < raw.tables:  # not this one, but perhaps one for each
        key = f"{key}_{raw.tables}"
        listed = data.get(key)
    elif made > 1 and not 1 < raw.tables <= made:
        context.wrong((*at, "tables"), f"{raw.tables} tables are requested, but data.{key} has {made}")
    if not isinstance(listed, Mapping) or listed.get("kind", "table") != "table":
        return
    rows = listed.get("rows")
    if isinstance(rows, int) and raw.rows * raw.distinct > rows:
        what = f"{raw.distinct} x {raw.rows}" if raw.distinct > 1 else f"{raw.rows}"
        context.wrong((*at, "rows"), f"{what} rows are requested, but data.{key} has only {rows}")
    if raw.versions != "none" and not listed.get("versions", False):
        context.wrong((*at, "versions"), f"data.{key} has no versions: add `versions: true` to it")


def _data(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    data = tree.get("data")
    return data if isinstance(data, Mapping) else {}
