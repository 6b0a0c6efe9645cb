"""The driver `tcp`: sends a text and waits for an answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.common import Connection
from plimsoll.plan.drivers.driver import Context, Driver, Requests
from plimsoll.plan.drivers.source_addresses import KEY, SourceAddresses, source_settings
from plimsoll.plan.model.cell import Json
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Raw, Text


class TcpSection(Raw):
    """Sends a string, then waits for a number of bytes, for a line, or for the end of the
    connection."""

    send: Text = "ping\n"
    expect_bytes: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    expect_line: Literal[True] | None = None
    expect_close: Literal[True] | None = None
    connection: Connection = "kept"
    source_addresses: SourceAddresses | None = None

    @model_validator(mode="after")
    def _check_one(self) -> TcpSection:
        if sum(value is not None for value in (self.expect_bytes, self.expect_line, self.expect_close)) > 1:
            raise PydanticCustomError("expect", "give one of expect_bytes, expect_line, expect_close")
        return self


def _tcp_settings(section: TcpSection, at: KeyPath, context: Context) -> dict[str, Json]:
    return {
        "connection": section.connection,
        **source_settings(section.source_addresses, at, context),
    }


def _tcp_requests(section: TcpSection, at: KeyPath, context: Context) -> Requests:
    expect: dict[str, Json] = {"kind": "close" if section.expect_close else "line"}
    if section.expect_bytes is not None:
        expect = {"kind": "bytes", "count": section.expect_bytes}
    return [("exchange", {"send": section.send, "expect": expect})]


TCP = Driver(TcpSection, frozenset({"connection", KEY}), ("tcp",), _tcp_settings, _tcp_requests)
