"""What every kind of actions has: a section of `actions:`, and its resolved form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from plimsoll.plan import model
from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Name, Raw
from plimsoll.plan.source.near import nearest

Services = Mapping[str, model.Service]
"""The services of the experiment, by name."""


class ActionSection(Protocol):
    """A kind is a model whose first field has the name of the kind, with `at` after it."""

    def resolve(self, path: KeyPath, services: Services, context: Context) -> model.Action | None:
        """The action at `path` of the file. None if it is invalid, which is reported to `context`."""


class ServiceName(Raw):
    """A service of the experiment: `{service: db}`."""

    service: Name


def find_process(
    kind: str, named: ServiceName, path: KeyPath, services: Services, context: Context
) -> model.Service | None:
    """The service, if it exists and is a process; otherwise None, which is reported."""
    at = (*path, kind, "service")
    service = services.get(named.service)
    if service is None:
        context.wrong(at, f"there is no service {named.service}", nearest(named.service, services))
    elif not service.starts_process:
        context.wrong(
            at, f"{service.name} (kind {service.kind}) is a file without a process: nothing to {kind}"
        )
        service = None
    return service
