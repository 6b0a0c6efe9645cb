"""The service kind `sqlite`."""

from __future__ import annotations

from typing import ClassVar, Literal

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import DatabaseKind
from plimsoll.plan.services.section import ServiceAdditions, Services, ServiceSection
from plimsoll.plan.source.fields import PlainText


class SqliteService(ServiceSection):
    """An SQLite file, without a server process. `data:` fills it; `file` is an existing file,
    opened read-only."""

    kind: Literal["sqlite"]
    file: PlainText | None = None

    database_kind: ClassVar[DatabaseKind | None] = "sqlite"
    starts_process: ClassVar[bool] = False
    start_ns: ClassVar[int] = 0

    def scheme(self) -> str:
        return "sqlite"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        if self.file is None:
            return ServiceAdditions()
        return ServiceAdditions(settings={"file": context.file(self.file, ("services", name, "file"))})
