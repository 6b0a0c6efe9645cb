"""The service kind `nginx`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import ServiceAdditions, Services, file_of_host
from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.services.squid import origin_needs
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, ServiceReference
from plimsoll.plan.source.units import NS


class NginxService(StatelessSection):
    """nginx as a reverse proxy without cache, or as a file server."""

    kind: Literal["nginx"]
    origin: ServiceReference | list[ServiceReference] | None = None
    root: PlainText | None = None
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    settings: list[Line] = Field(default_factory=list)

    start_ns: ClassVar[int] = NS["s"]
    request_counter: ClassVar[str | None] = "requests"
    arrival_counter: ClassVar[str | None] = "requests"
    forward_counter: ClassVar[str | None] = "requests"
    main_counters: ClassVar[tuple[str, ...]] = ("requests", "accepted")

    @model_validator(mode="after")
    def _one(self) -> NginxService:
        if (self.origin is None) == (self.root is None):
            raise PydanticCustomError(
                "nginx",
                "give one of `origin: NAME` (a service listed above it) and `root: DIRECTORY` (files)",
            )
        return self

    @property
    def origins(self) -> tuple[str, ...]:
        """The services behind the proxy, which balances over them."""
        return (self.origin,) if isinstance(self.origin, str) else tuple(self.origin or ())

    def scheme(self) -> str:
        return "http"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        settings: dict[str, Any] = {"origins": list(self.origins)}
        if self.origin is not None and not self.origins:
            context.wrong((*at, "origin"), "the list is empty: name at least one service")
        needs = [need for origin in self.origins for need in origin_needs(name, origin, services, context)]
        if self.root is not None:
            settings["root"] = file_of_host(self, self.root, (*at, "root"), context)
        return ServiceAdditions(tuple(dict.fromkeys(needs)), settings)
