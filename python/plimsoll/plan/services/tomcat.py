"""The service kind `tomcat`."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.functional_validators import PlainValidator
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.addresses import services_in
from plimsoll.plan.services.section import SentBytes, ServiceAdditions, Services, WorkerPool, file_of_host
from plimsoll.plan.services.server_settings import Line, ServerSettings, check_settings
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Count, Duration, PlainText, Size, Text, shown
from plimsoll.plan.source.units import NS

RESERVED: Final = frozenset(
    {
        *("address", "port", "protocol", "maxthreads", "maxconnections"),
        *("maxkeepaliverequests", "keepalivetimeout", "sslenabled", "bindoninit"),
    }
)
"""Attributes of the connector, in lower case, that other keys set."""
_CONTEXT: Final = re.compile(r"/|(/[A-Za-z0-9._~-]+)+")


def _context(value: str) -> str:
    if _CONTEXT.fullmatch(value) is None:
        raise PydanticCustomError(
            "context_path",
            "expected / or a path such as /Frontier, got {shown}",
            {"shown": shown(value)},
        )
    return value


def _path(value: str) -> str:
    if not value.startswith("/"):
        raise PydanticCustomError(
            "path", "expected a path that begins with /, got {shown}", {"shown": shown(value)}
        )
    return value


def _java(value: object) -> str:
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"auto|[1-9][0-9]?|/.+", text):
        raise PydanticCustomError(
            "java",
            "expected auto, a major version such as 17, or the absolute path of a Java home, got {shown}",
            {"shown": shown(value)},
        )
    return text


JavaVersion = Annotated[
    str,
    PlainValidator(_java),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 99}, {"type": "string"}]}),
]
"""A major version, the directory of a Java, or "auto": the first in PATH."""

PropertyName = Annotated[str, Field(pattern=r"^[^\s=:#!\\]{1,200}$")]


class TomcatService(StatelessSection):
    """An Apache Tomcat with one web application of the user."""

    kind: Literal["tomcat"]
    ready_timeout: Duration = 60 * NS["s"]
    war: PlainText
    context: Annotated[Line, AfterValidator(_context)] = "/"
    ready: Annotated[Line, AfterValidator(_path)] | None = None
    home: PlainText | None = None
    java: JavaVersion = "auto"
    heap: Size = 512_000_000
    java_options: list[Line] = Field(default_factory=list)
    threads: Annotated[int, Field(ge=1, le=10_000)] = 200
    connections: Annotated[int, Field(ge=1, le=1_000_000)] = 8192
    keep_alive: bool = True
    max_keep_alive_requests: Count | Literal["unlimited"] = 100
    keep_alive_timeout: Duration = 20 * NS["s"]
    settings: ServerSettings = Field(default_factory=dict)
    properties: dict[PropertyName, Text] = Field(default_factory=dict)
    env: dict[str, Line] = Field(default_factory=dict)
    resources: list[PlainText] = Field(default_factory=list)
    libraries: list[PlainText] = Field(default_factory=list)
    log: bool = True

    start_ns: ClassVar[int] = 4 * NS["s"]
    request_counter: ClassVar[str | None] = "requests"
    arrival_counter: ClassVar[str | None] = "requests"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("bytes_sent", 1, "payload")
    main_counters: ClassVar[tuple[str, ...]] = ("requests", "errors")
    worker_pool: ClassVar[WorkerPool | None] = WorkerPool("thread", "request", "threads_busy", "threads")

    def scheme(self) -> str:
        return "http"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name)
        check_settings(self.settings, RESERVED, (*at, "settings"), context)
        parts = {
            "properties": self.properties.values(),
            "env": self.env.values(),
            "resources": self.resources,
            "java_options": self.java_options,
        }
        needs = [
            need
            for key, texts in parts.items()
            for need in services_in(texts, name, services, (*at, key), context)
        ]
        files: dict[str, Any] = {
            "war": file_of_host(self, self.war, (*at, "war"), context),
            "libraries": [
                file_of_host(self, library, (*at, "libraries", index), context)
                for index, library in enumerate(self.libraries)
            ],
        }
        if self.home is not None:
            files["home"] = file_of_host(self, self.home, (*at, "home"), context)
        return ServiceAdditions(tuple(dict.fromkeys(needs)), files)
