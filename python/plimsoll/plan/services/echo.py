"""The service kind `echo`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.fields import Size


class EchoService(StatelessSection):
    """Answers immediately: HTTP with a body of a fixed size, or raw TCP that echoes its input."""

    kind: Literal["echo"]
    http: bool = True
    body: Size = 2
    status: Annotated[int, Field(ge=200, le=599)] = 200

    runs_in_engine: ClassVar[bool] = True
    request_counter: ClassVar[str | None] = "answered"
    arrival_counter: ClassVar[str | None] = "received"
    main_counters: ClassVar[tuple[str, ...]] = ("answered", "refused")

    def scheme(self) -> str:
        return "http" if self.http else "tcp"
