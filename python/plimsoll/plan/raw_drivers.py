"""Raw model of the drivers' sections: `http:`, `sql:`, `frontier:`, `tcp:`, `null:`, `exec:` of a workload.

A section holds the keys of the connection and those of the single request; an entry of `mix` may give any of
the latter anew. `SECTIONS` is the one list of drivers of the lab.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.fields import Count, Label, PlainText, Raw, Short, Size, Text, shown
from plimsoll.plan.raw_services import Argv

Queries = list[PlainText]
Connection = Literal["kept", "per-request"]
Status = Annotated[int, Field(ge=100, le=599)]


def _statuses(value: object) -> object:
    return value if isinstance(value, list) else [value]


class Expect(Raw):
    """What an answer must be like; one that is not counts as "wrong"."""

    status: (
        Annotated[
            list[Status],
            BeforeValidator(_statuses),
            Short({"type": "integer", "minimum": 100, "maximum": 599, "examples": [200]}),
        ]
        | None
    ) = None
    body_contains: PlainText | None = None
    body_regex: PlainText | None = None


class Tls(Raw):
    """How the server is checked, and who we are."""

    ca_file: PlainText | None = None
    ca_dir: PlainText | None = None
    cert: PlainText | None = None
    key: PlainText | None = None
    verify: bool = True

    @model_validator(mode="after")
    def _pair(self) -> Tls:
        if self.cert is None and self.key is not None:
            raise PydanticCustomError("tls", "a key needs its certificate: give cert as well")
        return self


def _method(value: str) -> str:
    if re.fullmatch(r"[A-Z][A-Z0-9_-]{0,31}", value):
        return value
    raise PydanticCustomError(
        "method", "expected a method such as GET or POST, got {shown}", {"shown": shown(value)}
    )


class HttpSection(Raw):
    """HTTP/1.1."""

    method: Annotated[str, AfterValidator(_method)] = "GET"
    path: Text = "/"
    paths: list[Text] | None = Field(default=None, min_length=1)
    headers: dict[str, Text] = Field(default_factory=dict)
    body: Text | None = None
    body_file: PlainText | None = None
    expect: Expect = Field(default_factory=Expect)
    connection: Connection = "kept"
    tls: Tls = Field(default_factory=Tls)
    token_file: PlainText | None = None
    proxy: Text | None = None

    @model_validator(mode="after")
    def _one_body(self) -> HttpSection:
        if self.body is not None and self.body_file is not None:
            raise PydanticCustomError("body", "give body or body_file, not both")
        return self


class SqlSection(Raw):
    """SQL to a database; SQLite for now."""

    queries: Queries = Field(default_factory=list)
    database: PlainText | None = None
    connection: Literal["kept", "per-query"] = "kept"


class FrontierSection(Raw):
    """SQL through a Frontier gateway or a cache in front of it."""

    queries: Queries = Field(default_factory=list)
    zip: Annotated[int, Field(ge=0, le=9)] = 5
    ttl: Literal["short", "long", "forever"] = "long"
    refresh: Literal["none", "no-cache", "max-age"] = "none"
    id: PlainText = "plimsoll"
    connection: Connection = "kept"
    proxy: Text | None = None


class TcpSection(Raw):
    """Sends a text, then waits for so many bytes, for a line, or for the end of the connection."""

    send: Text = "ping\n"
    expect_bytes: Count | None = None
    expect_line: Literal[True] | None = None
    expect_close: Literal[True] | None = None
    connection: Connection = "kept"

    @model_validator(mode="after")
    def _one(self) -> TcpSection:
        if sum(value is not None for value in (self.expect_bytes, self.expect_line, self.expect_close)) > 1:
            raise PydanticCustomError("expect", "give one of expect_bytes, expect_line, expect_close")
        return self


class NullSection(Raw):
    """Does nothing at all: what remains is the cost of the tool itself."""


class ExecBytes(Raw):
    """Where the payload of a program's transaction comes from: exactly one of the three."""

    fixed: Size | None = None
    regex: PlainText | None = None
    json_: Literal[True] | None = Field(default=None, alias="json")

    @model_validator(mode="after")
    def _one(self) -> ExecBytes:
        if sum(value is not None for value in (self.fixed, self.regex, self.json_)) != 1:
            raise PydanticCustomError(
                "bytes", "give exactly one of `fixed: 1MB`, `regex: ([0-9]+) bytes`, `json: true`"
            )
        return self


class ExecSection(Raw):
    """Any executable, one process for each transaction, or one for each tester that prints a line for
    each."""

    command: Argv | None = None
    mode: Literal["per-transaction", "long-lived"] = "per-transaction"
    bytes: ExecBytes | None = None
    env: dict[str, Text] = Field(default_factory=dict)
    cwd: PlainText | None = None
    stdin: Text | None = None


SECTIONS: Final[dict[str, type[Raw]]] = {
    "exec": ExecSection,
    "frontier": FrontierSection,
    "http": HttpSection,
    "null": NullSection,
    "sql": SqlSection,
    "tcp": TcpSection,
}

SHARED_KEYS: Final[dict[str, frozenset[str]]] = {
    "exec": frozenset({"mode", "env", "cwd"}),
    "frontier": frozenset({"id", "connection", "proxy"}),
    "http": frozenset({"connection", "tls", "token_file", "proxy"}),
    "null": frozenset(),
    "sql": frozenset({"database", "connection"}),
    "tcp": frozenset({"connection"}),
}
"""Keys of a section that hold for all requests of a workload; an entry of `mix` cannot give them."""


class MixEntry(Raw):
    """One kind of request: its share is weight / sum of the weights. Beside these keys, keys of the driver's
    section."""

    model_config = ConfigDict(extra="allow")

    weight: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 1.0
    name: Label | None = None
