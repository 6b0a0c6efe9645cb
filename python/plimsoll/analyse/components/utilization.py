"""Utilization of each component in the measured window, from the monitors' samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.memory import SOME, memory_details
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.stats.batch import batch_mean
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import LinkCapacity
from plimsoll.plan.source.units import about_size

Array = NDArray[np.float64]
REFUTED = 1.1
"""A measured capacity of a link is too low if the link carried more than this multiple of it."""
CPU_LIMIT = "cpu.limit"
"""The limit of a component with limits, in cores."""
CPU_THROTTLED = "cpu.throttled"
"""Cores that waited because of this limit."""
DISK_LIMITS = (
    ("disk.read", "disk.read_limit", "disk reads"),
    ("disk.write", "disk.write_limit", "disk writes"),
)
"""Bytes/s of the busiest disk, with their limit, and their name in texts."""


def utilizations(
    samples: Sequence[SampleSeries],
    window: Window,
    cores: Mapping[str, int],
    together: Sequence[Sequence[str]] = (),
    *,
    link: LinkCapacity | None = None,
    single_cores: bool = False,
) -> tuple[Utilization, ...]:
    """One entry per component: host, each service, the testers, and the cores that several services share.

    `cores`: number of cores that a component may use (its pins, else the host's), by component name as in the samples
    ("service:db", "testers", "host"). `together`: components that are bound to the same cores. A sample covers the
    time since the one before it, at most 1 s; it counts if more than half of that time is in the window. (The last one
    of a run covers less than a second, in which testers only wait for their last responses.) `link`: capacity of the
    host's network in each direction; `single_cores`: the busiest core of the host is also a resource, for hosts on
    which not all processes are watched.

    A component with one busy thread is full at one core even if other cores are idle, so its binding resource is the
    larger of "cpu of its cores" and "busiest thread". The limits of a component take the place of its cores, and those
    of disks are further resources.
    """
    out = []
    for component in sorted({series.component for series in samples}, key=_sort_key):
        values = {
            (series.metric, series.part): in_window(series, window)
            for series in samples
            if series.component == component
        }
        if component == "host":
            utilization = _host(values, link, single_cores=single_cores)
        elif component == "monitor":
            continue
        else:
            utilization = _processes(component, values, cores.get(component, 1))
        if utilization is not None:
            out.append(utilization)
    out += [
        utilization
        for names in together
        if (utilization := _shared_cores(samples, window, names, cores)) is not None
    ]
    return tuple(out)


def _shared_cores(
    samples: Sequence[SampleSeries], window: Window, names: Sequence[str], cores: Mapping[str, int]
) -> Utilization | None:
    """The cores that several services share. They can be full although none of the services is."""
    used = {
        series.component: in_window(series, window)
        for series in samples
        if series.component in names and (series.metric, series.part) == ("cpu", "")
    }
    if len(used) < 2 or len({values.size for values in used.values()}) != 1:
        return None  # a service that was watched only in part of the window would be missing from the rest
    count = max(1, cores.get(names[0], 1))
    values = np.sum(list(used.values()), axis=0) / count
    if values.size == 0:
        return None
    mean, low, high = mean_interval(values)
    cores_text = "core" if count == 1 else f"{count} cores"
    detail = {name.removeprefix("service:"): float(values.mean()) / count for name, values in used.items()}
    return Utilization(
        f"services' {cores_text}",
        "cores",
        f"cpu of the {cores_text} that they share",
        mean,
        low,
        high,
        detail,
        kind=ResourceKind.CPU_OF_SHARED_CORES,
        cores=count,
    )


def monitor_cpu(samples: Sequence[SampleSeries], window: Window) -> float | None:
    """Mean share of one core that the monitor itself used in the window; of several monitors, the greatest."""
    shares = (
        in_window(series, window)
        for series in samples
        if (series.component, series.metric) == ("monitor", "cpu")
    )
    return max((float(values.mean()) for values in shares if values.size), default=None)


def _sort_key(component: str) -> tuple[int, str]:
    return ({"host": 0, "testers": 2}.get(component, 1), component)


def in_window(series: SampleSeries, window: Window) -> Array:
    """The values of the samples that lie in the window by more than half. A sample covers the time since the one before
    it, at most 1 s."""
    since = np.diff(series.t_s, prepend=series.t_s[:1] - 1.0)
    middle = series.t_s - np.minimum(since, 1.0) / 2
    values: Array = series.value[(middle >= window.start / 1e9) & (middle < window.end / 1e9)]
    return values[np.isfinite(values)]


def mean_in_window(series: SampleSeries, window: Window) -> float | None:
    """Mean of a series over the seconds of the window; None without a sample."""
    values = in_window(series, window)
    return float(values.mean()) if values.size else None


def _processes(component: str, series: Mapping[tuple[str, str], Array], cores: int) -> Utilization | None:
    cpu = series.get(("cpu", ""))
    if cpu is None or cpu.size == 0:
        return None
    threads, demands = (
        [values for (metric, _), values in series.items() if metric == kind and values.size]
        for kind in ("cpu.busiest_thread", "cpu.thread_demand")
    )
    # A tester that spins before a start waits: the time that the engine counted as spinning is subtracted.
    spinning = series.get(("spin", ""), np.zeros(0))
    idle = float(spinning.mean()) / max(1, cores) if spinning.size else 0.0
    share = np.maximum(cpu / max(1, cores) - idle, 0.0)
    threads = [np.maximum(values - idle, 0.0) for values in threads]
    name, resource, values = component.removeprefix("service:"), f"cpu of its {cores} cores", share
    kind = ResourceKind.CPU_OF_CORES
    limit = series.get((CPU_LIMIT, ""))
    limit_cores = float(limit.mean()) if limit is not None and limit.size else math.inf
    if limit_cores < cores:
        resource, values = f"cpu of its limit of {limit_cores:g} cores", cpu / limit_cores
        kind = ResourceKind.CPU_OF_LIMIT
    elif cores == 1:
        resource = "cpu of its core"
    if threads and cores > 1:
        thread = np.concatenate(threads)
        if float(thread.mean()) > float(values.mean()):
            resource, values = "busiest thread", thread
            kind = ResourceKind.BUSIEST_THREAD
    for text, disk in _limited_disks(series).items():
        if float(disk.mean()) > float(values.mean()):
            resource, values = text, disk
            kind = ResourceKind.DISK_OF_LIMIT
    mean, low, high = mean_interval(values)
    detail = {"cpu": float(share.mean()), "cores_used": float(cpu.mean())}
    if threads:
        detail["busiest_thread"] = float(np.concatenate(threads).mean())
    throttled = series.get((CPU_THROTTLED, ""), np.zeros(0))
    by_limit = float(throttled.mean()) if throttled.size and limit_cores < math.inf else 0.0
    if demands:  # a thread that the limit stopped did not wait for a core of the host
        detail["thread_demand"] = max(0.0, float(np.concatenate(demands).mean()) - idle - by_limit)
    for metric in (
        "memory.rss",
        "threads",
        "io.read",
        "io.write",
        *(name for row in DISK_LIMITS for name in row[:2]),
    ):
        metric_values = series.get((metric, ""))
        if metric_values is not None and metric_values.size:
            detail[metric] = float(metric_values.mean())
    if limit_cores < math.inf:
        detail |= {CPU_LIMIT: limit_cores, CPU_THROTTLED: by_limit}
    detail |= memory_details(series, _pressure(series))
    role = "testers" if component == "testers" else "service"
    on = cores if kind == ResourceKind.CPU_OF_CORES else 0
    return Utilization(name, role, resource, mean, low, high, detail, kind=kind, cores=on)


def _limited_disks(series: Mapping[tuple[str, str], Array]) -> dict[str, Array]:
    """The use of each limit of disks, by its text."""
    found = {}
    for metric, limit_metric, name in DISK_LIMITS:
        values, limit = series.get((metric, "")), series.get((limit_metric, ""))
        if values is not None and values.size and limit is not None and limit.size and limit.mean() > 0:
            found[f"{name} of its limit of {about_size(float(limit.mean()))}/s"] = values / float(
                limit.mean()
            )
    return found


def sampled_cores(samples: Sequence[SampleSeries]) -> int | None:
    """The number of cores of a host, from the samples of each core; None without samples."""
    return len({series.part for series in samples if series.metric == "cpu.busy" and series.part}) or None


def _host(
    series: Mapping[tuple[str, str], Array], link: LinkCapacity | None, *, single_cores: bool
) -> Utilization | None:
    busy = series.get(("cpu.busy", ""))
    if busy is None or busy.size == 0:
        return None
    detail = {
        f"{metric} {part}".strip(): float(values.mean())
        for (metric, part), values in sorted(series.items())
        if values.size and metric in DETAIL_METRICS
    }
    resource, values = "cpu", busy
    others = {f"disk {part}": values for (metric, part), values in series.items() if metric == "disk.busy"}
    if link is not None:
        links = _busiest_link(series, link)
        detail |= {name: float(values.mean()) for name, values in links.items()}
        others |= links
    if single_cores and (core := _busiest_core(series)) is not None:
        name, candidate = core
        detail[name] = float(candidate.mean())
        if _is_above(candidate, busy):
            others[name] = candidate
    detail |= memory_details(series, _pressure(series))
    for name, candidate in others.items():
        if candidate.size and float(candidate.mean()) > float(values.mean()):
            resource, values = name, candidate
    mean, low, high = mean_interval(values)
    kind = ResourceKind.CPU if values is busy else ResourceKind.OTHER
    return Utilization("host", "host", resource, mean, low, high, detail, kind=kind)


def _pressure(
    series: Mapping[tuple[str, str], Array],
) -> dict[str, tuple[float, float | None, float | None]]:
    """Mean share of the time in which tasks of a component waited for memory, with its interval."""
    values = series.get((SOME, ""))
    return {} if values is None or not values.size else {SOME: mean_interval(values)}


def _busiest_link(series: Mapping[tuple[str, str], Array], capacity: LinkCapacity) -> dict[str, Array]:
    """The busiest network interface except loopback, by its busier direction, because a link is full-duplex. Interfaces
    that forward the same bytes (a bridge, a tunnel) are not added up. Empty if a measured capacity is refuted: the host
    carried more."""
    interfaces: dict[str, Array] = {}
    for (metric, part), values in sorted(series.items()):
        if metric in ("net.receive", "net.send") and part != "lo" and values.size:
            share = values / (capacity.receive if metric == "net.receive" else capacity.send)
            if part not in interfaces or float(share.mean()) > float(interfaces[part].mean()):
                interfaces[part] = share
    busiest = max(interfaces, key=lambda part: float(interfaces[part].mean()), default=None)
    if busiest is None or (capacity.is_measured and float(interfaces[busiest].mean()) > REFUTED):
        return {}
    return {f"link {busiest}": interfaces[busiest]}


def _busiest_core(series: Mapping[tuple[str, str], Array]) -> tuple[str, Array] | None:
    cores = {
        f"core {part}": values
        for (metric, part), values in series.items()
        if metric == "cpu.busy" and part and values.size
    }
    name = max(cores, key=lambda core: float(cores[core].mean()), default=None)
    return None if name is None else (name, cores[name])


def _is_above(core: Array, cpu: Array) -> bool:
    """Whether the interval of a core is above that of all cores."""
    mean, low, _ = mean_interval(core)
    cpu_mean, _, high = mean_interval(cpu)
    return (mean if low is None else low) > (cpu_mean if high is None else high)


DETAIL_METRICS = (
    "cpu.busy",
    "cpu.user",
    "cpu.system",
    "cpu.iowait",
    "cpu.softirq",
    "cpu.steal",
    "load.1",
    "memory.used",
    "disk.read",
    "disk.write",
    "disk.busy",
    "net.receive",
    "net.send",
    "psi.cpu.some",
    "psi.io.some",
    "psi.memory.some",
)


def mean_interval(values: Array) -> tuple[float, float | None, float | None]:
    """Mean of shares with a 95 % interval, cut to 0..1."""
    mean, *ends = mean_bounds(values)
    cut = [None if edge is None else min(1.0, max(0.0, edge)) for edge in ends]
    return min(mean, 1.0), cut[0], cut[1]


def mean_bounds(values: Array) -> tuple[float, float | None, float | None]:
    """Mean with a 95 % interval: batch means from 10 seconds on, else t over at least 3 seconds."""
    mean = float(values.mean())
    batched = batch_mean(values)
    if batched is not None:
        return mean, batched.interval.low, batched.interval.high
    if values.size < 3:
        return mean, None, None
    half = t_quantile(0.975, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return mean, mean - half, mean + half
