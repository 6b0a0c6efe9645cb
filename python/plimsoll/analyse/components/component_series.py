"""Time series of hosts, services and watched components, from the monitors' samples and the readings of counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from plimsoll.analyse.components import kernel_figures as kernel
from plimsoll.analyse.components.binned import Array, bins_of_counter, bins_of_gauge, bins_of_samples
from plimsoll.analyse.components.resources import is_stacked, place
from plimsoll.analyse.components.sessions import by_type
from plimsoll.analyse.components.utilization import sampled_cores
from plimsoll.analyse.results.components.component_series import (
    ComponentKind,
    ComponentSeries,
    RunComponentSeries,
    Values,
)
from plimsoll.analyse.window.quantum import widened_quantum
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import TESTERS, Agent
from plimsoll.collect.watched import WatchedReadings

MAX_BINS: Final = 150
"""Maximum number of bins of an automatic quantum. The steps are at most 2.5 apart, so a longer run has 60 or more."""
MAX_COMPONENTS: Final = 24
"""Maximum number of components of a run with series. A run of very many hosts would have a result of many megabytes."""
NS: Final = 1_000_000_000
QUANTA_S: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
MAX_OTHER_COUNTERS: Final = 4
"""Maximum number of counters of a watched system whose kind declares none."""
_STATES: Final = {
    "cpu_user": ("cpu.user", "cpu.nice"),
    "cpu_system": ("cpu.system", "cpu.irq", "cpu.softirq"),
    "cpu_iowait": ("cpu.iowait",),
    "cpu_steal": ("cpu.steal",),
}
"""The states of the CPU, as sums of the kernel's."""
_QUEUES: Final = {
    "run_queue": (kernel.RUNNABLE,),
    "disk_queue": (kernel.DISK_QUEUE,),
    "listen_queue": (kernel.SERVICE_QUEUE,),
    "listen_drops": (kernel.LISTEN_DROPS, kernel.SERVICE_DROPS),
    "syn_retransmits": (kernel.SYN_RETRANSMITS,),
    "packet_drops": kernel.PACKET_DROPS,
}
"""Queues and events, as sums of the metrics of the samples over their parts. They are left out if they are always 0."""

Bins = Mapping[str, Array]
"""The bins of a component by resource."""


@dataclass(frozen=True, slots=True)
class CounterChoice:
    """The counters of a kind of services that are shown: `request` counts requests or statements (None: none does)."""

    request: str | None = None
    main: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """What is known about the components of a run. `services`: the host of each service by name, empty for the host of
    the lab; `kinds`: kind of each service; `addressed`: services and watched systems to which testers send requests;
    `cores`: of the host of the lab, if its cores were not sampled; `agents`: of a run of several agents (empty: one
    agent)."""

    services: Mapping[str, str]
    kinds: Mapping[str, str]
    addressed: frozenset[str]
    cores: int
    agents: Sequence[Agent] = ()


def automatic_quantum(length_s: float) -> float:
    """The quantum (s): the least of QUANTA_S for at most MAX_BINS bins."""
    fitting = (float(quantum) for quantum in QUANTA_S if length_s <= quantum * MAX_BINS)
    return next(fitting, float(-(-length_s // MAX_BINS)))


def run_component_series(
    samples: Sequence[SampleSeries],
    counted: Iterable[WatchedReadings],
    watched: Iterable[WatchedReadings],
    placement: Placement,
    choice_of: Callable[[str], CounterChoice],
    *,
    length_s: float,
    quantum_s: float | None = None,
    bound_ns: int = 0,
) -> RunComponentSeries | None:
    """The series of all components of a run; None if nothing was measured. `counted`: readings of services;
    `watched`: of exporters; `choice_of`: the counters of a kind; `quantum_s`: None for the automatic one; `bound_ns`:
    maximum error of any time of any agent; the quantum is at least ten times as long."""
    chosen = automatic_quantum(length_s) if quantum_s is None else quantum_s
    quantum_ns = widened_quantum(round(chosen * NS), bound_ns)
    count = max(1, -(-round(length_s * NS) // quantum_ns))
    edges = np.array([at * quantum_ns / NS for at in range(count + 1)], dtype=np.float64)
    found = {component.component: component for component in _sampled(samples, placement, edges)}
    for readings in counted:
        name = readings.name
        counters, request = _counters(readings, choice_of(readings.kind), edges)
        known = found.get(name) or ComponentSeries(name, "service", readings.kind, readings.host, {}, {})
        sessions = _sessions(readings, edges)
        found[name] = replace(known, counters=counters, request_counter=request, sessions=sessions)
    for readings in watched:
        counters, request = _counters(readings, choice_of(readings.kind), edges)
        resources = _watched_resources(readings, edges)
        sessions = _sessions(readings, edges)
        if resources or counters or sessions:
            found[readings.name] = ComponentSeries(
                readings.name,
                "watched",
                readings.kind,
                readings.host,
                _shown(resources),
                counters,
                request,
                sessions=sessions,
            )
    named = [
        replace(component, is_addressed=component.component in placement.addressed)
        for component in found.values()
        if component.resources or component.counters or component.sessions
    ]
    kept = _most_important(named, placement)
    return RunComponentSeries(quantum_ns / NS, count, tuple(kept), len(named) - len(kept)) if kept else None


def _sampled(
    samples: Sequence[SampleSeries], placement: Placement, edges: Array
) -> Iterable[ComponentSeries]:
    """One component per service, watched process and host; the testers of all hosts are one, whose values are sums."""
    bins: dict[str, tuple[ComponentKind, str, Bins]] = {}
    for agent in placement.agents or (None,):
        of_agent = [series for series in samples if agent is None or series.agent == agent.name]
        for component in dict.fromkeys(series.component for series in of_agent):
            located = place(agent, component, placement.services)
            if located is None:
                continue
            name, host = located
            own = [series for series in of_agent if series.component == component]
            if component == "host":
                values = _host_bins(own, sampled_cores(of_agent) or placement.cores, edges)
            else:
                values = _process_bins(own, edges)
            kind: ComponentKind = (
                "host" if component == "host" else "testers" if component == TESTERS else "service"
            )
            if name not in bins:
                bins[name] = kind, host, values
            elif kind == "testers":
                bins[name] = kind, host, _sum(bins[name][2], values)
    for name, (kind, host, values) in bins.items():
        system = placement.kinds.get(name, "") if kind == "service" else ""
        yield ComponentSeries(
            name, "watched" if kind == "service" and not system else kind, system, host, _shown(values), {}
        )


def _host_bins(samples: Iterable[SampleSeries], cores: int, edges: Array) -> Bins:
    """Samples of a host: shares of its CPU become cores, disks are summed, of the network interfaces the one with the
    most bytes counts."""
    parts: dict[str, dict[str, Array]] = {}
    samples = list(samples)
    for series in samples:
        is_disk = series.metric in ("disk.read", "disk.write") and not is_stacked(series.part)
        is_network = series.metric in ("net.receive", "net.send") and series.part != "lo"
        if is_disk or is_network or not series.part:
            bins = bins_of_samples(series.t_s, series.value, edges)
            parts.setdefault(series.metric, {})[series.part] = bins
    whole = {metric: values[""] for metric, values in parts.items() if "" in values}
    out = {name: values * cores for name, values in _states(whole).items()}
    out |= {"cpu": whole["cpu.busy"] * cores} if "cpu.busy" in whole else {}
    out |= {"memory": whole["memory.used"]} if "memory.used" in whole else {}
    return out | _devices(parts) | _queues(samples, edges)


def _queues(samples: Iterable[SampleSeries], edges: Array) -> dict[str, Array]:
    """Queues and events that are not 0 in the whole run."""
    samples = list(samples)
    out: dict[str, Array] = {}
    for name, metrics in _QUEUES.items():
        parts = [
            bins_of_samples(series.t_s, series.value, edges)
            for series in samples
            if series.metric in metrics and not is_stacked(series.part)
        ]
        if any(np.nansum(values) > 0 for values in parts):
            known = np.any([np.isfinite(values) for values in parts], axis=0)
            out[name] = np.where(known, np.nansum(parts, axis=0), np.nan)
    return out


def _devices(parts: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Sums over the disks, and the interface with the most bytes in and out: a bridge forwards the bytes of another."""
    out = {
        name: np.sum(list(disks.values()), axis=0)
        for name, metric in (("disk_read", "disk.read"), ("disk_write", "disk.write"))
        if (disks := parts.get(metric))
    }
    received, sent = parts.get("net.receive", {}), parts.get("net.send", {})
    both = [part for part in received if part in sent]
    busiest = max(
        both, key=lambda part: float(np.nansum(received[part]) + np.nansum(sent[part])), default=None
    )
    if busiest is not None:
        out |= {"network_in": received[busiest], "network_out": sent[busiest]}
    return out


def _process_bins(samples: Iterable[SampleSeries], edges: Array) -> Bins:
    """Samples of a process tree. Testers that spin instead of sleeping do no work in that time, and the kernel does not
    say which of their states it belongs to."""
    samples = list(samples)
    values = {
        series.metric: bins_of_samples(series.t_s, series.value, edges)
        for series in samples
        if not series.part
    }
    named = (
        ("memory", "memory.rss"),
        ("disk_read", "io.read"),
        ("disk_write", "io.write"),
    )
    out = {name: values[metric] for name, metric in named if metric in values}
    out |= _queues(samples, edges)
    spin = values.get("spin")
    if "cpu" not in values:
        return out
    if spin is None or not np.nansum(spin):
        return {"cpu": values["cpu"], **_states(values), **out}
    return {"cpu": np.maximum(values["cpu"] - np.nan_to_num(spin), 0.0), **out}


def _states(values: Mapping[str, Array]) -> dict[str, Array]:
    """Each state of the CPU, if at least its first part is known."""
    return {
        name: np.sum([values[part] for part in parts if part in values], axis=0)
        for name, parts in _STATES.items()
        if parts[0] in values
    }


def _sum(first: Bins, second: Bins) -> Bins:
    """Sums of what both have; in a bin in which only one was measured, its value."""
    out = {}
    for name in (name for name in first if name in second):
        both = np.nan_to_num(first[name]) + np.nan_to_num(second[name])
        out[name] = np.where(np.isnan(first[name]) & np.isnan(second[name]), np.nan, both)
    return out


def _watched_resources(readings: WatchedReadings, edges: Array) -> Bins:
    """The resources of a host (node exporter), and of a Squid whose exporter reports them."""

    def rates(name: str) -> Array:
        return bins_of_counter(readings.t_s, readings.values[name], edges)

    out: dict[str, Array] = {}
    if readings.kind == "node":
        states = (metric for metrics in _STATES.values() for metric in metrics)
        out |= _states({metric: rates(metric) for metric in states if metric in readings.values})
        parts: dict[str, dict[str, Array]] = {}
        for name in readings.values:
            metric, _, device = name.partition(" ")
            if device and metric.startswith(("disk.", "net.")):
                parts.setdefault(metric, {})[device] = rates(name)
        out |= _devices(parts)
    prefix = "process." if readings.kind == "squid" else ""
    cpu, memory = f"{prefix}cpu" if prefix else "cpu.busy", f"{prefix}memory" if prefix else "memory.used"
    if readings.kind in ("node", "squid") and cpu in readings.values:
        out["cpu"] = rates(cpu)
    if readings.kind in ("node", "squid") and memory in readings.values:
        out["memory"] = bins_of_gauge(readings.t_s, readings.values[memory], edges)
    return out


def _counters(
    readings: WatchedReadings, choice: CounterChoice, edges: Array
) -> tuple[dict[str, Values], str | None]:
    """The main counters, and the one of them that counts requests. Of a system whose kind declares none: the first that
    were selected by name."""
    names = choice.main
    if not names and readings.kind == "other":
        names = tuple(name for name in readings.values if name not in readings.gauges)[:MAX_OTHER_COUNTERS]
    known = [name for name in names if name in readings.values]
    bins = {name: bins_of_counter(readings.t_s, readings.values[name], edges) for name in known}
    shown = _shown(bins)
    return shown, choice.request if choice.request in shown else None


def _sessions(readings: WatchedReadings, edges: Array) -> dict[str, Values]:
    """The active sessions of a database by type of wait."""
    return _shown(
        {kind: bins_of_gauge(readings.t_s, values, edges) for kind, values in by_type(readings).items()}
    )


def _shown(bins: Bins) -> dict[str, Values]:
    """The bins with four significant digits, without those that are unknown in the whole run."""
    return {
        name: tuple(float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist())
        for name, values in bins.items()
        if np.isfinite(values).any()
    }


def _most_important(components: Sequence[ComponentSeries], placement: Placement) -> list[ComponentSeries]:
    """Services in the order of the run, watched systems, the host of the lab, hosts of the target, testers; then hosts
    that have only testers, the busiest first. At most MAX_COMPONENTS."""
    with_testers = {
        agent.host for agent in placement.agents if agent.role == TESTERS and not agent.clock.same
    }
    services = list(placement.services)

    def rank(component: ComponentSeries) -> tuple[float, ...]:
        if component.kind == "service":
            name = component.component
            return 0, services.index(name) if name in services else len(services)
        if component.kind == "watched":
            return (1,)
        if component.kind == "testers":
            return (4,)
        if component.component in with_testers:
            known = [value for value in component.resources.get("cpu", ()) if value is not None]
            return 5, -sum(known) / max(1, len(known))
        return (2,) if not component.host else (3,)

    return sorted(components, key=rank)[:MAX_COMPONENTS]
