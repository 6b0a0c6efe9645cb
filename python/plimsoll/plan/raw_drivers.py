"""Raw model of the drivers' sections: `http:`, `sql:`, `frontier:`, `tcp:`, `null:`, `exec:`, `replay:` of a workload.

A section holds the keys of the connection and those of the single request; an entry of `mix` may give any of
the latter anew. `SECTIONS` is the one list of drivers of the lab.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.fields import Count, Duration, Fraction, Label, PlainText, Raw, Short, Size, Text, shown
from plimsoll.plan.raw_queries import FromLog, HttpVersion, Refresh, TableWork
from plimsoll.plan.raw_servers import Argv
from plimsoll.plan.units import NS

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
    resend_non_idempotent: bool = False
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
    """SQL to a database."""

    queries: Queries = Field(default_factory=list)
    from_log: FromLog | None = None
    database: PlainText | None = None
    password: Text | None = None
    tls: Tls | None = None
    connection: Literal["kept", "per-query"] = "kept"


class FrontierSection(Raw):
    """SQL through a Frontier gateway or a cache in front of it."""

    queries: Queries = Field(default_factory=list)
    from_log: FromLog | None = None
    batch: Annotated[int, Field(ge=1, le=32)] = 1
    zip: Annotated[int, Field(ge=0, le=9)] = 5
    ttl: Literal["short", "long", "forever"] = "long"
    refresh: Refresh = "none"
    freshkey: PlainText | None = None
    uncached: Fraction = 0.0
    chatter: Annotated[int, Field(ge=0, le=100)] = 0
    chatter_queries: Queries | None = Field(default=None, min_length=1)
    failover: Literal["none", "client"] = "none"
    failover_to_server: bool = True
    load_balance: Literal["none", "proxies", "servers"] = "none"
    connect_timeout: Annotated[Duration, Field(ge=1)] = 5 * NS["s"]
    read_timeout: Annotated[Duration, Field(ge=1)] = 10 * NS["s"]
    http: HttpVersion = "1.1"
    id: PlainText = "plimsoll"
    connection: Connection = "kept"
    proxy: Text | None = None

    @model_validator(mode="after")
    def _fits(self) -> FrontierSection:
        if self.failover == "none" and self.load_balance != "none":
            raise PydanticCustomError(
                "failover",
                "load_balance belongs to `failover: client`; without it `choose` and `order` of a target say how "
                "endpoints and proxies are chosen",
            )
        if self.failover == "none" and not self.failover_to_server:
            raise PydanticCustomError("failover", "failover_to_server belongs to `failover: client`")
        if self.chatter == 0 and self.chatter_queries is not None:
            raise PydanticCustomError("chatter", "chatter_queries needs chatter: how many of them, such as 4")
        return self


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
    files: list[PlainText] = Field(default_factory=list)
    stdin: Text | None = None


class Copies(Raw):
    """Which names of a trace all jobs have in common; what matches neither list is private, as is what matches both."""

    private: list[PlainText] = Field(default_factory=list)
    shared: list[PlainText] = Field(default_factory=list)
    write_shared: bool = False


class ReplaySection(Raw):
    """A trace of file I/O, done to a directory: one job, the whole trace, is one transaction."""

    trace: PlainText | None = None
    root: PlainText | None = None
    timing: Literal["diff", "exact", "afap"] = "diff"
    scale: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0
    order: Literal["resource", "trace"] = "resource"
    map: PlainText | None = None
    ignore: PlainText | None = None
    copies: Copies = Field(default_factory=Copies)
    prepare: Literal["data", "sparse", "none"] = "data"
    compressibility: Fraction = 0.0
    clean: bool = True
    read_maps: bool = False
    allow_root: bool = False
    per_call: bool = False


SECTIONS: Final[dict[str, type[Raw]]] = {
    "exec": ExecSection,
    "frontier": FrontierSection,
    "http": HttpSection,
    "null": NullSection,
    "replay": ReplaySection,
    "sql": SqlSection,
    "tcp": TcpSection,
}

SHARED_KEYS: Final[dict[str, frozenset[str]]] = {
    "exec": frozenset({"mode", "env", "cwd", "files"}),
    "frontier": frozenset(
        {"id", "connection", "proxy", "http", "from_log", "uncached", "chatter", "chatter_queries"}
        | {"failover", "failover_to_server", "load_balance", "connect_timeout", "read_timeout"}
    ),
    "http": frozenset({"connection", "tls", "token_file", "proxy"}),
    "null": frozenset(),
    "replay": frozenset(ReplaySection.model_fields),
    "sql": frozenset({"database", "connection", "from_log", "password", "tls"}),
    "tcp": frozenset({"connection"}),
}
"""Keys of a section that hold for all requests of a workload; an entry of `mix` cannot give them."""


class MixEntry(Raw):
    """One kind of request: its share is weight / sum of the weights; each tester begins with `first` of them. `table`:
    in place of queries. Beside these keys, keys of the driver's section."""

    model_config = ConfigDict(extra="allow")

    weight: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 1.0
    first: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    name: Label | None = None
    table: TableWork | None = None

    @model_validator(mode="after")
    def _asked(self) -> MixEntry:
        if self.weight == 0 and self.first == 0:
            raise PydanticCustomError(
                "weight", "weight must be above 0, or `first` say how many each tester begins with"
            )
        return self
