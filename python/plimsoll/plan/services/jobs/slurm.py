"""The service kind `slurm`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.services.server_settings import Line
from plimsoll.plan.source.fields import Duration
from plimsoll.plan.source.units import NS


class SlurmService(ServiceSection):
    """A Slurm controller and its nodes, all on one host. Its clients authenticate by a socket of this host, so they run
    there, under the account of the service."""

    kind: Literal["slurm"]
    nodes: Annotated[int, Field(ge=1, le=16)] = 1
    slots: Annotated[int, Field(ge=1, le=10_000)] = 16
    settings: list[Line] = Field(default_factory=list)
    ready_timeout: Duration = 60 * NS["s"]

    start_ns: ClassVar[int] = 4 * NS["s"]
    request_counter: ClassVar[str | None] = "jobs_submitted"
    main_counters: ClassVar[tuple[str, ...]] = (
        "jobs_submitted",
        "jobs_started",
        "jobs_completed",
        "schedule_cycles",
    )

    def scheme(self) -> str:
        return "slurm"
