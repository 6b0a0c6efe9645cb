"""How busy each component was in the measured window, from the monitors' samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.stats.batch import batch_mean
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.samples import SampleSeries

Array = NDArray[np.float64]


def utilizations(
    samples: Sequence[SampleSeries],
    window: Window,
    cores: Mapping[str, int],
    together: Sequence[Sequence[str]] = (),
    *,
    link_bytes_s: float | None = None,
    single_cores: bool = False,
) -> tuple[Utilization, ...]:
    """One entry per component: host, each service, the testers, and the cores that several services share.

    `cores`: number of cores that a component may use (its pins, else the host's), by component name as in the samples
    ("service:db", "testers", "host"). `together`: components that are bound to the same cores. A sample covers the
    second before it; it counts if more than half of that second is in the window. `link_bytes_s`: capacity of the
    host's network in each direction; `single_cores`: of the host its busiest core counts, too, where not all that
    runs on it is watched.

    A component with one busy thread is full at one core whatever else is idle, so its binding resource is the larger
    of "cpu of its cores" and "busiest thread".
    """
    out = []
    for component in sorted({one.component for one in samples}, key=_order):
        mine = {(one.metric, one.part): _inside(one, window) for one in samples if one.component == component}
        if component == "host":
            found = _host(mine, link_bytes_s, single_cores=single_cores)
        elif component == "monitor":
            continue
        else:
            found = _processes(component, mine, cores.get(component, 1))
        if found is not None:
            out.append(found)
    out += [found for names in together if (found := _shared(samples, window, names, cores)) is not None]
    return tuple(out)


def _shared(
    samples: Sequence[SampleSeries], window: Window, names: Sequence[str], cores: Mapping[str, int]
) -> Utilization | None:
    """The cores of several services: full when none of the services by itself is."""
    used = {
        one.component: _inside(one, window)
        for one in samples
        if one.component in names and (one.metric, one.part) == ("cpu", "")
    }
    if len(used) < 2 or len({values.size for values in used.values()}) != 1:
        return None  # a service that was watched for a part of the window would be left out of the rest
    count = max(1, cores.get(names[0], 1))
    values = np.sum(list(used.values()), axis=0) / count
    if values.size == 0:
        return None
    mean, low, high = mean_interval(values)
    what = "core" if count == 1 else f"{count} cores"
    detail = {name.removeprefix("service:"): float(each.mean()) / count for name, each in used.items()}
    return Utilization(
        f"services' {what}",
        "cores",
        f"cpu of the {what} that they share",
        mean,
        low,
        high,
        detail,
        kind=ResourceKind.CPU_OF_SHARED_CORES,
        cores=count,
    )


def monitor_cpu(samples: Sequence[SampleSeries], window: Window) -> float | None:
    """Mean share of one core that the monitor itself used in the window; of several, that which used most."""
    found = (_inside(one, window) for one in samples if (one.component, one.metric) == ("monitor", "cpu"))
    return max((float(values.mean()) for values in found if values.size), default=None)


def _order(component: str) -> tuple[int, str]:
    return ({"host": 0, "testers": 2}.get(component, 1), component)


def _inside(series: SampleSeries, window: Window) -> Array:
    middle = series.t_s - 0.5
    values: Array = series.value[(middle >= window.start / 1e9) & (middle < window.end / 1e9)]
    return values[np.isfinite(values)]


def _processes(component: str, mine: Mapping[tuple[str, str], Array], cores: int) -> Utilization | None:
    cpu = mine.get(("cpu", ""))
    if cpu is None or cpu.size == 0:
        return None
    threads, demands = (
        [values for (metric, _), values in mine.items() if metric == kind and values.size]
        for kind in ("cpu.busiest_thread", "cpu.thread_demand")
    )
    # A tester that spins before a start waits, it does not work: what the engine counted as spinning is taken off.
    spun = mine.get(("spin", ""), np.zeros(0))
    idle = float(spun.mean()) / max(1, cores) if spun.size else 0.0
    share = np.maximum(cpu / max(1, cores) - idle, 0.0)
    threads = [np.maximum(values - idle, 0.0) for values in threads]
    name, resource, values = component.removeprefix("service:"), f"cpu of its {cores} cores", share
    kind = ResourceKind.CPU_OF_CORES
    if cores == 1:
        resource = "cpu of its core"
    elif threads:
        thread = np.concatenate(threads)
        if float(thread.mean()) > float(share.mean()):
            resource, values = "busiest thread", thread
            kind = ResourceKind.BUSIEST_THREAD
    mean, low, high = mean_interval(values)
    detail = {"cpu": float(share.mean()), "cores_used": float(cpu.mean())}
    if threads:
        detail["busiest_thread"] = float(np.concatenate(threads).mean())
    if demands:
        detail["thread_demand"] = max(0.0, float(np.concatenate(demands).mean()) - idle)
    for metric in ("memory.rss", "threads", "io.read", "io.write"):
        found = mine.get((metric, ""))
        if found is not None and found.size:
            detail[metric] = float(found.mean())
    role = "testers" if component == "testers" else "service"
    on = cores if kind == ResourceKind.CPU_OF_CORES else 0
    return Utilization(name, role, resource, mean, low, high, detail, kind=kind, cores=on)


def cores_seen(samples: Sequence[SampleSeries]) -> int | None:
    """The number of cores of a host, from the samples of each core; None where there are none."""
    return len({one.part for one in samples if one.metric == "cpu.busy" and one.part}) or None


def _host(
    mine: Mapping[tuple[str, str], Array], link_bytes_s: float | None, *, single_cores: bool
) -> Utilization | None:
    busy = mine.get(("cpu.busy", ""))
    if busy is None or busy.size == 0:
        return None
    detail = {
        f"{metric} {part}".strip(): float(values.mean())
        for (metric, part), values in sorted(mine.items())
        if values.size and metric in SHOWN
    }
    resource, values = "cpu", busy
    others = {f"disk {part}": found for (metric, part), found in mine.items() if metric == "disk.busy"}
    if link_bytes_s is not None:
        links = _links(mine, link_bytes_s)
        detail |= {name: float(found.mean()) for name, found in links.items()}
        others |= links
    if single_cores and (core := _busiest_core(mine)) is not None:
        name, found = core
        detail[name] = float(found.mean())
        if _told_apart(found, busy):
            others[name] = found
    for name, found in others.items():
        if found.size and float(found.mean()) > float(values.mean()):
            resource, values = name, found
    mean, low, high = mean_interval(values)
    kind = ResourceKind.CPU if values is busy else ResourceKind.OTHER
    return Utilization("host", "host", resource, mean, low, high, detail, kind=kind)


def _links(mine: Mapping[tuple[str, str], Array], capacity: float) -> dict[str, Array]:
    """The busiest interface, by its busier direction: a link is full-duplex. Loopback is none; of several that
    pass on the same bytes (a bridge, a tunnel) none is counted twice."""
    both: dict[str, Array] = {}
    for (metric, part), found in sorted(mine.items()):
        if metric in ("net.receive", "net.send") and part != "lo" and found.size:
            share = found / capacity
            if part not in both or float(share.mean()) > float(both[part].mean()):
                both[part] = share
    most = max(both, key=lambda part: float(both[part].mean()), default=None)
    return {} if most is None else {f"link {most}": both[most]}


def _busiest_core(mine: Mapping[tuple[str, str], Array]) -> tuple[str, Array] | None:
    cores = {
        f"core {part}": found
        for (metric, part), found in mine.items()
        if metric == "cpu.busy" and part and found.size
    }
    name = max(cores, key=lambda core: float(cores[core].mean()), default=None)
    return None if name is None else (name, cores[name])


def _told_apart(core: Array, cpu: Array) -> bool:
    """Whether the interval of a core is above that of all."""
    mean, low, _ = mean_interval(core)
    other, _, high = mean_interval(cpu)
    return (mean if low is None else low) > (other if high is None else high)


SHOWN = (
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
    """Mean with a 95 % interval cut to 0..1: batch means from 10 seconds on, below that t over at least 3 seconds."""
    mean = float(values.mean())
    batched = batch_mean(values)
    if batched is not None:
        low, high = batched.interval.low, batched.interval.high
    elif values.size >= 3:
        half = t_quantile(0.975, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
        low, high = mean - half, mean + half
    else:
        return min(mean, 1.0), None, None
    cut = [None if edge is None else min(1.0, max(0.0, edge)) for edge in (low, high)]
    return min(mean, 1.0), cut[0], cut[1]
