"""The driver `frontier`: queries through a Frontier gateway or a cache in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.common import Connection, Queries, named_queries, proxy, version_of
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.model.cell import Json
from plimsoll.plan.queries.query import Query
from plimsoll.plan.queries.sections import FromLog, HttpVersion, Refresh
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Fraction, PlainText, Raw, Text
from plimsoll.plan.source.units import NS

Ttl = Literal["short", "long", "forever"]
"""How long caches may keep an answer, as the protocol names it."""


class FrontierSection(Raw):
    """SQL through a Frontier gateway, or through a cache in front of it."""

    queries: Queries = Field(default_factory=list)
    from_log: FromLog | None = None
    batch: Annotated[int, Field(ge=1, le=32)] = 1
    zip: Annotated[int, Field(ge=0, le=9)] = 5
    ttl: Ttl = "long"
    refresh: Refresh = "none"
    freshkey: PlainText | None = None
    uncached: Fraction = 0.0
    chatter: Annotated[int, Field(ge=0, le=100)] = 0
    chatter_queries: Queries | None = Field(default=None, min_length=1)
    chatter_refresh: Refresh | None = None
    chatter_ttl: Ttl | None = None
    failover: Literal["none", "client"] = "none"
    failover_to_server: bool = True
    load_balance: Literal["none", "proxies", "servers"] = "none"
    connect_timeout: Annotated[Duration, Field(ge=1)] = 5 * NS["s"]
    read_timeout: Annotated[Duration, Field(ge=1)] = 10 * NS["s"]
    http: HttpVersion = "1.1"
    id: PlainText = "plimsoll"
    connection: Connection = "kept"
    proxy: Text | None = None

    @model_validator(mode="after")
    def _check_failover(self) -> FrontierSection:
        if self.failover == "none" and self.load_balance != "none":
            raise PydanticCustomError(
                "failover",
                "load_balance needs `failover: client`; without it, `choose` and `order` of a target "
                "select endpoints and proxies",
            )
        if self.failover == "none" and not self.failover_to_server:
            raise PydanticCustomError("failover", "failover_to_server needs `failover: client`")
        if self.chatter == 0 and self.chatter_queries is not None:
            raise PydanticCustomError(
                "chatter", "chatter_queries needs chatter, the number of queries, such as 4"
            )
        return self


def _frontier_settings(section: FrontierSection, at: KeyPath, context: Context) -> dict[str, Json]:
    for index, query in enumerate(section.chatter_queries or []):
        if not query.strip():
            context.wrong((*at, "chatter_queries", index), "the query is empty")
    return {
        "id": section.id,
        "connection": section.connection,
        "http": section.http,
        "proxies": [] if section.proxy is None else [proxy(section.proxy, (*at, "proxy"), context)],
        "choose": "per-request",  # `with_target` sets both
        "order": "round-robin",
        "failover": section.failover,
        "failover_to_server": section.failover_to_server,
        "load_balance": section.load_balance,
        "connect_timeout_ns": section.connect_timeout,
        "read_timeout_ns": section.read_timeout,
        "uncached": section.uncached,
        "chatter": {
            "requests": section.chatter,
            "queries": list(section.chatter_queries or []),
            "refresh": section.chatter_refresh,
            "ttl": section.chatter_ttl,
        },
    }


def _frontier_query_request(section: FrontierSection, query: Query) -> dict[str, Json]:
    # The first queries of a session are sent once each, not in batches.
    count = section.batch if query.first == 0 else 1
    return _frontier_request(section, [query.text] * count, query)


def _frontier_request(
    section: FrontierSection, queries: list[str], query: Query | None = None
) -> dict[str, Json]:
    return {
        "queries": queries,
        "zip": section.zip,
        "ttl": section.ttl,
        "refresh": section.refresh,
        "freshkey": section.freshkey,
        "version": None if query is None else version_of(query),
    }


def _frontier_requests(section: FrontierSection, at: KeyPath, context: Context) -> Requests:
    queries = named_queries(section.queries, at, context)
    size = section.batch
    if size == 1 or len(queries) < 2:
        return [(name, _frontier_query_request(section, Query(name, text))) for name, text in queries]
    # Each request contains `size` queries of the list; the last is completed from the beginning of the list.
    batches = [
        [queries[(start + offset) % len(queries)][1] for offset in range(size)]
        for start in range(0, len(queries), size)
    ]
    several = len(batches) > 1
    return [
        (f"batch-{number}" if several else "batch", _frontier_request(section, batch))
        for number, batch in enumerate(batches, 1)
    ]


def with_target(
    settings: dict[str, Json], choose: str, order: str, chatter: Sequence[str]
) -> dict[str, Json]:
    """Settings of `frontier` with those of its target. `chatter`: the queries that precede a query if the file does not
    list them."""
    own = settings["chatter"]
    chatter_settings = {**own, "queries": own["queries"] or (list(chatter) if own["requests"] else [])}
    return {**settings, "choose": choose, "order": order, "chatter": chatter_settings}


FRONTIER = Driver(
    FrontierSection,
    frozenset(
        {"id", "connection", "proxy", "http", "from_log", "uncached"}
        | {"chatter", "chatter_queries", "chatter_refresh", "chatter_ttl"}
        | {"failover", "failover_to_server", "load_balance", "connect_timeout", "read_timeout"}
    ),
    ("http", "https"),
    _frontier_settings,
    _frontier_requests,
    _frontier_query_request,
)
