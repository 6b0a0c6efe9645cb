"""The service kind `xrootd`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import (
    SentBytes,
    ServiceAdditions,
    Services,
    check_order,
    find_service,
    kind_of,
)
from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.services.storage.files import FilesRaw
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Name
from plimsoll.plan.source.units import NS


class XrootdService(StatelessSection):
    """An XRootD server: alone, the redirector of a cluster, or a data server of a redirector."""

    kind: Literal["xrootd"]
    role: Literal["server", "redirector"] = "server"
    redirector: Name | None = None
    protocol: Literal["root", "http"] = "root"
    files: FilesRaw | None = None
    lookup: Annotated[Duration, Field(ge=NS["s"])] | None = None
    settings: list[Line] = Field(default_factory=list)

    start_ns: ClassVar[int] = 5 * NS["s"]
    request_counter: ClassVar[str | None] = "opens"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("bytes_out", 1, "received")
    main_counters: ClassVar[tuple[str, ...]] = ("opens", "logins", "redirects", "errors")

    def scheme(self) -> str:
        return self.protocol

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        if self.lookup is not None and self.lookup % NS["s"]:
            context.wrong((*at, "lookup"), "expected whole seconds")
        if self.role == "redirector":
            self._check_redirector(name, services, at, context)
            return ServiceAdditions()
        if self.lookup is not None:
            context.wrong((*at, "lookup"), "this is a key of a redirector: give it `role: redirector`")
        if self.redirector is None:
            return ServiceAdditions()
        self._check_data_server(name, self.redirector, services, at, context)
        return ServiceAdditions((self.redirector,))

    def _check_redirector(self, name: str, services: Services, at: KeyPath, context: Context) -> None:
        for key in ("files", "redirector", "instances"):
            if getattr(self, key) is not None:
                message = "a redirector stores no files and is a single service: remove this key"
                context.wrong((*at, key), message)
        data_servers = (other for other in services.values() if isinstance(other, XrootdService))
        if not any(other.redirector == name for other in data_servers):
            message = f"no service has `redirector: {name}`: add a data server below it, of kind xrootd"
            context.wrong((*at, "role"), message)

    @staticmethod
    def _check_data_server(
        name: str, redirector: str, services: Services, at: KeyPath, context: Context
    ) -> None:
        place = (*at, "redirector")
        other = find_service(redirector, services, place, context)
        if other is None:
            return
        if not isinstance(other, XrootdService):
            context.wrong(place, f"{redirector} is a service of kind {kind_of(type(other))}, not xrootd")
        elif other.role != "redirector":
            context.wrong(place, f"{redirector} is not a redirector: give it `role: redirector`")
        else:
            check_order(name, redirector, services, place, context)
