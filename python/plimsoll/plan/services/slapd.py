"""The service kind `slapd`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import (
    SentBytes,
    ServiceAdditions,
    Services,
    ServiceSection,
    file_of_host,
    plain,
)
from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, Raw, Seed
from plimsoll.plan.source.units import NS


class ServerTls(Raw):
    """The certificate of the server. Without files, Plimsoll makes a certificate that no authority has signed.
    `ca_file`: the authorities of client certificates."""

    cert: PlainText | None = None
    key: PlainText | None = None
    ca_file: PlainText | None = None

    @model_validator(mode="after")
    def _check_pair(self) -> ServerTls:
        if (self.cert is None) != (self.key is None):
            raise PydanticCustomError("tls", "give cert and key, or neither of them")
        return self


class SlapdService(ServiceSection):
    """An OpenLDAP server with the GLUE schema and a generated site."""

    kind: Literal["slapd"]
    entries: Annotated[int, Field(ge=100, le=50_000)] = 1000
    seed: Seed = 1
    threads: Annotated[int, Field(ge=2, le=1024)] = 16
    protocol: Literal["ldap", "ldaps"] = "ldap"
    tls: ServerTls | None = None
    settings: list[Line] = Field(default_factory=list)

    start_ns: ClassVar[int] = 2 * NS["s"]
    request_counter: ClassVar[str | None] = "search"
    arrival_counter: ClassVar[str | None] = "search"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("bytes", 1, "received")
    main_counters: ClassVar[tuple[str, ...]] = ("search", "entries", "bind", "connections")

    def scheme(self) -> str:
        return self.protocol

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name, "tls")
        if self.tls is None:
            return ServiceAdditions(
                settings={"tls": plain(ServerTls()) if self.protocol == "ldaps" else None}
            )
        files: dict[str, Any] = {
            key: None if value is None else file_of_host(self, value, (*at, key), context)
            for key, value in plain(self.tls).items()
        }
        return ServiceAdditions(settings={"tls": files})
