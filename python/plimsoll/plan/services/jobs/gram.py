"""The service kind `gram`."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.units import NS


class GramService(StatelessSection):
    """A gatekeeper of the Globus (Grid Community) Toolkit that starts jobs as processes of its own host."""

    kind: Literal["gram"]
    settings: list[Line] = Field(default_factory=list)

    start_ns: ClassVar[int] = 2 * NS["s"]
    request_counter: ClassVar[str | None] = "requests"
    main_counters: ClassVar[tuple[str, ...]] = ("requests", "pings", "connections", "failed")

    @property
    def makes_credentials(self) -> bool:
        return True

    def scheme(self) -> str:
        return "gram"
