"""The service kind `echo`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.source.fields import Size


class EchoService(ServiceSection):
    """Answers immediately: HTTP with a body of a fixed size, or raw TCP that echoes its input."""

    kind: Literal["echo"]
    http: bool = True
    body: Size = 2
    status: Annotated[int, Field(ge=200, le=599)] = 200

    runs_in_engine: ClassVar[bool] = True

    def scheme(self) -> str:
        return "http" if self.http else "tcp"
