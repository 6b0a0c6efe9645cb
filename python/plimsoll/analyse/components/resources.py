"""CPU, memory, disks and network of each component in a window, from the monitors' samples: for the metrics
`cpu.NAME`, `memory.NAME`, `disk_read.NAME` and so on.

The names of components are those of `utilization` and `utilization_hosts`. In addition, each host of testers has its
own name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plimsoll.analyse.components.kernel_figures import (
    WindowSamples,
    figures_of_host,
    figures_of_service,
)
from plimsoll.analyse.components.utilization import in_window, mean_in_window, sampled_cores
from plimsoll.analyse.results.run import ComponentResources, Utilization
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import TESTERS, Agent

Means = Mapping[tuple[str, str], float]
"""Mean in the window of each metric of a component, by metric and part."""
_STACKED: Final = re.compile(r"(dm-|md|loop|ram|zram)\d+")
"""Block devices whose bytes are those of other devices, or of memory: they would be counted twice."""


def component_resources(
    samples: Sequence[SampleSeries],
    window: Window,
    cores: int,
    agents: Sequence[Agent] = (),
    known: Iterable[Utilization] = (),
    cpu_of_hosts: Mapping[str, float] | None = None,
    watched: Sequence[ComponentResources] = (),
    services: Mapping[str, str] | None = None,
) -> tuple[ComponentResources, ...]:
    """One entry per component. `cores`: of the lab's host, if its cores were not sampled; `agents`: of a run of several
    agents (empty: one agent); `known`: the utilizations of the same window; `cpu_of_hosts`: busy share of the CPU of
    each host of testers, by name; `watched`: what exporters reported; `services`: as for `place`.

    The testers of several hosts are one component, whose values are sums.
    """
    out: dict[str, ComponentResources] = {}
    for agent in agents or (None,):
        of_agent = [series for series in samples if agent is None or series.agent == agent.name]
        for component in dict.fromkeys(series.component for series in of_agent):
            located = place(agent, component, services)
            if located is None:
                continue
            own = [series for series in of_agent if series.component == component]
            means = _means(own, window)
            found = _host(means, sampled_cores(of_agent) or cores) if component == "host" else _process(means)
            figures = WindowSamples(own, window)
            of_host = WindowSamples((each for each in of_agent if each.component == "host"), window)
            found = replace(
                found,
                component=located[0],
                host=located[1],
                kernel=figures_of_host(figures, is_stacked)
                if component == "host"
                else figures_of_service(figures, of_host),
                memory_peak=_memory_peak(own, window),
            )
            before = out.get(found.component)
            if before is None:
                out[found.component] = found
            elif component == "testers":
                out[found.component] = _sum(before, found)
    out |= {entry.component: entry for entry in watched if entry.component not in out}
    for host, busy in (cpu_of_hosts or {}).items():
        if host in out:
            out[host] = replace(out[host], utilization=busy)
    for used in known:
        entry = out.get(used.component) or ComponentResources(used.component, used.host)
        out[used.component] = replace(entry, utilization=used.mean)
    return tuple(out.values())


def is_stacked(device: str) -> bool:
    """Whether the bytes of a block device are also those of another device, or of memory."""
    return _STACKED.match(device) is not None


def place(
    agent: Agent | None, component: str, services: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Name and host of a component in the results; None: it is left out. `services`: the host of each service by name;
    a service keeps its name on every host, a watched process is named with its host."""
    name = component.removeprefix("service:")
    if component == "monitor":
        return None
    if agent is None:
        return name, ""
    if component == "testers":
        return ("testers", "") if agent.role == TESTERS else None
    if component == "host":
        name = "host" if agent.clock.same and agent.role == TESTERS else agent.host
        return name, "" if agent.clock.same else agent.host
    if agent.clock.same:
        return name, ""
    is_service = (services or {}).get(name) == agent.host
    return (f"{name} on {agent.host}" if agent.role != TESTERS and not is_service else name), agent.host


def _means(samples: Iterable[SampleSeries], window: Window) -> Means:
    means = {(series.metric, series.part): mean_in_window(series, window) for series in samples}
    return {key: mean for key, mean in means.items() if mean is not None}


def _memory_peak(samples: Iterable[SampleSeries], window: Window) -> float | None:
    """The largest memory of a host, or of processes."""
    series = next((series for series in samples if series.metric in ("memory.used", "memory.rss")), None)
    values = None if series is None else in_window(series, window)
    return None if values is None or not values.size else float(values.max())


def _host(means: Means, cores: int) -> ComponentResources:
    busy = means.get(("cpu.busy", ""))
    disks = [
        {part: mean for (metric, part), mean in means.items() if metric == name and not is_stacked(part)}
        for name in ("disk.read", "disk.write")
    ]
    network_in, network_out = busiest_interface(
        *(
            {part: mean for (metric, part), mean in means.items() if metric == name and part != "lo"}
            for name in ("net.receive", "net.send")
        )
    )
    return ComponentResources(
        component="host",
        cpu=None if busy is None else busy * cores,
        memory=means.get(("memory.used", "")),
        disk_read=sum(disks[0].values()) if disks[0] else None,
        disk_write=sum(disks[1].values()) if disks[1] else None,
        network_in=network_in,
        network_out=network_out,
    )


def busiest_interface(
    received: Mapping[str, float], sent: Mapping[str, float]
) -> tuple[float | None, float | None]:
    """Bytes per second in and out of the interface with the most bytes. Interfaces are not added up, because a bridge
    or a tunnel forwards the bytes of another one."""
    both = [part for part in received if part in sent]
    busiest = max(both, key=lambda part: received[part] + sent[part], default=None)
    return (None, None) if busiest is None else (received[busiest], sent[busiest])


def _process(means: Means) -> ComponentResources:
    """A service, a watched process, or the testers. Testers that spin instead of sleeping do no work in that time."""
    cpu = means.get(("cpu", ""))
    return ComponentResources(
        component="",
        cpu=None if cpu is None else max(0.0, cpu - means.get(("spin", ""), 0.0)),
        memory=means.get(("memory.rss", "")),
        own_memory=means.get(("memory.own", "")),
        disk_read=means.get(("io.read", "")),
        disk_write=means.get(("io.write", "")),
    )


def _sum(first: ComponentResources, second: ComponentResources) -> ComponentResources:
    def both(name: str) -> float | None:
        values = (getattr(first, name), getattr(second, name))
        return None if None in values else float(sum(values))

    return ComponentResources(
        component=first.component,
        cpu=both("cpu"),
        memory=both("memory"),
        own_memory=both("own_memory"),
        disk_read=both("disk_read"),
        disk_write=both("disk_write"),
    )
