"""The service kind `mariadb`."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind
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


class MariadbService(ServiceSection):
    """A MariaDB server with its own data directory."""

    kind: Literal["mariadb"]
    settings: ServerSettings = Field(default_factory=dict)
    database: Name = "plimsoll"

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

    def scheme(self) -> str:
        return "mysql"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        check_settings(self.settings, RESERVED, ("services", name, "settings"), context)
        followed = any(
            database.name == name
            for section in services.values()
            if (database := section.followed_database()) is not None
        )
        return ServiceAdditions(
            settings={"binary_log": followed}
        )  # a gateway reads changes from the binary log
