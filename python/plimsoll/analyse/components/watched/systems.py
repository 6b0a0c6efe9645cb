"""Utilization and resources of the systems that are watched during a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from plimsoll.analyse.components.resources import busiest_interface
from plimsoll.analyse.components.watched.steps import Array, Busy, WindowSteps
from plimsoll.analyse.components.watched.testbed import emulator, emulator_cpu, testbed_links
from plimsoll.analyse.results.run import ComponentResources, Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.model.cell import EMULATOR

_RATES: Final = (
    *("cpu.user", "cpu.system", "cpu.iowait", "cpu.softirq", "cpu.steal"),
    *("psi.cpu.some", "psi.io.some", "psi.memory.some"),
)
_PREFIXES: Final = {"node": "", "squid": "process.", "cgroup": ""}
"""Kinds with resources, and the prefix of the names of their CPU time and memory."""
_OF_DEVICES: Final = ("disk.read ", "disk.write ", "disk.busy ", "net.receive ", "net.send ")


def watched_utilizations(watched: Iterable[WatchedReadings], window: Window) -> tuple[Utilization, ...]:
    """One entry for each host (node exporter), for each Squid whose exporter reports its CPU time, for each control
    group whose CPU time is limited, for each link of a testbed with a rate, and for the process that emulates links.

    Between two readings counters have an exact mean; an interval counts if its middle is in the window, weighted by its
    length. The binding resource of a host is the busiest of CPU, disks, those links whose speed is reported, and the
    core that is busiest over the whole window, if its interval is above that of the CPU.
    """
    out: list[Utilization | None] = []
    for readings in watched:
        steps = WindowSteps(readings, window)
        if not steps.width.size:
            continue
        match readings.kind:
            case "node":
                out.append(_host(readings, steps))
            case "squid":
                out.append(_squid_process(readings, steps))
            case "cgroup":
                out.append(_group(readings, steps))
            case "testbed":
                out += [*testbed_links(readings, steps), emulator(steps)]
    return tuple(utilization for utilization in out if utilization is not None)


def watched_resources(watched: Iterable[WatchedReadings], window: Window) -> tuple[ComponentResources, ...]:
    """The resources of each host (node exporter), of each Squid whose exporter reports them, of each control group, and
    the CPU of the process that emulates the links of a testbed."""
    out = []
    for readings in watched:
        steps = WindowSteps(readings, window)
        if not steps.width.size:
            continue
        if readings.kind == "testbed" and (cpu := emulator_cpu(steps)) is not None:
            out.append(ComponentResources(EMULATOR, readings.host, cpu=cpu))
        if readings.kind not in _PREFIXES:
            continue
        prefix = _PREFIXES[readings.kind]
        received, sent = (steps.rates(f"{name} ") for name in ("net.receive", "net.send"))
        network_in, network_out = busiest_interface(received, sent)
        # A control group has one counter for all its disks, a host one for each.
        disks = [steps.rates(name) for name in ("disk.read", "disk.write")]
        out.append(
            ComponentResources(
                component=readings.name,
                host=readings.host,
                cpu=steps.mean(
                    steps.share("cpu.busy" if readings.kind == "node" else f"{prefix}cpu", steps.width)
                ),
                memory=steps.gauge(f"{prefix}memory" if prefix else "memory.used"),
                disk_read=sum(disks[0].values()) if disks[0] else None,
                disk_write=sum(disks[1].values()) if disks[1] else None,
                network_in=network_in,
                network_out=network_out,
            )
        )
    return tuple(out)


def _host(readings: WatchedReadings, steps: WindowSteps) -> Utilization | None:
    cpu_total = steps.counter_increase("cpu.all")
    busy = steps.share("cpu.busy", cpu_total)
    resources: dict[str, Array] = {"cpu": busy}
    for name in steps.names("cpu.busy "):
        core = name.removeprefix("cpu.busy ")
        resources[f"core {core}"] = steps.share(name, steps.counter_increase(f"cpu.all {core}"))
    for name in steps.names("disk.busy "):
        resources[name.replace("disk.busy", "disk")] = steps.share(name, steps.width)
    resources |= _links(steps)
    # As in `utilization`: after the division a share of 1 may be slightly greater.
    means = {
        name: min(1.0, mean) for name, values in resources.items() if (mean := steps.mean(values)) is not None
    }
    if not means:
        return None
    utilizations = {name: steps.utilization(resources[name]) for name in means}
    cpu = utilizations.get("cpu", (0.0, None, None))
    binding = {
        name: utilization
        for name, utilization in utilizations.items()
        if not name.startswith("core ") or _is_above(utilization, cpu)
    }
    first = max(binding, key=lambda name: binding[name][0])
    detail = _detail(means, cpu_total, steps)
    kind = ResourceKind.CPU if first == "cpu" else ResourceKind.OTHER
    return Utilization(readings.name, "host", first, *utilizations[first], detail, readings.host, kind)


def _is_above(core: Busy, cpu: Busy) -> bool:
    """Whether the interval of a core is above that of the CPU. Without an interval the mean is used."""
    low = core[0] if core[1] is None else core[1]
    return low > (cpu[0] if cpu[2] is None else cpu[2])


def _detail(means: Mapping[str, float], cpu_total: Array, steps: WindowSteps) -> dict[str, float]:
    """Further figures of a host, by the names of Plimsoll's monitor: of its cores only the busiest, of its devices
    those that were used."""
    cores = sorted((name for name in means if name.startswith("core ")), key=lambda name: means[name])
    kept = [*cores[-1:], *(name for name in means if name.startswith("link "))]
    values: dict[str, float | None] = {"cpu.busy": means.get("cpu"), **{name: means[name] for name in kept}}
    for name in _RATES:
        of = cpu_total if name.startswith("cpu.") else steps.width
        values[name] = steps.mean(steps.share(name, of))
    for name in (name for prefix in _OF_DEVICES for name in steps.names(prefix)):
        values[name] = steps.mean(steps.share(name, steps.width)) or None
    values |= {name: steps.gauge(name) for name in ("memory.used", "memory.available", "load.1")}
    return {name: value for name, value in values.items() if value is not None}


def _links(steps: WindowSteps) -> dict[str, Array]:
    """The busier direction of each link whose speed is reported: a link is full-duplex."""
    links = {}
    for name in steps.names("net.speed "):
        device, speed = name.removeprefix("net.speed "), steps.gauge(name)
        if speed:
            directions = [
                steps.share(f"{direction} {device}", steps.width * speed)
                for direction in ("net.receive", "net.send")
            ]
            links[f"link {device}"] = max(directions, key=lambda values: steps.mean(values) or 0.0)
    return links


def _squid_process(readings: WatchedReadings, steps: WindowSteps) -> Utilization | None:
    """Utilization of a Squid by its CPU time: it has one busy thread, which is full at one core. None if it used no CPU
    time: the exporter's pid file then names the master process, which only waits for its worker."""
    cpu = steps.share("process.cpu", steps.width)
    mean = steps.mean(cpu)
    if not mean:
        return None
    detail = {"cores_used": mean}
    memory = steps.gauge("process.memory")
    if memory is not None:
        detail["memory.rss"] = memory
    kind = ResourceKind.CPU_OF_PROCESS
    return Utilization(
        readings.name, "service", "cpu of its process", *steps.utilization(cpu), detail, readings.host, kind
    )


def _group(readings: WatchedReadings, steps: WindowSteps) -> Utilization | None:
    """Utilization of a control group by its CPU time, relative to its limit. None without a limit: the group can use
    every core, and the CPU of the host is its limit."""
    limit = steps.gauge("cpu.limit")
    cpu = steps.share("cpu", steps.width)
    mean = steps.mean(cpu)
    if not limit or mean is None:
        return None
    detail: dict[str, float | None] = {
        "cores_used": mean,
        "cpu.limit": limit,
        "memory.used": steps.gauge("memory.used"),
        "cpu.throttled": steps.mean(steps.share("cpu.throttled", steps.width)),
    }
    known = {name: value for name, value in detail.items() if value is not None}
    return Utilization(
        readings.name,
        "service",
        "cpu of its limit",
        *steps.utilization(cpu / limit),
        known,
        readings.host,
        ResourceKind.CPU_OF_LIMIT,
    )
