"""The service kind `postgres`."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind
from plimsoll.plan.services.section import ServiceAdditions, Services, ServiceSection
from plimsoll.plan.services.server_settings import ServerSettings, ServerVersion, check_settings
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Name
from plimsoll.plan.source.units import NS

RESERVED: Final = frozenset(
    {
        *("port", "listen_addresses", "unix_socket_directories", "data_directory", "hba_file", "ident_file"),
        *("config_file", "external_pid_file", "logging_collector", "log_destination", "ssl"),
    }
)


class PostgresService(ServiceSection):
    """A PostgreSQL server with its own cluster."""

    kind: Literal["postgres"]
    version: ServerVersion = "auto"
    settings: ServerSettings = Field(default_factory=dict)
    database: Name = "plimsoll"
    user: Name = "plimsoll"

    database_kind: ClassVar[DatabaseKind | None] = "postgres"
    start_ns: ClassVar[int] = 4 * NS["s"]
    request_counter: ClassVar[str | None] = "xact_commit"
    arrival_counter: ClassVar[str | None] = "statements.calls"
    main_counters: ClassVar[tuple[str, ...]] = ("xact_commit", "xact_rollback", "blks_read", "deadlocks")

    def scheme(self) -> str:
        return "postgresql"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        check_settings(self.settings, RESERVED, (*at, "settings"), context)
        if self.user == "postgres":
            context.wrong((*at, "user"), "postgres is the administrator of the server: choose another name")
        decoded = any(
            database.name == name and database.decodes
            for section in services.values()
            if (database := section.followed_database()) is not None
        )
        if decoded and self.settings.get("wal_level", "logical") != "logical":
            context.wrong(
                (*at, "settings", "wal_level"),
                "a gateway with `detection: logical-decoding` needs logical: remove this setting",
            )
        return ServiceAdditions(settings={"decoded": decoded})
