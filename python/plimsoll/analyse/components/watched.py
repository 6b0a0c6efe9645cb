"""Readings of exporters of existing systems: utilization of hosts and processes, and missing readings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.utilization import mean_interval
from plimsoll.analyse.results.run import Utilization
from plimsoll.analyse.results.verdicts import ResourceKind
from plimsoll.analyse.results.wording import number
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings

Array = NDArray[np.float64]
Busy = tuple[float, float | None, float | None]
"""Mean and its interval."""
_RATES: Final = (
    *("cpu.user", "cpu.system", "cpu.iowait", "cpu.softirq", "cpu.steal"),
    *("psi.cpu.some", "psi.io.some", "psi.memory.some"),
)
_OF_DEVICES: Final = ("disk.read ", "disk.write ", "disk.busy ", "net.receive ", "net.send ")


def watched_utilizations(found: Iterable[WatchedReadings], window: Window) -> tuple[Utilization, ...]:
    """One entry for each host (node exporter), and for each Squid whose exporter reports its CPU time.

    Between two readings counters have an exact mean; an interval counts if its middle is in the window, weighted by its
    length. The binding resource of a host is the busiest of CPU, disks, those links whose speed is reported, and the
    core that is busiest over the whole window, if its interval is above that of the CPU.
    """
    out: list[Utilization | None] = []
    for one in found:
        steps = _Steps(one, window)
        if not steps.width.size:
            continue
        match one.kind:
            case "node":
                out.append(_host(one, steps))
            case "squid":
                out.append(_process(one, steps))
    return tuple(each for each in out if each is not None)


class _Steps:
    """Increase of counters between readings in the window. A counter that fell was reset: it grew by its new value."""

    def __init__(self, readings: WatchedReadings, window: Window) -> None:
        self._values = readings.values
        t = readings.t_s
        middle = (t[1:] + t[:-1]) / 2
        self._in = (middle >= window.start / 1e9) & (middle < window.end / 1e9) & (np.diff(t) > 0)
        self.width = np.diff(t)[self._in]

    def names(self, prefix: str) -> list[str]:
        return [name for name in self._values if name.startswith(prefix)]

    def grown(self, name: str) -> Array:
        value = self._values.get(name)
        if value is None:
            return np.full(self.width.size, np.nan)
        step = np.diff(value)
        grown: Array = np.where(step < 0, value[1:], step)[self._in]
        return grown

    def gauge(self, name: str) -> float | None:
        """Its mean over the ends of the intervals."""
        value = self._values.get(name)
        ends = np.zeros(0) if value is None else value[1:][self._in]
        ends = ends[np.isfinite(ends)]
        return float(ends.mean()) if ends.size else None

    def share(self, name: str, of: Array) -> Array:
        """Growth relative to that of something else; NaN where one of the two is not known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Array = self.grown(name) / np.where(of > 0, of, np.nan)
        return found

    def mean(self, values: Array) -> float | None:
        known = np.isfinite(values)
        return float(np.average(values[known], weights=self.width[known])) if known.any() else None

    def utilization(self, values: Array) -> Busy:
        """Mean and interval. With a gap in the readings there is none, because one value then covers several
        intervals."""
        known = np.isfinite(values)
        width = self.width[known]
        mean = min(1.0, float(np.average(values[known], weights=width)))
        usual = float(np.median(width))
        if width.max() > 1.5 * usual:
            return mean, None, None
        # The last reading of a run comes early: its interval may be too short to be like the others.
        _, low, high = mean_interval(values[known][width > usual / 2])
        return mean, None if low is None else min(low, mean), None if high is None else max(high, mean)


def _host(one: WatchedReadings, steps: _Steps) -> Utilization | None:
    everything = steps.grown("cpu.all")
    busy = steps.share("cpu.busy", everything)
    resources: dict[str, Array] = {"cpu": busy}
    for name in steps.names("cpu.busy "):
        core = name.removeprefix("cpu.busy ")
        resources[f"core {core}"] = steps.share(name, steps.grown(f"cpu.all {core}"))
    for name in steps.names("disk.busy "):
        resources[name.replace("disk.busy", "disk")] = steps.share(name, steps.width)
    resources |= _links(steps)
    # As in `utilization`: a share of 1 that was divided may be a little more
    means = {
        name: min(1.0, mean) for name, values in resources.items() if (mean := steps.mean(values)) is not None
    }
    if not means:
        return None
    found = {name: steps.utilization(resources[name]) for name in means}
    cpu = found.get("cpu", (0.0, None, None))
    binding = {
        name: each for name, each in found.items() if not name.startswith("core ") or _above(each, cpu)
    }
    first = max(binding, key=lambda name: binding[name][0])
    detail = _detail(means, everything, steps)
    kind = ResourceKind.CPU if first == "cpu" else ResourceKind.OTHER
    return Utilization(one.name, "host", first, *found[first], detail, one.host, kind)


def _above(one: Busy, other: Busy) -> bool:
    """The mean replaces the interval where there is none."""
    low = one[0] if one[1] is None else one[1]
    return low > (other[0] if other[2] is None else other[2])


def _detail(means: Mapping[str, float], everything: Array, steps: _Steps) -> dict[str, float]:
    """What else was seen of a host, by the names of our own monitor; of its cores only the busiest, of its devices
    those that did something."""
    cores = sorted((name for name in means if name.startswith("core ")), key=lambda name: means[name])
    kept = [*cores[-1:], *(name for name in means if name.startswith("link "))]
    found: dict[str, float | None] = {"cpu.busy": means.get("cpu"), **{name: means[name] for name in kept}}
    for name in _RATES:
        of = everything if name.startswith("cpu.") else steps.width
        found[name] = steps.mean(steps.share(name, of))
    for name in (name for prefix in _OF_DEVICES for name in steps.names(prefix)):
        found[name] = steps.mean(steps.share(name, steps.width)) or None
    found |= {name: steps.gauge(name) for name in ("memory.used", "memory.available", "load.1")}
    return {name: value for name, value in found.items() if value is not None}


def _links(steps: _Steps) -> dict[str, Array]:
    """The busier direction of each link whose speed is reported: a link is full-duplex."""
    found = {}
    for name in steps.names("net.speed "):
        device, speed = name.removeprefix("net.speed "), steps.gauge(name)
        if speed:
            both = [
                steps.share(f"{way} {device}", steps.width * speed) for way in ("net.receive", "net.send")
            ]
            found[f"link {device}"] = max(both, key=lambda values: steps.mean(values) or 0.0)
    return found


def _process(one: WatchedReadings, steps: _Steps) -> Utilization | None:
    """A Squid by its CPU time: it has one busy thread, which is full at one core. None where it used none at all: then
    the exporter's pid file names the master process, which only waits for the one that works."""
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
        one.name, "service", "cpu of its process", *steps.utilization(cpu), detail, one.host, kind
    )


def watch_notes(told: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a reader of a run must know of its readings."""
    notes = []
    for one in told:
        name, gaps = one["name"], one.get("gaps", ())
        if "counters" not in one:
            notes.append(f"{name} could not be read during the run{_why(gaps)}")
            continue
        for gap in gaps:
            notes.append(
                f"no reading of {name} from {_second(gap['from_s'])} to {_second(gap['to_s'])}{_why([gap])}"
            )
        notes += [
            f"{name} reset its counters before {_second(at)}: what it counted after its last reading is unknown"
            for at in one.get("anew_s", ())
        ]
    return tuple(notes)


def host_notes(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What a reader of a run must know of the hosts and processes of its targets."""
    missing = [
        f"{one['name']} is not watched: {one['missing']}"
        for one in record.get("watched_hosts", ())
        if one.get("missing")
    ]
    told = [f"at {_second(one['t_s'])}: {one['text']}" for one in record.get("watch_events", ())]
    return (*missing, *told)


def _second(value: float) -> str:
    return f"{number(max(0.0, value))} s"


def _why(gaps: Sequence[Mapping[str, Any]]) -> str:
    return f" ({gaps[0]['why']})" if gaps else ""
