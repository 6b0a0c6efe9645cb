"""The service kind `squid`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.services.section import (
    ReceivedBytes,
    SentBytes,
    ServiceAdditions,
    Services,
    ServiceSection,
    check_order,
    find_service,
    kind_of,
    plain,
)
from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Name, PlainText, Raw, ShortForm, Size, shown
from plimsoll.plan.source.units import NS

OBJECT_IN_MEMORY: Final = 1_000_000
"""Size of the largest object, in bytes, that a cache with a disk also keeps in memory. The file can replace it."""
REFRESH: Final = "refresh_pattern -i (/cgi-bin/|\\?) 0 0% 0\nrefresh_pattern . 0 20% 4320"
"""The lines of Squid's own configuration file."""


class CacheRaw(Raw):
    """What a Squid may store, and what it contains when a run begins."""

    start: Literal["warm", "cold"] = "warm"
    memory: Size = 64_000_000
    object_in_memory: Size | None = None
    disk: Size = 0
    largest: Size = 100_000_000


def _cache(value: object) -> object:
    if isinstance(value, str):
        if value not in ("warm", "cold"):
            raise PydanticCustomError(
                "cache",
                "expected warm, cold or a mapping with start, memory, ..., got {shown}",
                {"shown": shown(value)},
            )
        return {"start": value}
    return value


Cache = Annotated[CacheRaw, BeforeValidator(_cache), ShortForm({"enum": ["warm", "cold"]})]


def _refresh(value: str) -> str:
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    for line in lines:
        if not line.startswith("refresh_pattern "):
            raise PydanticCustomError(
                "refresh",
                "expected lines like `refresh_pattern . 0 20% 4320`, got {shown}",
                {"shown": shown(line)},
            )
    return "\n".join(lines)


class SquidService(ServiceSection):
    """A Squid cache: a reverse proxy for `origin`, or a forward proxy without `origin`."""

    kind: Literal["squid"]
    origin: Name | None = None
    parents: list[Name] = Field(default_factory=list)
    siblings: list[Name] = Field(default_factory=list)
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    cache: Cache = Field(default_factory=CacheRaw)
    collapsed_forwarding: bool = False
    refresh: Annotated[PlainText, AfterValidator(_refresh)] = REFRESH
    log: bool = True
    settings: list[Line] = Field(default_factory=list)

    start_ns: ClassVar[int] = 3 * NS["s"]
    request_counter: ClassVar[str | None] = "client_http.requests"
    arrival_counter: ClassVar[str | None] = "client_http.requests"
    forward_counter: ClassVar[str | None] = "server.all.requests"
    sent_bytes: ClassVar[SentBytes | None] = SentBytes("client_http.kbytes_out", 1024, "received")
    main_counters: ClassVar[tuple[str, ...]] = (
        "client_http.requests",
        "client_http.hits",
        "server.all.requests",
        "client_http.errors",
    )
    received_bytes: ClassVar[ReceivedBytes | None] = ReceivedBytes("client_http.kbytes_in", 1024)

    def scheme(self) -> str:
        return "http"

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        origin = self.origin_in(services)
        siblings = self._siblings(name, services)
        needs = [*origin_needs(name, origin, services, context), *self._parents(name, services, context)]
        for sibling in set(siblings) & set(self.parents):
            context.wrong(
                ("services", name, "parents"), f"{sibling} is both a parent and a sibling of {name}"
            )
        cache = {**plain(self.cache), "object_in_memory": self._object_in_memory()}
        return ServiceAdditions(
            tuple(dict.fromkeys([*needs, *siblings])),
            {"origin": origin, "siblings": siblings, "cache": cache},
            "run" if self.cache.start == "cold" else None,  # only a new process has an empty cache
        )

    def origin_in(self, services: Services) -> str | None:
        """The origin: its own `origin`, otherwise that of its first parent that has one."""
        if self.origin is not None:
            return self.origin
        parents = [parent for name in self.parents if isinstance(parent := services.get(name), SquidService)]
        return next((parent.origin for parent in parents if parent.origin is not None), None)

    def _object_in_memory(self) -> int:
        """Largest object in memory, bytes. Without a disk, an object that memory does not accept is not stored."""
        if self.cache.object_in_memory is not None:
            return self.cache.object_in_memory
        return min(self.cache.largest, self.cache.memory) if self.cache.disk == 0 else OBJECT_IN_MEMORY

    def _parents(self, name: str, services: Services, context: Context) -> list[str]:
        """Checks `parents` and `siblings`; returns the parents that it needs."""
        needs = []
        for key, others in (("parents", self.parents), ("siblings", self.siblings)):
            for index, other in enumerate(others):
                at: KeyPath = ("services", name, key, index)
                section = find_service(other, services, at, context)
                if section is None:
                    continue
                if not isinstance(section, SquidService):
                    kind = kind_of(type(section))
                    context.wrong(at, f"{other} is a service of kind {kind}: expected one of kind squid")
                elif other == name:
                    context.wrong(at, f"{name} cannot be one of its own {key}")
                elif key == "parents":
                    check_order(name, other, services, at, context)
                    if section.parents:
                        context.wrong(at, f"{other} has parents itself: a cache tree has at most two levels")
                    needs.append(other)
        return needs

    def _siblings(self, name: str, services: Services) -> list[str]:
        """It is enough that one of two siblings lists the other."""
        return [
            other
            for other, section in services.items()
            if other != name
            and isinstance(section, SquidService)
            and (other in self.siblings or name in section.siblings)
        ]


def origin_needs(name: str, origin: str | None, services: Services, context: Context) -> tuple[str, ...]:
    """The service behind the reverse proxy `name`, if it has an origin. The origin must use HTTP."""
    if origin is None:
        return ()
    at: KeyPath = ("services", name, "origin")
    section = find_service(origin, services, at, context)
    if section is None:
        return ()
    if section.scheme() != "http":
        context.wrong(at, f"{origin} is a service of kind {kind_of(type(section))} that does not speak http")
    if isinstance(section, SquidService) and section.origin_in(services) is None:
        context.wrong(at, f"{origin} is a forward proxy: name it in `parents`")
    check_order(name, origin, services, at, context)
    return (origin,)
