"""The driver `catalogue`: operations of a file catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.common import ClientTls, Connection, client_tls_settings, tls_files
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.model.cell import Json, Operation, Service, Target
from plimsoll.plan.queries.database_url import password
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Count, Fraction, PlainText, Raw, Seed, Text

_STATELESS: Final = {"soap": "SOAP", "rucio": "Rucio"}
"""Protocols without sessions, by their schemes without TLS."""
MAX_BULK = 1000
ACCOUNT: Final = "root"
USER: Final = "plimsoll"
PASSWORD: Final = "plimsoll"
SCOPE: Final = "plimsoll"
"""Of a service of kind `rucio`. The password protects nothing: the server exists only while the experiment runs."""
_FIELD: Final = r"^[!-~]{1,255}$"
"""A value that is a field of an HTTP request."""
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


class RucioAccount(Raw):
    """Who the testers are at a Rucio, and the scope of all names."""

    account: Annotated[str, Field(pattern=_FIELD)] = ACCOUNT
    user: Annotated[str, Field(pattern=_FIELD)] = USER
    password: Text | None = None
    scope: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,25}$")] = SCOPE


class CatalogueSection(Raw):
    """Operations of a file catalogue."""

    data: CatalogueEntries
    operation: Literal[
        "insert",
        "query",
        "list",
        "delete",
        "chmod",
        "forbidden",
        "link",
        "get-acl",
        "set-acl",
        "forbidden-acl",
    ] = "query"
    by: Literal["name", "guid", "replica", "link"] = "name"
    bulk: Bulk = 1
    page: Bulk = 100
    keys: Literal["uniform", "single"] | ZipfKeys = "uniform"
    connection: Connection = "kept"
    round_trips: Literal["one", "lfc"] = "one"
    transactions: bool = False
    subject: PlainText = "/O=Plimsoll/CN=tester"
    verify: Fraction = 0.01
    tls: ClientTls | None = None
    rucio: RucioAccount = Field(default_factory=RucioAccount)


_NOT_IN_RUCIO: Final = {
    "chmod": "it has rules for accounts and no permissions of files",
    "forbidden": "the account of the testers may insert everywhere",
    "link": "it has no symbolic links",
    "get-acl": "it has no ACLs",
    "set-acl": "it has no ACLs",
    "forbidden-acl": "it has no ACLs",
}
"""Operations that only the other protocols have, with the reason."""


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
        else client_tls_settings(section.tls, (*at, "tls"), context, is_made=True),
        "rucio": _account(section.rucio, (*at, "rucio", "password"), context),
    }


def _account(account: RucioAccount, at: KeyPath, context: Context) -> dict[str, Json]:
    secret = None if account.password is None else password(account.password, at, context)
    return {
        "account": account.account,
        "user": account.user,
        "password": secret or PASSWORD,
        "scope": account.scope,
    }


def _catalogue_requests(section: CatalogueSection, at: KeyPath, context: Context) -> Requests:
    if section.by != "name" and section.operation not in ("query", "delete"):
        context.wrong(
            (*at, "by"),
            f"is used only by the operations query and delete, and the operation is {section.operation}",
        )
    if section.by == "link" and section.operation == "delete":
        context.wrong((*at, "by"), "link is used only by the operation query, and the operation is delete")
    if section.bulk > 1 and section.operation == "list":
        context.wrong((*at, "bulk"), "a list reads one directory: use `page` for the names of a page")
    if section.bulk > 1 and section.operation == "get-acl":
        context.wrong((*at, "bulk"), "an operation get-acl reads one ACL")
    request: dict[str, Json] = {
        "operation": section.operation,
        "by": section.by,
        "bulk": section.bulk,
        "page": section.page,
    }
    return [(section.operation, request)]


def check_protocols(
    settings: Mapping[str, Any],
    operations: Sequence[Operation],
    target: Target,
    services: Mapping[str, Service],
    at: KeyPath,
    context: Context,
) -> None:
    """Reports settings and operations of a workload of `catalogue` that the protocol of an endpoint does not have.
    `at`: path of the driver's section."""
    stateful = {"transactions": settings["transactions"], "round_trips": settings["round_trips"] == "lfc"}
    has_rucio = False
    for endpoint in target.endpoints:
        if endpoint.service is not None:
            scheme = services[endpoint.service].scheme
            remedy = f"give the service {endpoint.service} `protocol: stateful`"
        else:
            scheme = str(endpoint.url).partition(":")[0]
            remedy = "use a target catalogue:// or catalogues://"
        name = _STATELESS.get(scheme.rstrip("s"))
        if name == "Rucio":
            has_rucio, remedy = True, "use a service of kind catalogue"
        for key in (key for key, is_set in stateful.items() if is_set and name):
            context.wrong(
                (*at, key),
                f"{endpoint.name} uses {name}, and only the stateful protocol has this: leave this key out, "
                f"or {remedy}",
            )
    if has_rucio:
        _check_rucio(operations, at, context)


def _check_rucio(operations: Sequence[Operation], at: KeyPath, context: Context) -> None:
    for operation in operations:
        kind, by = operation.request["operation"], operation.request["by"]
        if kind in _NOT_IN_RUCIO:
            context.wrong(at, f"operation {operation.name}: Rucio has no {kind}: {_NOT_IN_RUCIO[str(kind)]}")
        if by != "name":
            context.wrong(at, f"operation {operation.name}: Rucio is queried by name, and `by` is {by}")


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from tls_files(settings)


CATALOGUE = Driver(
    CatalogueSection,
    frozenset(
        {"data", "keys", "connection", "round_trips", "transactions", "subject", "verify", "tls", "rucio"}
    ),
    ("catalogue", "catalogues", "soap", "soaps", "rucio", "rucios"),
    _catalogue_settings,
    _catalogue_requests,
    files=_files,
)
