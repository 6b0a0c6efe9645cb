"""Resolves `data:`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from plimsoll.plan.model import cell as model
from plimsoll.plan.queries.sql_text import MAX_BYTES, SqlTextError, statements
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.data import CatalogueData, CondDbData, CoolData, SqlData, TableData
from plimsoll.plan.schema.experiment import ExperimentRaw
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.units import about_size

_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
IOV_BYTES: Final = 160
"""Estimated bytes of a row of an IOV or payload table without its payload, with keys and indexes."""
ENTRY_BYTES: Final = 350
"""Estimated bytes of an entry of a catalogue, and of each of its replicas, with keys and indexes."""


def resolve_data(
    raw: ExperimentRaw, known: Mapping[str, model.Service], context: ResolveContext
) -> list[model.Data]:
    """The data sets of `data:`. `known`: the services, by name."""
    data_sets = []
    for name, data in raw.data.items():
        at: KeyPath = ("data", name)
        into = known.get(data.into)
        if into is None:
            context.wrong((*at, "into"), f"there is no service {data.into}", nearest(data.into, known))
        elif into.database_kind is None or into.settings.get("file") is not None:
            context.wrong(
                (*at, "into"),
                "tables can be written into a service of kind postgres, mariadb or sqlite without `file`; "
                f"{data.into} is not one",
            )
        elif (source := into.settings.get("replica_of")) is not None:
            context.wrong(
                (*at, "into"),
                f"{data.into} is a replica of {source}, and gets its tables: write them into {source}",
            )
        if isinstance(data, SqlData):
            data_sets.append(_sql(name, data, None if into is None else into.database_kind, context))
            continue
        if isinstance(data, TableData) and not _TABLE.match(name):
            context.wrong(at, f'"{name}" is not a valid table name: use letters, digits and _')
        data_sets.append(_data_set(name, data))
    return data_sets


def _sql(name: str, raw: SqlData, database: model.DatabaseKind | None, context: ResolveContext) -> model.Data:
    """Splits the file into statements, so that `plan` reports a quote that is not closed."""
    at: KeyPath = ("data", name, "file")
    if database == "sqlite":
        context.wrong(("data", name, "into"), "an SQL file can only be loaded into postgres or mariadb")
    path = Path(context.file(raw.file, at))
    size = 0
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            context.wrong(at, f"{raw.file} has {about_size(size)}: expected at most {about_size(MAX_BYTES)}")
        elif (
            database is not None
            and database != "sqlite"
            and sum(1 for _ in statements(path.read_bytes(), database)) == 0
        ):
            context.wrong(at, f"{raw.file} contains no SQL statement")
    except SqlTextError as error:
        context.wrong(at, f"{raw.file}:{error.line}: {error}")
    except OSError as error:
        if path.exists():
            context.wrong(at, f"{raw.file} cannot be read: {error.strerror}")
    return model.Data(name, raw.into, "sql", {"file": str(path), "shown": raw.file}, size)


def _data_set(name: str, raw: TableData | CoolData | CondDbData | CatalogueData) -> model.Data:
    settings: dict[str, Any] = {
        key: getattr(raw, key)
        for key in type(raw).model_fields
        if key not in ("into", "kind") and getattr(raw, key) not in (None, [])
    }
    if isinstance(raw, CatalogueData):
        written = raw.entries * (1 + raw.replicas) * ENTRY_BYTES
        return model.Data(name, raw.into, "catalogue", {"kind": "catalogue", **settings}, written)
    settings["compressibility"] = raw.compressibility * 100
    if isinstance(raw, TableData):
        written = raw.tables * raw.rows * raw.row * raw.columns
        return model.Data(name, raw.into, "table", {"name": name, **settings}, written)
    if isinstance(raw, CondDbData):
        payloads = raw.payloads or raw.iovs
        written = raw.tags * (raw.iovs * IOV_BYTES + payloads * (raw.payload + IOV_BYTES))
        return model.Data(name, raw.into, "conddb", {"kind": "conddb", **settings}, written)
    intervals = raw.folders * raw.channels * raw.iovs
    versions = raw.tags if raw.versioning == "multi" else 0
    written = intervals * (raw.payload + IOV_BYTES * (1 + versions))
    return model.Data(name, raw.into, "cool", {"kind": "cool", **settings}, written)
