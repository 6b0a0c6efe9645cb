"""The service kind `catalogue`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Service
from plimsoll.plan.services.database import database_address, database_kind, resolve_database
from plimsoll.plan.services.section import Addresses, ServiceAdditions, Services, WorkerPool
from plimsoll.plan.services.secured import SecuredSection, secured_config
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Text
from plimsoll.plan.source.units import NS

CATALOGUE_DATABASES: Final = ("sqlite", "postgres", "mariadb")
"""Kinds of databases that a catalogue supports."""


class CatalogueService(SecuredSection):
    """The file catalogue of Plimsoll, over the tables of a data set of kind `catalogue`."""

    kind: Literal["catalogue"]
    database: Text
    logic: Literal["server", "database"] = "server"
    protocol: Literal["stateful", "soap"] = "stateful"
    threads: Annotated[int, Field(ge=1, le=1000)] = 20
    idle_timeout: Annotated[Duration, Field(ge=NS["ms"], le=NS["d"])] = 60 * NS["s"]

    runs_in_engine: ClassVar[bool] = True
    serves_counters: ClassVar[bool] = True
    request_counter: ClassVar[str | None] = "answered"
    arrival_counter: ClassVar[str | None] = "received"
    main_counters: ClassVar[tuple[str, ...]] = (
        "answered",
        "entries_inserted",
        "entries_read",
        "handshakes",
    )
    worker_pool: ClassVar[WorkerPool | None] = WorkerPool(
        "thread", "connection", "in_progress", "threads_limit", "connections_waiting"
    )

    def scheme(self) -> str:
        plain = "soap" if self.protocol == "soap" else "catalogue"
        return f"{plain}s" if self.security == "tls" else plain

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        needs, database = resolve_database(self.database, name, services, CATALOGUE_DATABASES, context)
        kind = database_kind(self.database, services)
        if self.logic == "database" and kind in CATALOGUE_DATABASES and kind != "postgres":
            context.wrong(
                (*at, "logic"),
                f"functions of the database carry out operations with postgres only, not {kind}",
            )
        return ServiceAdditions(needs, {"database": database, **self.files(at, context)})

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        settings: Mapping[str, Any] = service.settings
        return {
            "database": database_address(service, addresses),
            "logic": settings["logic"],
            "protocol": settings["protocol"],
            "threads": settings["threads"],
            "idle_timeout_s": settings["idle_timeout"] / NS["s"],
            **secured_config(settings),
        }
