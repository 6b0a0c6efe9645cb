"""The driver `catalogue`: operations of a file catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from plimsoll.plan.drivers.common import Connection, Tls, tls_files, tls_settings
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.model.cell import Json, Operation
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Count, Fraction, PlainText, Raw, Seed

MAX_BULK = 1000
Bulk = Annotated[int, Field(ge=1, le=MAX_BULK)]


class CatalogueEntries(Raw):
    """The data set of the catalogue, with the values of its section of `data`."""

    entries: Count
    directory: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    replicas: Annotated[int, Field(ge=1, le=20)] = 1
    seed: Seed = 1


class ZipfKeys(Raw):
    """Entry k is drawn with a probability proportional to k to the power of -`zipf`."""

    zipf: Annotated[float, Field(ge=0, le=100)]


class CatalogueTls(Tls):
    """TLS with grid proxies (RFC 3820): `run`, one for all testers of a run; `tester`, one for each."""

    proxy: Literal["run", "tester"] | None = None


class CatalogueSection(Raw):
    """Operations of a file catalogue."""

    data: CatalogueEntries
    operation: Literal["insert", "query", "list", "delete", "chmod", "forbidden"] = "query"
    by: Literal["name", "guid", "replica"] = "name"
    bulk: Bulk = 1
    page: Bulk = 100
    keys: Literal["uniform", "single"] | ZipfKeys = "uniform"
    connection: Connection = "kept"
    round_trips: Literal["one", "lfc"] = "one"
    transactions: bool = False
    subject: PlainText = "/O=Plimsoll/CN=tester"
    verify: Fraction = 0.01
    tls: CatalogueTls | None = None


def _keys(keys: str | ZipfKeys) -> dict[str, Json]:
    return {"kind": "zipf", "s": keys.zipf} if isinstance(keys, ZipfKeys) else {"kind": keys}


def _catalogue_settings(section: CatalogueSection, at: KeyPath, context: Context) -> dict[str, Json]:
    if section.transactions and section.connection == "per-request":
        context.wrong((*at, "transactions"), "transactions need a session: use `connection: kept`")
    data = section.data
    return {
        "connection": section.connection,
        "data": {
            "entries": data.entries,
            "directory": data.directory,
            "replicas": data.replicas,
            "seed": data.seed,
        },
        "keys": _keys(section.keys),
        "round_trips": section.round_trips,
        "transactions": section.transactions,
        "subject": section.subject,
        "verify": section.verify,
        "tls": None
        if section.tls is None
        else {**tls_settings(section.tls, (*at, "tls"), context), "proxy": section.tls.proxy},
    }


def _catalogue_requests(section: CatalogueSection, at: KeyPath, context: Context) -> Requests:
    if section.by != "name" and section.operation not in ("query", "delete"):
        context.wrong(
            (*at, "by"),
            f"is used only by the operations query and delete, and the operation is {section.operation}",
        )
    if section.bulk > 1 and section.operation == "list":
        context.wrong((*at, "bulk"), "a list reads one directory: use `page` for the names of a page")
    request: dict[str, Json] = {
        "operation": section.operation,
        "by": section.by,
        "bulk": section.bulk,
        "page": section.page,
    }
    return [(section.operation, request)]


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from tls_files(settings)


CATALOGUE = Driver(
    CatalogueSection,
    frozenset({"data", "keys", "connection", "round_trips", "transactions", "subject", "verify", "tls"}),
    ("catalogue", "catalogues", "soap", "soaps"),
    _catalogue_settings,
    _catalogue_requests,
    files=_files,
)
