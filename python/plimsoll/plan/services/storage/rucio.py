"""The service kind `rucio`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import (
    ServiceAdditions,
    Services,
    ServiceSection,
    check_order,
    file_of_host,
    find_service,
    kind_of,
)
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Name, PlainText
from plimsoll.plan.source.units import NS


class RucioService(ServiceSection):
    """The server of Rucio below gunicorn, with its tables in a schema of its own of a PostgreSQL."""

    kind: Literal["rucio"]
    database: Name
    workers: Annotated[int, Field(ge=1, le=64)] = 2
    threads: Annotated[int, Field(ge=1, le=100)] = 4
    python: PlainText | None = None
    security: Literal["none", "tls"] = "none"
    cert_file: PlainText | None = None
    key_file: PlainText | None = None
    ready_timeout: Duration = 60 * NS["s"]

    start_ns: ClassVar[int] = 10 * NS["s"]
    request_counter: ClassVar[str | None] = "requests"
    arrival_counter: ClassVar[str | None] = "requests"
    main_counters: ClassVar[tuple[str, ...]] = ("requests", "logins", "failed")

    @property
    def makes_credentials(self) -> bool:
        return self.security == "tls" and self.cert_file is None

    def scheme(self) -> str:
        return "rucios" if self.security == "tls" else "rucio"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        if (self.cert_file is None) != (self.key_file is None):
            context.wrong(at, "give cert_file and key_file, or none of them")
        settings = {}
        for key in ("python", "cert_file", "key_file"):
            file = getattr(self, key)
            if file is None:
                continue
            settings[key] = file_of_host(self, file, (*at, key), context)
            if key != "python" and self.security == "none":
                context.wrong((*at, key), "is used only with `security: tls`")
        place = (*at, "database")
        section = find_service(self.database, services, place, context)
        if section is None:
            return ServiceAdditions()
        if section.database_kind != "postgres":
            kind = kind_of(type(section))
            context.wrong(
                place, f"{self.database} is a service of kind {kind}: expected one of kind postgres"
            )
        elif section.replicates is not None:
            context.wrong(place, f"{self.database} is a replica, and Rucio writes: use {section.replicates}")
        check_order(name, self.database, services, place, context)
        return ServiceAdditions((self.database,), settings)
