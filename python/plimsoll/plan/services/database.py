"""The database of a service of Plimsoll that reads one: a service, the URL of an existing server, or an SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plimsoll.errors import ServiceError
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind, Service
from plimsoll.plan.queries.database_url import SCHEMES, endpoint, is_database
from plimsoll.plan.services.section import Addresses, Services, check_order, kind_of
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import Secret, revealed


def resolve_database(
    database: str | Secret, name: str, services: Services, kinds: Sequence[str], context: Context
) -> tuple[tuple[str, ...], str | Secret]:
    """The services that the service `name` needs, and its database: a service of this file of one of the `kinds`, the
    URL of an existing server, or the path of an existing SQLite file."""
    at: KeyPath = ("services", name, "database")
    if isinstance(database, Secret) or is_database(database):
        return (), endpoint(database, name, at, SCHEMES, context).url or ""
    if database in services:
        section = services[database]
        if section.database_kind not in kinds:
            kind = kind_of(type(section))
            context.wrong(
                at, f"{database} is a service of kind {kind}: expected one of kind {' or '.join(kinds)}"
            )
        check_order(name, database, services, at, context)
        return (database,), database
    path = context.beside(database)
    if not Path(path).is_file():
        context.wrong(
            at,
            f'"{database}" is neither a service of this file nor a database file, nor a URL such as '
            "postgresql://USER@HOST/DATABASE",
            nearest(database, services),
        )
    return (), path


def database_kind(database: str | Secret, services: Services) -> DatabaseKind | None:
    """The kind of the database. None: it is a service that is not a database."""
    text = database.reveal() if isinstance(database, Secret) else database
    if text in services:
        return services[text].database_kind
    if not is_database(text):
        return "sqlite"
    return "mariadb" if text.partition("://")[0] in ("mysql", "mariadb") else "postgres"


def database_address(service: Service, addresses: Addresses) -> str:
    """URL of the database, or the path of an SQLite file."""
    database = str(revealed(service.settings["database"]))
    if database not in service.needs:
        return database
    urls = addresses.urls.get(database)
    if not urls:
        raise ServiceError(f"service {service.name}: its database {database} was not started")
    return urls[0].removeprefix("sqlite:")
