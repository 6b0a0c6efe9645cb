"""The service kind `command`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.addresses import services_in
from plimsoll.plan.services.section import ServiceAdditions, Services, file_of_host
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.fields import Argv, Duration, PlainText, Raw, Text
from plimsoll.plan.source.units import NS


class Ready(Raw):
    """How to detect that a service is ready: exactly one of the three."""

    tcp: Literal[True] | None = None
    http: PlainText | None = None
    log: PlainText | None = None

    @model_validator(mode="after")
    def _one(self) -> Ready:
        if sum(value is not None for value in (self.tcp, self.http, self.log)) != 1:
            raise PydanticCustomError(
                "ready", "give exactly one of `tcp: true`, `http: /path`, `log: regular expression`"
            )
        return self


class CommandService(StatelessSection):
    """Any server binary. It listens on `{address}` and `{port}`; `{dir}` is its own directory."""

    kind: Literal["command"]
    command: Argv
    ready: Ready = Field(default_factory=lambda: Ready(tcp=True))
    url: PlainText = "http://{address}:{port}"
    env: dict[str, Text] = Field(default_factory=dict)
    cwd: PlainText | None = None
    stop_timeout: Duration = 10 * NS["s"]

    start_ns: ClassVar[int] = 2 * NS["s"]

    def scheme(self) -> str:
        return self.url.partition(":")[0]

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        settings: dict[str, Any] = {}
        texts = [*self.command, *self.env.values()]
        needs = services_in(texts, name, services, ("services", name, "command"), context)
        if self.cwd is not None and "{" not in self.cwd:
            settings["cwd"] = file_of_host(self, self.cwd, ("services", name, "cwd"), context)
        return ServiceAdditions(needs, settings)
