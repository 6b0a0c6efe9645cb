"""Raw model of `targets:`. It checks the form only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from plimsoll.plan.schema.watch import WatchEntries
from plimsoll.plan.source.fields import Label, Raw, ShortForm, Text


class EndpointRaw(Raw):
    """An address of a target: a URL, or the name of a service of this file."""

    at: Text
    name: Label | None = None


def _endpoint(value: object) -> object:
    return {"at": value} if not isinstance(value, dict) else value


class TargetRaw(Raw):
    """An existing system, or several services as one target."""

    endpoints: list[Annotated[EndpointRaw, BeforeValidator(_endpoint), ShortForm({"type": "string"})]] = (
        Field(min_length=1)
    )
    choose: Literal["per-request", "per-tester"] = "per-request"
    order: Literal["round-robin", "random"] = "round-robin"
    proxies: list[Text] = Field(default_factory=list)
    watch: WatchEntries = Field(default_factory=list)
