"""What every kind of actions has: a section of `actions:`, and its resolved form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from plimsoll.plan.drivers.driver import Context
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.links import Link
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.fields import Raw, ServiceReference
from plimsoll.plan.source.near import nearest


@dataclass(frozen=True, slots=True)
class ActionScope:
    """The services of the experiment and the links of its testbed during the run, by name."""

    services: Mapping[str, model.Service]
    links: Mapping[str, Link] = field(default_factory=dict)


class ActionSection(Protocol):
    """A kind is a model whose first field has the name of the kind, with `at` after it."""

    def resolve(self, path: KeyPath, scope: ActionScope, context: Context) -> model.Action | None:
        """The action at `path` of the file. None if it is invalid, which is reported to `context`."""


class ServiceName(Raw):
    """A service of the experiment: `{service: db}`, or one of its instances: `{service: web.2}`."""

    service: ServiceReference


def find_process(
    kind: str, named: ServiceName, path: KeyPath, scope: ActionScope, context: Context
) -> model.Service | None:
    """The service, if it exists and is a process; otherwise None, which is reported."""
    at = (*path, kind, "service")
    service = scope.services.get(named.service)
    if service is None:
        context.wrong(at, f"there is no service {named.service}", nearest(named.service, scope.services))
    elif not service.starts_process:
        context.wrong(
            at, f"{service.name} (kind {service.kind}) is a file without a process: nothing to {kind}"
        )
        service = None
    return service
