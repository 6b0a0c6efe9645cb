"""Services of kinds without state of their own: several equal instances can share the load."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from plimsoll.plan.services.section import ServiceSection

MAX_INSTANCES = 64

Instances = Annotated[int, Field(ge=1, le=MAX_INSTANCES)]
"""How many equal services are started."""


class StatelessSection(ServiceSection):
    """`instances: 3` of the service `web` starts the services `web.1`, `web.2` and `web.3`. Without it, the service is
    `web`."""

    instances: Instances | None = None
