"""Replaces a service with `instances` by its instances, and its name by theirs wherever the file refers to it.

All later steps see only services. The alternative, a service with several processes, would need a second mechanism for
components, counters, logs, actions and placement of each process.
"""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import CpusRaw
from plimsoll.plan.schema.targets import EndpointRaw, TargetRaw
from plimsoll.plan.services.nginx import NginxService
from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.services.squid import SquidService
from plimsoll.plan.services.stateless import StatelessSection

Groups = Mapping[str, tuple[str, ...]]
"""The names of the instances of each service that has `instances`."""


def instances_of(services: Mapping[str, ServiceSection]) -> Groups:
    """The instances of each service of the file that has `instances`: `web.1`, `web.2`, ..."""
    return {
        name: tuple(f"{name}.{number}" for number in range(1, section.instances + 1))
        for name, section in services.items()
        if isinstance(section, StatelessSection) and section.instances is not None
    }


def services_with_instances(
    services: Mapping[str, ServiceSection], groups: Groups, context: ResolveContext
) -> Mapping[str, ServiceSection]:
    """The sections with one entry for each instance, in the order of the file."""
    expanded: dict[str, ServiceSection] = {}
    for name, section in services.items():
        changed = _with_origins(name, section, groups, context)
        expanded |= dict.fromkeys(groups.get(name, (name,)), changed)
    return expanded


def _with_origins(
    name: str, section: ServiceSection, groups: Groups, context: ResolveContext
) -> ServiceSection:
    """The section with the instances of its origins. A cache has one origin: it would store an object for each."""
    if isinstance(section, SquidService) and section.origin in groups:
        context.wrong(
            ("services", name, "origin"),
            f"{section.origin} has instances, and a cache has one origin: add a service of kind nginx with "
            f"`origin: {section.origin}` and use it as the origin of {name}",
        )
    if not isinstance(section, NginxService) or not set(section.origins) & groups.keys():
        return section
    origins = [instance for origin in section.origins for instance in groups.get(origin, (origin,))]
    return section.model_copy(update={"origin": origins})


def targets_with_instances(
    targets: Mapping[str, TargetRaw], groups: Groups, context: ResolveContext
) -> Mapping[str, TargetRaw]:
    """The targets with one endpoint for each instance. The name of a service with instances becomes a target."""
    for name in groups.keys() & targets.keys():
        context.wrong(
            ("targets", name),
            f"{name} is also a service with instances, which is a target itself: rename one of them",
        )
    expanded = {
        name: target.model_copy(
            update={
                "endpoints": [
                    instance for endpoint in target.endpoints for instance in _endpoints(endpoint, groups)
                ]
            }
        )
        for name, target in targets.items()
    }
    for name, instances in groups.items():
        expanded[name] = TargetRaw.model_validate({"endpoints": list(instances)})
    return expanded


def _endpoints(endpoint: EndpointRaw, groups: Groups) -> list[EndpointRaw]:
    instances = groups.get(endpoint.at, ()) if isinstance(endpoint.at, str) else ()
    if not instances:
        return [endpoint]
    return [
        EndpointRaw(at=instance, name=None if endpoint.name is None else f"{endpoint.name}.{number}")
        for number, instance in enumerate(instances, 1)
    ]


def cpus_with_instances(cpus: CpusRaw | None, groups: Groups) -> CpusRaw | None:
    """The cores of a service with instances are those of each instance."""
    if cpus is None:
        return None
    services = {
        instance: cores for name, cores in cpus.services.items() for instance in groups.get(name, (name,))
    }
    return cpus.model_copy(update={"services": services})
