"""The services and tables that must be restarted or written between two runs, and the cores to which testers and
services are bound. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.model.cell import Config, Data, Service
from plimsoll.plan.model.hosts import Hosts


@dataclass(frozen=True, slots=True)
class Changes:
    """Services to stop (in reverse order of their start), services to start (in the order of the file), and tables to
    write."""

    stop: tuple[str, ...]
    start: tuple[str, ...]
    load: tuple[str, ...]


def changes(before: Config | None, after: Config, same_cell: bool) -> Changes:
    """The changes between the previous run (None: nothing runs yet) and the next run.

    A service is restarted when its own resolved keys differ, when `fresh` requires it, when tables
    in it differ, or when a service that it uses is restarted. All services are restarted when cores
    are bound differently.
    """
    running = {service.name: service for service in before.services} if before is not None else {}
    restarted: set[str] = set()
    cpus_changed = before is not None and before.cpus != after.cpus
    for service in after.services:
        old = running.get(service.name)
        if (
            before is None
            or old != service
            or (service.host is not None and _way(before) != _way(after))
            or cpus_changed
            or service.fresh == "run"
            or (service.fresh == "cell" and not same_cell)
            or _tables(before, service.name) != _tables(after, service.name)
        ):
            restarted.add(service.name)
    # Siblings need each other, so one pass in the order of the file would miss some restarts.
    while more := {
        service.name
        for service in after.services
        if service.name not in restarted and restarted.intersection(service.needs)
    }:
        restarted |= more
    names = {service.name for service in after.services}
    stop = tuple(name for name in reversed(list(running)) if name in restarted or name not in names)
    load = tuple(data.name for data in after.data if data.into in restarted)
    return Changes(stop, tuple(service.name for service in after.services if service.name in restarted), load)


def _way(config: Config) -> Hosts | None:
    """How the hosts of services are reached."""
    return None if config.service_hosts is None else replace(config.service_hosts, hosts=())


def _tables(config: Config, service: str) -> tuple[Data, ...]:
    return tuple(data for data in config.data if data.into == service)


@dataclass(frozen=True, slots=True)
class Pinning:
    """Cores of the testers and of each service; empty: not bound. `remark`: a text for the results, if cores are
    shared or not bound."""

    testers: tuple[int, ...] = ()
    services: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    remark: str = ""


def pinning(config: Config, cores: Sequence[int]) -> Pinning:
    """The cores of testers and services. `cores`: those that this process may use.

    `auto`: the testers get the second half of the cores (rounded down, at least one), the services the others; a
    single core is not bound. Raises BadInput if the file names a core that is not in `cores`.
    """
    placed = _placed_cpus(config)
    local = config.local_services
    own = {service.name: service.cpus for service in local if service.cpus and service.starts_process}
    named = {
        **{name: bound for name, bound in config.cpus.services.items() if name not in placed},
        **own,
    }
    _check_cores_exist([*config.cpus.testers, *(core for bound in named.values() for core in bound)], cores)
    pinned = _local_pinning(config, local, own, named, cores)
    return replace(
        pinned, services={**pinned.services, **{name: cores for name, cores in placed.items() if cores}}
    )


def _placed_cpus(config: Config) -> dict[str, tuple[int, ...]]:
    """The cores that the file states for services on other hosts. Their hosts check them."""
    return {
        service.name: service.cpus or config.cpus.services.get(service.name, ())
        for service in config.services
        if service.host is not None
    }


def _local_pinning(
    config: Config,
    local: Sequence[Service],
    own: Mapping[str, tuple[int, ...]],
    named: Mapping[str, tuple[int, ...]],
    cores: Sequence[int],
) -> Pinning:
    started = [service for service in local if service.starts_process]
    if config.cpus.mode == "none":
        return Pinning((), own, "")
    if config.cpus.mode == "set":
        return Pinning(config.cpus.testers, named, _sharing_remark(config.cpus.testers, named))
    if len(cores) < 2:
        return Pinning((), own, "testers and services share the only core" if started else "")
    if not started or config.hosts.elsewhere:  # testers and services do not run on the same host
        return Pinning((), own, "")
    taken = {core for bound in own.values() for core in bound}
    free = [core for core in cores if core not in taken]
    unbound = [service for service in started if service.name not in own]
    if not unbound:
        return Pinning(
            tuple(free), own, "" if free else "the services take all cores: the testers are not bound"
        )
    half = max(1, len(free) // 2)
    testers, rest = tuple(free[len(free) - half :]), tuple(free[: len(free) - half])
    if not rest:
        return Pinning((), own, "too few cores are left to bind testers and services to separate cores")
    return Pinning(testers, {**own, **{service.name: rest for service in unbound}})


def _check_cores_exist(named: Sequence[int], cores: Sequence[int]) -> None:
    missing = sorted(set(named) - set(cores))
    if missing:
        have = ", ".join(map(str, cores))
        raise BadInput(
            [
                Problem(
                    f"core {missing[0]} does not exist, or this process may not use it; available: {have}",
                    "cpus",
                )
            ]
        )


def _sharing_remark(testers: Sequence[int], services: Mapping[str, Sequence[int]]) -> str:
    both = [name for name, cores in services.items() if set(cores) & set(testers)]
    return f"the testers share cores with {', '.join(both)}" if both else ""
