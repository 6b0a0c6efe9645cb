"""The driver `sql`: queries of a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from plimsoll.plan.drivers.common import (
    ClientTls,
    Queries,
    client_tls_settings,
    named_queries,
    tls_files,
    version_of,
)
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.model.cell import Json, Operation
from plimsoll.plan.queries.database_url import SCHEMES, password
from plimsoll.plan.queries.query import Query
from plimsoll.plan.queries.sections import FromLog
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, Raw, Text


class SqlSection(Raw):
    """SQL to a database."""

    queries: Queries = Field(default_factory=list)
    from_log: FromLog | None = None
    database: PlainText | None = None
    password: Text | None = None
    tls: ClientTls | None = None
    connection: Literal["kept", "per-query"] = "kept"


def _sql_settings(section: SqlSection, at: KeyPath, context: Context) -> dict[str, Json]:
    secret = password(section.password, (*at, "password"), context)
    tls = None if section.tls is None else client_tls_settings(section.tls, (*at, "tls"), context)
    return {"connection": section.connection, "password": secret, "tls": tls}


def _sql_query_request(section: SqlSection, query: Query) -> dict[str, Json]:
    return {"query": query.text, "version": version_of(query)}


def _sql_requests(section: SqlSection, at: KeyPath, context: Context) -> Requests:
    queries = named_queries(section.queries, at, context)
    return [(name, _sql_query_request(section, Query(name, text))) for name, text in queries]


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from tls_files(settings)


SQL = Driver(
    SqlSection,
    frozenset({"database", "connection", "from_log", "password", "tls"}),
    ("sqlite", *SCHEMES),
    _sql_settings,
    _sql_requests,
    _sql_query_request,
    _files,
)
