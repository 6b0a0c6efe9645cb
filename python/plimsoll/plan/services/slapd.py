"""The service kind `slapd`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Target
from plimsoll.plan.services.section import (
    SentBytes,
    ServiceAdditions,
    Services,
    ServiceSection,
    WorkerPool,
    file_of_host,
)
from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, Raw, Seed
from plimsoll.plan.source.units import NS


class ServerTls(Raw):
    """The certificate of the server. Without files, Plimsoll makes an authority, and certificates of the server and of
    its clients. `ca_file`: other authorities of client certificates; `clients`: whether clients present them."""

    cert: PlainText | None = None
    key: PlainText | None = None
    ca_file: PlainText | None = None
    clients: Literal["none", "optional", "required"] | None = None

    @model_validator(mode="after")
    def _check_pair(self) -> ServerTls:
        if (self.cert is None) != (self.key is None):
            raise PydanticCustomError("tls", "give cert and key, or neither of them")
        if self.ca_file is not None and self.clients == "none":
            raise PydanticCustomError("tls", "ca_file is used only with `clients: optional` or `required`")
        if self.ca_file is None and self.cert is not None and self.has_clients:
            raise PydanticCustomError("tls", "client certificates need their authority: give ca_file")
        return self

    @property
    def has_clients(self) -> bool:
        """Whether clients can present certificates."""
        return self.clients != "none" if self.clients else self.ca_file is not None


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
    worker_pool: ClassVar[WorkerPool | None] = WorkerPool(
        "thread", "operation", "threads_active", "threads", "threads_pending", readers=1
    )

    @property
    def made_tls(self) -> ServerTls | None:
        """The settings of TLS; None: without TLS."""
        return self.tls or (ServerTls() if self.protocol == "ldaps" else None)

    @property
    def makes_credentials(self) -> bool:
        return self.made_tls is not None and self.made_tls.cert is None

    @property
    def knows_testers(self) -> bool:
        """Whether testers can present certificates that this service has made."""
        tls = self.made_tls
        return self.makes_credentials and tls is not None and tls.has_clients and tls.ca_file is None

    def scheme(self) -> str:
        return self.protocol

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name, "tls")
        tls = self.made_tls
        if tls is None:
            return ServiceAdditions(settings={"tls": None})
        settings: dict[str, Any] = {
            key: None if value is None else file_of_host(self, value, (*at, key), context)
            for key, value in (("cert", tls.cert), ("key", tls.key), ("ca_file", tls.ca_file))
        }
        settings["clients"] = tls.clients or ("optional" if tls.has_clients else "none")
        return ServiceAdditions(settings={"tls": settings})


def check_client_certificate(
    settings: Mapping[str, Any],
    target: Target,
    sections: Services,
    at: KeyPath,
    context: Context,
) -> None:
    """Reports a bind or proxies of a workload of `ldap` that need a client certificate which neither the section nor
    the service has. `at`: path of the driver's section."""
    tls = settings.get("tls") or {}
    if tls.get("cert") is not None:
        return
    for endpoint in target.endpoints:
        service = sections.get(endpoint.service or "")
        if isinstance(service, SlapdService) and service.knows_testers:
            continue
        remedy = "give tls: {cert: FILE, key: FILE}"
        if isinstance(service, SlapdService):
            remedy += f", or the service {endpoint.service} `tls: {{clients: optional}}`"
        if settings.get("bind", {}).get("kind") == "external":
            context.wrong((*at, "bind"), f"external needs a client certificate: {remedy}")
        elif tls.get("proxy") is not None:
            context.wrong((*at, "tls", "proxy"), f"a proxy needs the certificate that issues it: {remedy}")
