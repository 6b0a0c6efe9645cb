"""Readings of exporters of existing systems: utilization of hosts and processes, and missing readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.resources import busiest_interface
from plimsoll.analyse.components.utilization import mean_interval
from plimsoll.analyse.results.run import ComponentResources, Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.results.wording import number
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.model.cell import EMULATOR

Array = NDArray[np.float64]
Busy = tuple[float, float | None, float | None]
"""Mean with the ends of its interval."""
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
        steps = _Steps(readings, window)
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
                out += [*_testbed_links(readings, steps), _emulator(steps)]
    return tuple(utilization for utilization in out if utilization is not None)


def watched_resources(watched: Iterable[WatchedReadings], window: Window) -> tuple[ComponentResources, ...]:
    """The resources of each host (node exporter), of each Squid whose exporter reports them, of each control group, and
    the CPU of the process that emulates the links of a testbed."""
    out = []
    for readings in watched:
        steps = _Steps(readings, window)
        if not steps.width.size:
            continue
        if readings.kind == "testbed" and (cpu := _emulator_cpu(steps)) is not None:
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


class _Steps:
    """Increase of counters between readings in the window. A counter that fell was reset: its increase is its new
    value."""

    def __init__(self, readings: WatchedReadings, window: Window) -> None:
        self._values = readings.values
        t = readings.t_s
        middle = (t[1:] + t[:-1]) / 2
        self._in = (middle >= window.start / 1e9) & (middle < window.end / 1e9) & (np.diff(t) > 0)
        self.width = np.diff(t)[self._in]

    def names(self, prefix: str) -> list[str]:
        return [name for name in self._values if name.startswith(prefix)]

    def counter_increase(self, name: str) -> Array:
        value = self._values.get(name)
        if value is None:
            return np.full(self.width.size, np.nan)
        step = np.diff(value)
        increase: Array = np.where(step < 0, value[1:], step)[self._in]
        return increase

    def levels(self, name: str) -> Array:
        """A gauge at the ends of the intervals; NaN where it is not known."""
        value = self._values.get(name)
        return np.full(self.width.size, np.nan) if value is None else value[1:][self._in]

    def gauge(self, name: str) -> float | None:
        """Mean of a gauge over the ends of the intervals; None without values."""
        value = self._values.get(name)
        ends = np.zeros(0) if value is None else value[1:][self._in]
        ends = ends[np.isfinite(ends)]
        return float(ends.mean()) if ends.size else None

    def share(self, name: str, of: Array) -> Array:
        """Increase of a counter relative to `of`; NaN if one of the two is not known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Array = self.counter_increase(name) / np.where(of > 0, of, np.nan)
        return share

    def mean(self, values: Array) -> float | None:
        known = np.isfinite(values)
        return float(np.average(values[known], weights=self.width[known])) if known.any() else None

    def rates(self, prefix: str) -> dict[str, float]:
        """Increase per second of each counter with this prefix, by the rest of its name."""
        means = {name: self.mean(self.share(name, self.width)) for name in self.names(prefix)}
        return {name.removeprefix(prefix): mean for name, mean in means.items() if mean is not None}

    def utilization(self, values: Array) -> Busy:
        """Mean and interval. With a gap in the readings there is no interval, because one value then covers several
        intervals."""
        known = np.isfinite(values)
        width = self.width[known]
        mean = min(1.0, float(np.average(values[known], weights=width)))
        usual = float(np.median(width))
        if width.max() > 1.5 * usual:
            return mean, None, None
        # The last reading of a run is early: its interval may be too short to be comparable.
        _, low, high = mean_interval(values[known][width > usual / 2])
        return mean, None if low is None else min(low, mean), None if high is None else max(high, mean)


def _host(readings: WatchedReadings, steps: _Steps) -> Utilization | None:
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


def _detail(means: Mapping[str, float], cpu_total: Array, steps: _Steps) -> dict[str, float]:
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


def _links(steps: _Steps) -> dict[str, Array]:
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


def _squid_process(readings: WatchedReadings, steps: _Steps) -> Utilization | None:
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


def _group(readings: WatchedReadings, steps: _Steps) -> Utilization | None:
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


def _testbed_links(readings: WatchedReadings, steps: _Steps) -> list[Utilization]:
    """For each link its busier direction, as the share of its rate that passed. Bytes count with all headers."""
    busiest: dict[str, Utilization] = {}
    for name in steps.names("passed "):
        link, _, direction = name.removeprefix("passed ").partition(": ")
        share = steps.share(name, steps.width * steps.levels(f"rate {link}: {direction}"))
        if steps.mean(share) is None:
            continue
        used = Utilization(
            f"link {link}", "link", direction, *steps.utilization(share), {}, "", ResourceKind.OTHER
        )
        if used.component not in busiest or used.mean > busiest[used.component].mean:
            busiest[used.component] = used
    return list(busiest.values())


def _emulator(steps: _Steps) -> Utilization | None:
    """The CPU of the process that emulates the links: with a full core it forwards no more. None if its CPU time was
    not read."""
    cpu = _emulator_cpu(steps)
    if cpu is None:
        return None
    used = steps.utilization(steps.share("cpu", steps.width))
    kind = ResourceKind.CPU_OF_PROCESS
    return Utilization(EMULATOR, "emulator", "cpu of its process", *used, {"cores_used": cpu}, "", kind)


def _emulator_cpu(steps: _Steps) -> float | None:
    """Mean of the cores that the process used."""
    return steps.mean(steps.share("cpu", steps.width))


def emulator_cores(watched: Iterable[WatchedReadings], seconds: range) -> Array:
    """Cores that the process that emulates the links of a testbed used in each of these seconds of the run; 0 where its
    CPU time was not read. Between two readings the time is taken to increase evenly."""
    edges = np.arange(seconds.start, seconds.stop + 1, dtype=np.float64)
    for readings in watched:
        if readings.kind == "testbed" and "cpu" in readings.values:
            return np.diff(np.interp(edges, readings.t_s, readings.values["cpu"]))
    return np.zeros(len(seconds))


def watch_notes(watched: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Notes on the readings of a run: failures, gaps, and counters that were reset."""
    notes = []
    for record in watched:
        name, gaps = record["name"], record.get("gaps", ())
        if "counters" not in record:
            notes.append(f"{name} could not be read during the run{_reason_of(gaps)}")
            continue
        for gap in gaps:
            notes.append(
                f"no reading of {name} from {_second(gap['from_s'])} to {_second(gap['to_s'])}{_reason_of([gap])}"
            )
        notes += [
            f"{name} reset its counters before {_second(at)}: its counts since the previous reading are unknown"
            for at in record.get("anew_s", ())
        ]
    return tuple(notes)


def host_notes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Notes on the watched hosts and processes of the targets of a run."""
    missing = [
        f"{host['name']} is not watched: {host['missing']}"
        for host in record.get("watched_hosts", ())
        if host.get("missing")
    ]
    events = [f"at {_second(event['t_s'])}: {event['text']}" for event in record.get("watch_events", ())]
    return (*missing, *events)


def _second(value: float) -> str:
    return f"{number(max(0.0, value))} s"


def _reason_of(gaps: Sequence[Mapping[str, Any]]) -> str:
    return f" ({gaps[0]['why']})" if gaps else ""
