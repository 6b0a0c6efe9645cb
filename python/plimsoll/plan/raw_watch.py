"""Raw model of `watch:` of a target: what is read of a system that exists, checked for form only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.fields import Duration, Name, PlainText, Raw, Text
from plimsoll.plan.units import NS


def _seldom(value: int) -> int:
    if not NS["s"] <= value <= NS["h"]:
        raise PydanticCustomError(
            "every",
            "an exporter is read once in 1s to 1h: each reading is work for the system that is watched",
        )
    return value


class WatchRaw(Raw):
    """An exporter of Prometheus metrics that is read while a run goes on."""

    prometheus: PlainText
    name: Name
    kind: Literal["node", "squid"] | None = None
    metrics: list[Annotated[str, Field(pattern=r"^[A-Za-z_:*][A-Za-z0-9_:*]{0,199}$")]] = Field(
        default_factory=list
    )
    every: Annotated[Duration, AfterValidator(_seldom)] = 5 * NS["s"]
    headers: dict[str, Text] = Field(default_factory=dict)
    optional: bool = False

    @model_validator(mode="after")
    def _something(self) -> WatchRaw:
        if self.kind is None and not self.metrics:
            raise PydanticCustomError(
                "watch",
                "give `kind: node` or `kind: squid` for the exporters that Plimsoll knows, or `metrics`: the names of "
                "what is to be kept, such as [nginx_connections_active, 'myapp_*']",
            )
        return self
