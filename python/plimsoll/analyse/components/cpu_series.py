"""CPU of hosts and components second by second, from the monitors' samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.resources import place
from plimsoll.analyse.components.utilization import sampled_cores
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import TESTERS, Agent

Array = NDArray[np.float64]
SERVICE = "service:"
LAB = "host"
"""Component of the host of the lab, if it has testers."""
NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class HostCpu:
    """CPU of one host in the whole seconds of a window, NaN where it was not sampled.

    `host`: name of the host, empty for the host of the lab; `component`: its name among the components. `busy`: cores
    in use; `components`: cores in use by each service and watched process. `outside`: share (0..1) of all cores that
    was used by processes other than these, the testers and the monitor, including the kernel's work that belongs to no
    process; None if the number of cores is unknown. `interrupts`: share of all cores for interrupts and for the
    hypervisor, which `outside` contains. `only_testers`: the host has testers and is not the host of the lab.
    """

    host: str
    busy: Array
    components: Mapping[str, Array]
    outside: Array | None
    only_testers: bool = False
    interrupts: Array | None = None
    component: str = LAB


def whole_seconds(window: Window) -> range:
    """The seconds, by number, that lie completely in the window."""
    return range(-(-window.start // NS), window.end // NS)


def cpu_of_hosts(
    samples: Sequence[SampleSeries], agents: Sequence[Agent], seconds: range, emulator: Array | None = None
) -> tuple[HostCpu, ...]:
    """One entry per host with samples of its CPU, in the order of the agents. Of several agents on one host, the first
    counts. Results without a list of agents have one agent, on the host of the lab. `emulator`: the hosts are those of
    a testbed, and the process that emulates its links used that many cores in each second. The hosts share the cores of
    a machine, so that neither this process nor one of the experiment on any of them is outside.
    """
    if not agents:
        hosts = [_host_cpu(samples, "", seconds, only_testers=False)]
        return tuple(host for host in hosts if host is not None)
    found: dict[str, HostCpu] = {}
    everywhere = None if emulator is None else _of_experiment(samples, seconds) + emulator
    for agent in agents:
        own = samples if len(agents) == 1 else [series for series in samples if series.agent == agent.name]
        name = "" if agent.clock.same else agent.host
        if name in found:
            continue
        only_testers = agent.role == TESTERS and not agent.clock.same
        host = _host_cpu(own, name, seconds, only_testers=only_testers, inside=everywhere)
        component = place(agent, "host")
        if host is not None and component is not None:
            found[name] = replace(host, component=component[0])
    return tuple(found.values())


def _host_cpu(
    samples: Sequence[SampleSeries],
    name: str,
    seconds: range,
    *,
    only_testers: bool,
    inside: Array | None = None,
) -> HostCpu | None:
    """The CPU of a host. `inside`: cores in use by the experiment; None: those that its own samples contain."""
    busy_share = _values(samples, "host", "cpu.busy", seconds)
    cores = sampled_cores(samples)
    if busy_share is None or cores is None:
        return None
    used = _used(samples, seconds)
    if inside is None:
        inside = _sum(used.values(), len(seconds))
    return HostCpu(
        host=name,
        busy=busy_share * cores,
        components={
            component.removeprefix(SERVICE): values
            for component, values in used.items()
            if component.startswith(SERVICE)
        },
        outside=np.maximum(busy_share - inside / cores, 0.0),
        only_testers=only_testers,
        interrupts=_sum(filter(_is_known, _interrupts(samples, seconds)), len(seconds)),
    )


def _used(samples: Sequence[SampleSeries], seconds: range) -> dict[str, Array]:
    """Cores in use by each component of the experiment. The monitor is a thread of the agent, whose process tree is the
    component `testers`."""
    names = sorted({series.component for series in samples if series.metric == "cpu"} - {"monitor"})
    return {
        component: values
        for component in names
        if (values := _values(samples, component, "cpu", seconds)) is not None
    }


def _of_experiment(samples: Sequence[SampleSeries], seconds: range) -> Array:
    """Cores in use by the experiment on all hosts. Several agents of a host can sample the same service."""
    found: dict[tuple[str, str], Array] = {}
    for agent in dict.fromkeys(series.agent for series in samples):
        own = [series for series in samples if series.agent == agent]
        for component, values in _used(own, seconds).items():
            found["" if component.startswith(SERVICE) else agent, component] = values
    return _sum(found.values(), len(seconds))


def _interrupts(samples: Sequence[SampleSeries], seconds: range) -> Iterable[Array | None]:
    return (_values(samples, "host", metric, seconds) for metric in ("cpu.irq", "cpu.softirq", "cpu.steal"))


def _is_known(values: Array | None) -> TypeGuard[Array]:
    return values is not None


def _sum(parts: Iterable[Array], length: int) -> Array:
    """Sum of the components; one that was not sampled in a second, because it had ended, used nothing."""
    total = np.zeros(length)
    for part in parts:
        total += np.nan_to_num(part)
    return total


def _values(samples: Iterable[SampleSeries], component: str, metric: str, seconds: range) -> Array | None:
    """The values of a metric by second; None without samples in these seconds. A sample covers the time since the one
    before it, at most a second: the last of an agent is shorter. It belongs to the second of the middle of that time.
    """
    for series in samples:
        if (series.component, series.metric, series.part) == (component, metric, ""):
            covered = np.minimum(np.diff(series.t_s, prepend=-np.inf), 1.0)
            number = np.floor(series.t_s - covered / 2).astype(np.int64) - seconds.start
            is_inside = (number >= 0) & (number < len(seconds))
            if is_inside.any():
                out = np.full(len(seconds), np.nan)
                out[number[is_inside]] = series.value[is_inside]
                return out
    return None
