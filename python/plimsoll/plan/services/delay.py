"""The service kind `delay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from plimsoll.plan.model.cell import Service
from plimsoll.plan.services.section import Addresses, WorkerPool
from plimsoll.plan.services.stateless import StatelessSection
from plimsoll.plan.source.fields import Drawn, Duration, Fraction, Raw, Seed, Size
from plimsoll.plan.source.units import NS


class Stall(Raw):
    """All servers pause once, `at` after the start of the service, for the duration `for`."""

    at: Duration
    for_: Duration = Field(alias="for")


class DelayService(StatelessSection):
    """`servers` servers behind one queue. Each request takes `time`: M/M/c if it is exponential."""

    kind: Literal["delay"]
    time: Drawn
    servers: Annotated[int, Field(ge=1, le=10_000)] = 1
    http: bool = True
    body: Annotated[Size, Field(le=1_000_000)] = 0
    stall: Stall | None = None
    fail: Fraction = 0.0
    seed: Seed = 1

    runs_in_engine: ClassVar[bool] = True
    request_counter: ClassVar[str | None] = "answered"
    arrival_counter: ClassVar[str | None] = "received"
    main_counters: ClassVar[tuple[str, ...]] = ("answered", "failed", "full")
    worker_pool: ClassVar[WorkerPool | None] = WorkerPool("server", "request", "in_system", "servers")

    def scheme(self) -> str:
        return "http" if self.http else "tcp"

    @staticmethod
    def engine_config(service: Service, addresses: Addresses) -> dict[str, Any]:
        settings: Mapping[str, Any] = service.settings
        stall = settings["stall"]
        return {
            "http": settings["http"],
            "servers": settings["servers"],
            "service": _service_time(settings["time"]),
            "seed": settings["seed"],
            "fail": settings["fail"],
            "body": settings["body"],
            "stall": stall and {"at_s": stall["at"] / NS["s"], "for_s": stall["for"] / NS["s"]},
        }


def _service_time(time: Mapping[str, Any]) -> dict[str, Any]:
    """`time` is the section as written, quantities in ns: exactly one of its keys is not None."""
    if time["exponential"] is not None:
        return {"law": "exponential", "mean_s": time["exponential"] / NS["s"]}
    if time["uniform"] is not None:
        low, high = time["uniform"]["low"], time["uniform"]["high"]
        return {"law": "uniform", "from_s": low / NS["s"], "to_s": high / NS["s"]}
    return {"law": "fixed", "s": time["fixed"] / NS["s"]}
