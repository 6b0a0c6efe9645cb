"""The service kind `command`."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import (
    ServiceAdditions,
    Services,
    check_order,
    file_of_host,
)
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Argv, Duration, PlainText, Raw, Text
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import Secret
from plimsoll.plan.source.units import NS

_ADDRESS: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*(?:\.[0-9]+)?)\.(port|url)\}")


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
        needs = self._needs(name, services, context)
        if self.cwd is not None and "{" not in self.cwd:
            settings["cwd"] = file_of_host(self, self.cwd, ("services", name, "cwd"), context)
        return ServiceAdditions(needs, settings)

    def _needs(self, name: str, services: Services, context: Context) -> tuple[str, ...]:
        """Services whose address the command contains as `{NAME.port}` or `{NAME.url}`."""
        at: KeyPath = ("services", name, "command")
        needs: dict[str, None] = {}
        for text in (*self.command, *self.env.values()):
            for match in _ADDRESS.finditer(text.reveal() if isinstance(text, Secret) else text):
                other = match[1]
                if other in services:
                    check_order(name, other, services, at, context)
                    needs[other] = None
                else:
                    context.wrong(at, f"{match[0]}: there is no service {other}", nearest(other, services))
        return tuple(needs)
