"""What must be restarted or reloaded between two runs, and which cores testers and services are bound to.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plimsoll.errors import BadInput, Problem
from plimsoll.plan.model import Config, Data


@dataclass(frozen=True, slots=True)
class Changes:
    """Services to stop (the last started first), to start (in the order of the file), and tables to write."""

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
    new: set[str] = set()
    bound_anew = before is not None and before.cpus != after.cpus
    for service in after.services:
        old = running.get(service.name)
        if (
            before is None
            or old != service
            or bound_anew
            or service.fresh == "run"
            or (service.fresh == "cell" and not same_cell)
            or _tables(before, service.name) != _tables(after, service.name)
        ):
            new.add(service.name)
    # Siblings need each other, so the order of the file alone does not find everything that is restarted.
    while more := {one.name for one in after.services if one.name not in new and new.intersection(one.needs)}:
        new |= more
    wanted = {service.name for service in after.services}
    stop = tuple(name for name in reversed(list(running)) if name in new or name not in wanted)
    load = tuple(data.name for data in after.data if data.into in new)
    return Changes(stop, tuple(one.name for one in after.services if one.name in new), load)


def _tables(config: Config, service: str) -> tuple[Data, ...]:
    return tuple(data for data in config.data if data.into == service)


@dataclass(frozen=True, slots=True)
class Pinning:
    """Cores of the testers and of each service; empty: not bound. `remark`: what a reader of the results must
    know."""

    testers: tuple[int, ...] = ()
    services: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    remark: str = ""


def pinning(config: Config, cores: Sequence[int]) -> Pinning:
    """Binds testers and services to cores out of those that this process may use.

    `auto`: the first half of the cores for the services, the second half (rounded down, at least one) for the
    testers; on one core nothing is bound. Raises BadInput where the file names a core that is not there.
    """
    own = {
        service.name: service.cpus for service in config.services if service.cpus and service.starts_process
    }
    named = {**config.cpus.services, **own}
    _all_there([*config.cpus.testers, *(core for each in named.values() for core in each)], cores)
    started = [service for service in config.services if service.starts_process]
    if config.cpus.mode == "none":
        return Pinning((), own, "")
    if config.cpus.mode == "set":
        return Pinning(config.cpus.testers, named, _shared(config.cpus.testers, named))
    if len(cores) < 2:
        return Pinning((), own, "testers and services share the only core" if started else "")
    if not started or config.hosts.elsewhere:  # nothing that measures is beside the services then
        return Pinning((), own, "")
    taken = {core for each in own.values() for core in each}
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


def _all_there(named: Sequence[int], cores: Sequence[int]) -> None:
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


def _shared(testers: Sequence[int], services: Mapping[str, Sequence[int]]) -> str:
    both = [name for name, cores in services.items() if set(cores) & set(testers)]
    return f"the testers share cores with {', '.join(both)}" if both else ""
