"""The service kinds `grid` and `broker`: a simulated grid, and the decision points that place its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from plimsoll.errors import ServiceError
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model.cell import Service
from plimsoll.plan.services.section import (
    Addresses,
    ServiceAdditions,
    Services,
    ServiceSection,
    check_order,
    find_service,
    kind_of,
)
from plimsoll.plan.services.secured import SecuredSection, secured_config
from plimsoll.plan.services.stateless import MAX_INSTANCES, StatelessSection
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Duration, Seed, ServiceReference
from plimsoll.plan.source.units import NS

MAX_SHARES: Final = 10_000_000
"""Maximum number of sites x organisations x groups. Each combination has a share."""

Cpus = Annotated[int, Field(ge=1, le=1_000_000)]
Policy = Annotated[
    str,
    Field(
        pattern=r"^\s*(\*|site[0-9]+)\s+(\*|vo[0-9]+)(\.(\*|group[0-9]+))?\s+[0-9]+(\.[0-9]+)?[+-]?\s*$",
        examples=["* vo3 20.5+"],
    ),
]
"""SITE ENTITY SHARE."""


class GridService(ServiceSection):
    """A simulated grid: sites that queue and run the jobs of decision points, and assess each decision."""

    kind: Literal["grid"]
    sites: Annotated[int, Field(ge=1, le=10_000)] = 300
    organisations: Annotated[int, Field(ge=1, le=1_000)] = 60
    groups: Annotated[int, Field(ge=1, le=100)] = 10
    site_cpus: list[Cpus] = Field(default_factory=lambda: [10, 1000], min_length=2, max_length=2)
    policies: list[Policy] = Field(default_factory=list)
    submission: Annotated[Duration, Field(le=3600 * NS["s"])] = 0
    queue: Annotated[int, Field(ge=0, le=10_000)] = 256
    max_jobs: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000_000
    seed: Seed = 1

    runs_in_engine: ClassVar[bool] = True
    request_counter: ClassVar[str | None] = "answered"
    arrival_counter: ClassVar[str | None] = "received"
    main_counters: ClassVar[tuple[str, ...]] = ("answered", "started", "done", "misplaced")

    @model_validator(mode="after")
    def _check_sizes(self) -> GridService:
        shares = self.sites * self.organisations * self.groups
        if shares > MAX_SHARES:
            raise PydanticCustomError(
                "grid",
                "sites x organisations x groups: expected at most 10,000,000, got {shares}",
                {"shares": f"{shares:,}"},
            )
        if self.site_cpus[0] > self.site_cpus[1]:
            raise PydanticCustomError("grid", "site_cpus: expected [least, greatest]")
        return self

    def scheme(self) -> str:
        return "http"

    def engine_keys(self) -> dict[str, Any]:
        """The configuration of the engine, which the decision points get, too."""
        return {
            "sites": self.sites,
            "organisations": self.organisations,
            "groups": self.groups,
            "cpus": list(self.site_cpus),
            "policies": list(self.policies),
            "submission_ms": _milliseconds(self.submission),
            "queue": self.queue,
            "jobs": self.max_jobs,
            "seed": self.seed,
        }

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        return ServiceAdditions(settings={"engine": self.engine_keys()})

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        return dict(service.settings["engine"])


class BrokerService(SecuredSection, StatelessSection):
    """A decision point: chooses a site of a grid for each job under usage policies. Decision points of one grid
    exchange their decisions."""

    kind: Literal["broker"]
    grid: ServiceReference
    protocol: Literal["http", "binary"] = "http"
    exchange: Duration = 10 * NS["s"]
    selector: Literal["random", "least-used", "policy"] = "policy"
    hold: Annotated[Duration, Field(le=3600 * NS["s"])] = 0
    decision_time: Annotated[Duration, Field(le=60 * NS["s"])] = 0
    seed: Seed = 1

    runs_in_engine: ClassVar[bool] = True
    serves_counters: ClassVar[bool] = True
    request_counter: ClassVar[str | None] = "answered"
    arrival_counter: ClassVar[str | None] = "received"
    forward_counter: ClassVar[str | None] = "submitted"
    main_counters: ClassVar[tuple[str, ...]] = ("answered", "decisions", "jobs_refused", "exchanges")

    def scheme(self) -> str:
        # The port serves both protocols: the scheme determines that of the clients.
        plain = "broker" if self.protocol == "binary" else "http"
        return f"{plain}s" if self.security == "tls" else plain

    def resolve(self, name: str, services: Services, context: Context) -> ServiceAdditions:
        at: KeyPath = ("services", name, "grid")
        files = self.files(("services", name), context)
        section = find_service(self.grid, services, at, context)
        if section is None:
            return ServiceAdditions()
        if not isinstance(section, GridService):
            kind = kind_of(type(section))
            context.wrong(at, f"{self.grid} is a service of kind {kind}: expected one of kind grid")
            return ServiceAdditions()
        check_order(name, self.grid, services, at, context)
        names = list(services)
        earlier = [
            other
            for other in names[: names.index(name)]
            if isinstance(point := services[other], BrokerService) and point.grid == self.grid
        ]
        if len(earlier) >= MAX_INSTANCES:
            context.wrong(at, f"expected at most {MAX_INSTANCES} decision points of one grid")
        settings = {"siblings": earlier, "engine": section.engine_keys(), **files}
        return ServiceAdditions((self.grid, *earlier), settings)

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        settings: Mapping[str, Any] = service.settings
        exchange: int = settings["exchange"]
        return {
            "grid": settings["engine"],
            "grid_address": _address(service, settings["grid"], addresses),
            "peers": [_address(service, other, addresses) for other in settings["siblings"]],
            "exchange_ms": max(1, _milliseconds(exchange)) if exchange else None,
            "selector": settings["selector"],
            "hold_ms": _milliseconds(settings["hold"]),
            "decision_ms": _milliseconds(settings["decision_time"]),
            # Points with the same seed would make the same random choices.
            "seed": (settings["seed"] + len(settings["siblings"])) % 2**63,
            **secured_config(settings),
        }


def _milliseconds(duration: int) -> int:
    return round(duration / NS["ms"])


def _address(service: Service, other: str, addresses: Addresses) -> str:
    """HOST:PORT of another service."""
    urls = addresses.urls.get(other)
    if not urls:
        raise ServiceError(f"service {service.name}: the service {other}, which it needs, was not started")
    return urlsplit(urls[0]).netloc
