"""The service kind `postgres`."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind
from plimsoll.plan.services.databases.replication import (
    KEY,
    ReplicaOf,
    Replication,
    check_replica,
    check_replication_settings,
    check_same_as_source,
    inherited_settings,
    replicas_of,
    sources_of,
)
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
DEFAULT_NAME: Final = "plimsoll"
"""Of the database, and of its user."""
OF_REPLICATION: Final = frozenset(
    {"synchronous_standby_names", "primary_conninfo", "primary_slot_name", "hot_standby", "cluster_name"}
)


class PostgresService(ServiceSection):
    """A PostgreSQL server with its own cluster, or a replica of another one."""

    kind: Literal["postgres"]
    version: ServerVersion = "auto"
    settings: ServerSettings = Field(default_factory=dict)
    database: Name | None = None
    user: Name | None = None
    replica_of: ReplicaOf = None
    replication: Replication | None = None
    synchronous: bool | None = None

    database_kind: ClassVar[DatabaseKind | None] = "postgres"
    start_ns: ClassVar[int] = 4 * NS["s"]
    request_counter: ClassVar[str | None] = "xact_commit"
    arrival_counter: ClassVar[str | None] = "statements.calls"
    main_counters: ClassVar[tuple[str, ...]] = ("xact_commit", "xact_rollback", "blks_read", "deadlocks")

    @property
    def replicates(self) -> str | None:
        return self.replica_of

    def scheme(self) -> str:
        return "postgresql"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        check_settings(self.settings, RESERVED, (*at, "settings"), context)
        check_replication_settings(name, OF_REPLICATION, services, context)
        if self.user == "postgres":
            context.wrong((*at, "user"), "postgres is the administrator of the server: choose another name")
        needs = check_replica(name, services, context)
        decoded = any(
            database.name == name and database.decodes
            for section in services.values()
            if (database := section.followed_database()) is not None
        )
        ways = {way for each in replicas_of(name, services) if (way := _way(services[each])) is not None}
        self._check_wal_level(name, ways, decoded, context)
        self._check_replication(name, services, context)
        settings = {
            "decoded": decoded,
            "replicas": sorted(ways),
            "settings": dict(inherited_settings(name, services)),
        }
        return ServiceAdditions(needs, {**settings, **self._of_first(name, services)})

    def _check_wal_level(self, name: str, ways: set[Replication], decoded: bool, context: Context) -> None:
        level = self.settings.get("wal_level", "logical")
        at: KeyPath = ("services", name, "settings", "wal_level")
        if decoded and level != "logical":
            context.wrong(
                at, "a gateway with `detection: logical-decoding` needs logical: remove this setting"
            )
        elif "logical" in ways and level != "logical":
            context.wrong(at, "a replica with `replication: logical` needs logical: remove this setting")
        elif ways and level == "minimal":
            context.wrong(at, "replicas need replica or logical: remove this setting")

    def _check_replication(self, name: str, services: Services, context: Context) -> None:
        at: KeyPath = ("services", name)
        if self.replica_of is None:
            for key in ("replication", "synchronous"):
                if getattr(self, key) is not None:
                    context.wrong((*at, key), f"is a key of replicas: give `{KEY}` too, or remove this key")
            return
        is_logical = _way(self) == "logical"
        same = ("database", "user") if is_logical else ("database", "user", "version")
        check_same_as_source(name, same, "auto", services, context)
        source, first = services.get(self.replica_of), sources_of(name, services)[-1]
        if self.synchronous and is_logical:
            context.wrong((*at, "synchronous"), "needs `replication: streaming`")
        elif self.synchronous and source is not None and source.replicates is not None:
            context.wrong(
                (*at, "synchronous"),
                f"commits are made at {first}, which does not know the replicas of {self.replica_of}: remove this key, "
                f"or replicate {first}",
            )
        if is_logical and source is not None and _way(source) == "streaming":
            context.wrong(
                (*at, "replication"),
                f"{self.replica_of} is itself a streaming replica, which cannot be the source of a logical one: "
                f"replicate {first}",
            )

    def _of_first(self, name: str, services: Services) -> dict[str, Any]:
        """The settings that a replica has from the server that accepts writes, and that have defaults otherwise."""
        first = services.get((sources_of(name, services) or [name])[-1])
        if not isinstance(first, PostgresService):
            first = self
        settings = {
            "database": first.database or DEFAULT_NAME,
            "user": first.user or DEFAULT_NAME,
            "replication": _way(self),
            "synchronous": bool(self.synchronous),
        }
        return settings if _way(self) == "logical" else {**settings, "version": first.version}


def _way(section: ServiceSection) -> Replication | None:
    """How a service replicates its source; None if it is no replica."""
    if not isinstance(section, PostgresService) or section.replica_of is None:
        return None
    return section.replication or "streaming"
