"""The service kind `mariadb`."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind
from plimsoll.plan.services.databases.replication import (
    ReplicaOf,
    check_replica,
    check_replication_settings,
    check_same_as_source,
    inherited_settings,
    replicas_of,
    sources_of,
)
from plimsoll.plan.services.section import (
    ReceivedBytes,
    SentBytes,
    ServiceAdditions,
    Services,
    ServiceSection,
)
from plimsoll.plan.services.server_settings import ServerSettings, check_settings
from plimsoll.plan.source.fields import Name
from plimsoll.plan.source.units import NS

RESERVED: Final = frozenset(
    {
        *("port", "bind_address", "socket", "datadir", "basedir", "tmpdir", "pid_file", "user", "init_file"),
        *("log_error", "skip_networking", "skip_name_resolve", "skip_grant_tables"),
    }
)
OF_REPLICATION: Final = frozenset(
    {
        *(
            "server_id",
            "log_bin",
            "log_slave_updates",
            "log_replica_updates",
            "gtid_strict_mode",
            "relay_log",
        ),
        *("read_only", "skip_slave_start", "skip_replica_start", "gtid_domain_id"),
    }
)
"""Parameters of a server that has replicas, or is one."""


class MariadbService(ServiceSection):
    """A MariaDB server with its own data directory, or a replica of another one."""

    kind: Literal["mariadb"]
    settings: ServerSettings = Field(default_factory=dict)
    database: Name | None = None
    replica_of: ReplicaOf = None

    database_kind: ClassVar[DatabaseKind | None] = "mariadb"
    start_ns: ClassVar[int] = 6 * NS["s"]
    request_counter: ClassVar[str | None] = "Questions"
    arrival_counter: ClassVar[str | None] = "Com_select"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("Bytes_sent", 1, "received")
    main_counters: ClassVar[tuple[str, ...]] = (
        "Questions",
        "Innodb_buffer_pool_reads",
        "Innodb_row_lock_waits",
        "Slow_queries",
    )
    received_bytes: ClassVar[ReceivedBytes | None] = ReceivedBytes("Bytes_received", 1)

    @property
    def replicates(self) -> str | None:
        return self.replica_of

    def scheme(self) -> str:
        return "mysql"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        check_settings(self.settings, RESERVED, ("services", name, "settings"), context)
        needs = check_replica(name, services, context)
        followed = any(
            database.name == name
            for section in services.values()
            if (database := section.followed_database()) is not None
        )
        is_replicating = self.replica_of is not None or bool(replicas_of(name, services))
        if is_replicating:
            check_replication_settings(name, OF_REPLICATION, services, context)
        check_same_as_source(name, ("database",), "", services, context)
        first = services.get((sources_of(name, services) or [name])[-1])
        settings = {
            "settings": dict(inherited_settings(name, services)),
            "database": (first.database if isinstance(first, MariadbService) else None) or "plimsoll",
            # A gateway reads changes from the binary log, and so does a replica.
            "binary_log": followed or is_replicating,
            "replicating": is_replicating,
            "server_id": _server_id(name, services) if is_replicating else 1,
        }
        return ServiceAdditions(needs, settings)


def _server_id(name: str, services: Services) -> int:
    """The number of a server among those of the file: it must be unique among a server and its replicas."""
    return 1 + [each for each, section in services.items() if isinstance(section, MariadbService)].index(name)
