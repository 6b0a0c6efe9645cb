"""How busy the hosts of a run of several agents were: each by its own monitor, never their mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from plimsoll.analyse.components.utilization import cores_seen, monitor_cpu, utilizations
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.hosts import TESTERS, Agent
from plimsoll.collect.samples import SampleSeries

TESTERS_HOST: Final = "testers' host"
"""Component of the busiest host that has only testers: the same name for each run."""


@dataclass(frozen=True, slots=True)
class HostsUsed:
    """`shown`: what a report needs: services, hosts that are watched, and of the testers and their hosts the busiest,
    as one that is full spoils the run however idle the others are. `busiest_thread`, `thread_demand`, `steal`: the
    greatest of all hosts of testers, None: not watched. `cpu`: busy share of each of these hosts, by its name."""

    shown: tuple[Utilization, ...]
    busiest_thread: float | None
    thread_demand: float | None
    steal: float | None
    cpu: Mapping[str, float]
    monitor_cpu: float | None
    """Share of one core that the monitor used which used most."""


def of_hosts(
    samples: Sequence[SampleSeries],
    window: Window,
    agents: Sequence[Agent],
    cores: Mapping[str, int],
    cores_of: Mapping[str, int],
    together: Sequence[Sequence[str]] = (),
    links: Mapping[str, float] | None = None,
) -> HostsUsed:
    """`cores`, `together`: of the lab's host, as for `utilizations`; `cores_of`, `links`: of the other hosts, by name
    (cores; bytes/s). An agent with the controller's clock is on the lab's host."""
    services: dict[str, Utilization] = {}
    testers: list[Utilization] = []
    hosts: dict[str, Utilization] = {}
    watched: dict[str, Utilization] = {}
    for agent in agents:
        mine = [one for one in samples if one.agent == agent.name]
        link = (links or {}).get(agent.host)
        if agent.role != TESTERS and not agent.clock.same:
            watched |= _of_target(mine, window, agent.host, cores_of.get(agent.host), link)
            continue
        there = cores_of.get(agent.host)
        known = cores if agent.clock.same or there is None else {"host": there, TESTERS: there}
        shared = together if agent.clock.same else ()
        for used in utilizations(mine, window, known, shared, link_bytes_s=link):
            elsewhere = "" if agent.clock.same else agent.host
            placed = replace(used, host=elsewhere)
            if used.role == TESTERS:
                testers.append(replace(placed, host=agent.host))
            elif used.role != "host":
                services.setdefault(used.component, placed)
            elif agent.role == TESTERS:
                name = TESTERS_HOST if elsewhere else used.component
                hosts.setdefault(agent.host, replace(placed, component=name))
            else:
                watched.setdefault(agent.host, replace(placed, component=agent.host))
    busiest = sorted(testers, key=lambda one: -one.mean)[:1]
    full = sorted(hosts.values(), key=lambda one: -one.mean)[:1]
    here = [one for one in hosts.values() if not one.host and one not in full]
    return HostsUsed(
        shown=(*here, *full, *watched.values(), *services.values(), *busiest),
        busiest_thread=greatest(testers, "busiest_thread"),
        thread_demand=greatest(testers, "thread_demand"),
        steal=max(
            (one.detail["cpu.steal"] for one in hosts.values() if "cpu.steal" in one.detail), default=None
        ),
        cpu={name: one.detail["cpu.busy"] for name, one in hosts.items() if "cpu.busy" in one.detail},
        monitor_cpu=monitor_cpu(samples, window),
    )


def greatest(testers: Iterable[Utilization], detail: str) -> float | None:
    """Of the testers of all hosts; None: of none."""
    return max((one.detail[detail] for one in testers if detail in one.detail), default=None)


def _of_target(
    samples: Sequence[SampleSeries], window: Window, host: str, cores: int | None, link: float | None
) -> dict[str, Utilization]:
    """A host of the target and the processes on it that are watched, by their names in the results. The agent's own
    process, which has no testers, is not among them."""
    count = cores or cores_seen(samples) or 1
    components = dict.fromkeys((one.component for one in samples), count)
    found = {}
    for used in utilizations(samples, window, components, link_bytes_s=link, single_cores=True):
        if used.role != TESTERS:
            name = host if used.role == "host" else f"{used.component} on {host}"
            found[name] = replace(used, component=name, host=host)
    return found
