"""The driver `http`: HTTP/1.1, with or without TLS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.common import (
    ClientTls,
    Connection,
    check_regex,
    client_tls_settings,
    proxy,
    short_name,
    tls_files,
)
from plimsoll.plan.drivers.driver import Context, Driver, LogRequests, Requests
from plimsoll.plan.drivers.http_log import log_requests
from plimsoll.plan.drivers.source_addresses import KEY, SourceAddresses, source_settings
from plimsoll.plan.model.cell import Json, Operation
from plimsoll.plan.queries.sections import HttpFromLog
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import PlainText, Raw, ShortForm, Text, shown
from plimsoll.plan.source.secret import HIDDEN, Secret

Status = Annotated[int, Field(ge=100, le=599)]


def _statuses(value: object) -> object:
    return value if isinstance(value, list) else [value]


class Expect(Raw):
    """What an answer must contain. Any other answer counts as "wrong"."""

    status: (
        Annotated[
            list[Status],
            BeforeValidator(_statuses),
            ShortForm({"type": "integer", "minimum": 100, "maximum": 599, "examples": [200]}),
        ]
        | None
    ) = None
    body_contains: PlainText | None = None
    body_regex: PlainText | None = None


def _method(value: str) -> str:
    if re.fullmatch(r"[A-Z][A-Z0-9_-]{0,31}", value):
        return value
    raise PydanticCustomError(
        "method", "expected a method such as GET or POST, got {shown}", {"shown": shown(value)}
    )


MAX_METRICS: Final = 16
OWN_METRICS: Final = ("tcp_rtt", "tcp_retransmits", "tcp_connect_s", "tls_handshake_s")
"""Metrics that the driver records itself."""
MetricWord = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
HeaderField = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$", examples=["Server-Load"])]


class HttpSection(Raw):
    """HTTP/1.1."""

    method: Annotated[str, AfterValidator(_method)] = "GET"
    path: Text = "/"
    paths: list[Text] | None = Field(default=None, min_length=1)
    from_log: HttpFromLog | None = None
    headers: dict[str, Text] = Field(default_factory=dict)
    body: Text | None = None
    body_file: PlainText | None = None
    expect: Expect = Field(default_factory=Expect)
    metrics: dict[MetricWord, HeaderField] = Field(default_factory=dict, max_length=MAX_METRICS)
    resend_non_idempotent: bool = False
    connection: Connection = "kept"
    tls: ClientTls = Field(default_factory=ClientTls)
    token_file: PlainText | None = None
    proxy: Text | None = None
    source_addresses: SourceAddresses | None = None

    @model_validator(mode="after")
    def _check_one_body(self) -> HttpSection:
        if self.body is not None and self.body_file is not None:
            raise PydanticCustomError("body", "give body or body_file, not both")
        return self

    @model_validator(mode="after")
    def _check_log(self) -> HttpSection:
        if self.from_log is None:
            return self
        for key in ("method", "path", "paths", "body", "body_file"):
            if key in self.model_fields_set and getattr(self, key) is not None:
                raise PydanticCustomError(
                    "from_log", "give {key} or from_log, not both: each defines the requests", {"key": key}
                )
        return self


def _http_settings(section: HttpSection, at: KeyPath, context: Context) -> dict[str, Json]:
    token = None if section.token_file is None else context.file(section.token_file, (*at, "token_file"))
    return {
        "connection": section.connection,
        "tls": client_tls_settings(section.tls, (*at, "tls"), context),
        "token_file": token,
        "proxies": [] if section.proxy is None else [proxy(section.proxy, (*at, "proxy"), context)],
        "keep_body": False,  # the engine keeps the body if `expect` needs it
        **_metrics(section, (*at, "metrics"), context),
        **source_settings(section.source_addresses, at, context),
    }


def _metrics(section: HttpSection, at: KeyPath, context: Context) -> dict[str, Json]:
    """The key of the settings; empty without metrics."""
    for name in section.metrics:
        if name in OWN_METRICS:
            context.wrong((*at, name), "the driver records a metric of this name itself: use another name")
    return {"metrics": [list(pair) for pair in section.metrics.items()]} if section.metrics else {}


def _http_log_requests(section: HttpSection, at: KeyPath, context: Context) -> LogRequests | None:
    if section.from_log is None:
        return None
    return log_requests(section.from_log, _common(section, at, context), (*at, "from_log"), context)


def _common(section: HttpSection, at: KeyPath, context: Context) -> dict[str, Json]:
    """A request without its path."""
    check_regex(section.expect.body_regex, (*at, "expect", "body_regex"), context)
    return {
        "method": section.method,
        "headers": [[name, value] for name, value in section.headers.items()],
        "body": section.body,
        "body_file": None
        if section.body_file is None
        else context.file(section.body_file, (*at, "body_file")),
        "expect": {
            "status": list(section.expect.status or []),
            "contains": section.expect.body_contains,
            "regex": section.expect.body_regex,
        },
        "resend_non_idempotent": section.resend_non_idempotent,
    }


def _http_requests(section: HttpSection, at: KeyPath, context: Context) -> Requests:
    common = _common(section, at, context)
    requests: Requests = []
    listed = section.paths is not None
    for index, path in enumerate(section.paths or [section.path]):
        here: KeyPath = (*at, "paths", index) if listed else (*at, "path")
        plain = HIDDEN if isinstance(path, Secret) else context.as_written(here, path).split("?", 1)[0]
        if isinstance(path, str) and not path.startswith(("/", "{")):
            context.wrong(
                here, f'"{short_name(path)}" is not a path: a path begins with /; put the host into target'
            )
        requests.append((f"{section.method} {short_name(plain)}", {**common, "path": path}))
    return requests


def _files(settings: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[str]:
    yield from tls_files(settings)
    named = [settings.get("token_file"), *(operation.request.get("body_file") for operation in operations)]
    yield from (name for name in named if isinstance(name, str))


HTTP = Driver(
    HttpSection,
    frozenset({"connection", "tls", "token_file", "proxy", "from_log", "metrics", KEY}),
    ("http", "https"),
    _http_settings,
    _http_requests,
    log_requests=_http_log_requests,
    files=_files,
    one_of=(("path", "paths"), ("body", "body_file")),
)
