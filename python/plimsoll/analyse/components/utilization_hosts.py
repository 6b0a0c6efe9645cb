"""Utilization of the hosts of a run of several agents: each by its own monitor, never their mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from plimsoll.analyse.components.utilization import CPU_THROTTLED, monitor_cpu, sampled_cores, utilizations
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import TESTERS, Agent, LinkCapacity

TESTERS_HOST: Final = "testers' host"
"""Component of the busiest host that has only testers: the same name for each run."""


@dataclass(frozen=True, slots=True)
class HostsUsed:
    """`shown`: the utilizations of a report: services, watched hosts, and the busiest of the testers and of their
    hosts, because a single full one makes the run invalid. `busiest_thread`, `thread_demand`, `steal`: the greatest of
    all hosts of testers, None: not watched. `cpu`: busy share of each of these hosts, by name."""

    shown: tuple[Utilization, ...]
    busiest_thread: float | None
    thread_demand: float | None
    throttled: float
    """The greatest number of cores that testers of a host waited for because of their CPU limit."""
    steal: float | None
    cpu: Mapping[str, float]
    monitor_cpu: float | None
    """Greatest share of one core that any monitor used."""


def hosts_used(
    samples: Sequence[SampleSeries],
    window: Window,
    agents: Sequence[Agent],
    cores: Mapping[str, int],
    cores_of: Mapping[str, int],
    together: Sequence[Sequence[str]] = (),
    links: Mapping[str, LinkCapacity] | None = None,
    placed: Mapping[str, str] | None = None,
) -> HostsUsed:
    """The utilizations of all hosts. `cores`, `together`: as for `utilizations`. `cores_of`, `links`: number of cores
    and capacity of the network of the other hosts, by name. `placed`: the other host of a service, by component. An
    agent with the controller's clock is on the lab's host."""
    service_hosts = placed or {}
    services: dict[str, Utilization] = {}
    testers: list[Utilization] = []
    hosts: dict[str, Utilization] = {}
    watched: dict[str, Utilization] = {}
    for agent in agents:
        host_samples = [series for series in samples if series.agent == agent.name]
        link = (links or {}).get(agent.host)
        if agent.role != TESTERS and not agent.clock.same:
            target = _target_host(
                host_samples, window, agent.host, cores_of.get(agent.host), link, cores, service_hosts
            )
            for name, used in target.items():
                (services if f"service:{name}" in service_hosts else watched)[name] = used
            continue
        agent_cores = cores_of.get(agent.host)
        known = (
            cores
            if agent.clock.same or agent_cores is None
            else _cores_there(cores, agent_cores, [series.component for series in host_samples])
        )
        shared = together if agent.clock.same else ()
        for used in utilizations(host_samples, window, known, shared, link=link):
            elsewhere = "" if agent.clock.same else agent.host
            located = replace(used, host=elsewhere)
            if used.role == TESTERS:
                testers.append(replace(located, host=agent.host))
            elif used.role != "host":
                services.setdefault(used.component, located)
            elif agent.role == TESTERS:
                name = TESTERS_HOST if elsewhere else used.component
                hosts.setdefault(agent.host, replace(located, component=name))
            else:
                watched.setdefault(agent.host, replace(located, component=agent.host))
    busiest = sorted(testers, key=lambda used: -used.mean)[:1]
    full = sorted(hosts.values(), key=lambda used: -used.mean)[:1]
    of_lab = [used for used in hosts.values() if not used.host and used not in full]
    return HostsUsed(
        shown=(*of_lab, *full, *watched.values(), *services.values(), *busiest),
        busiest_thread=greatest_detail(testers, "busiest_thread"),
        thread_demand=greatest_detail(testers, "thread_demand"),
        throttled=greatest_detail(testers, CPU_THROTTLED) or 0.0,
        steal=max(
            (used.detail["cpu.steal"] for used in hosts.values() if "cpu.steal" in used.detail), default=None
        ),
        cpu={name: used.detail["cpu.busy"] for name, used in hosts.items() if "cpu.busy" in used.detail},
        monitor_cpu=monitor_cpu(samples, window),
    )


def greatest_detail(testers: Iterable[Utilization], detail: str) -> float | None:
    """The greatest value of a detail over the testers of all hosts; None if none has it."""
    return max((used.detail[detail] for used in testers if detail in used.detail), default=None)


def _cores_there(bound: Mapping[str, int], count: int, components: Iterable[str]) -> dict[str, int]:
    """Number of cores of the components of another host. `bound`: of services that are bound to cores; the other
    components may use all `count` cores."""
    return {
        name: bound[name] if name.startswith("service:") and name in bound else count
        for name in {"host", TESTERS, *components}
    }


def _target_host(
    samples: Sequence[SampleSeries],
    window: Window,
    host: str,
    cores: int | None,
    link: LinkCapacity | None,
    bound: Mapping[str, int],
    placed: Mapping[str, str],
) -> dict[str, Utilization]:
    """A host of the target or of services, and the processes on it, by their names in the results, without the agent's
    own process. A service has its own name, as it is unique."""
    count = cores or sampled_cores(samples) or 1
    own = {name: number for name, number in bound.items() if placed.get(name) == host}
    components = _cores_there(own, count, [series.component for series in samples])
    watched = {}
    for used in utilizations(samples, window, components, link=link, single_cores=True):
        if used.role != TESTERS:
            is_service = placed.get(f"service:{used.component}") == host
            name = (
                host
                if used.role == "host"
                else used.component
                if is_service
                else f"{used.component} on {host}"
            )
            watched[name] = replace(used, component=name, host=host)
    return watched
