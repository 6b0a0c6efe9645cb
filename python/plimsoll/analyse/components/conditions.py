"""Conditions of hosts and services that can explain slow or failed transactions.

A counted event in the window is a fact and needs no test. The other conditions have a threshold, and the lower end of
the interval of the mean must be above a bound, so that one burst in a short run is not reported. docs/methods.md lists
the rates of false reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from plimsoll.analyse.components import kernel_figures as kernel
from plimsoll.analyse.components.cpu_series import LAB, HostCpu
from plimsoll.analyse.components.kernel_figures import WindowSamples
from plimsoll.analyse.components.outside import outside_shares
from plimsoll.analyse.components.resources import is_stacked, place
from plimsoll.analyse.components.utilization import mean_bounds, sampled_cores
from plimsoll.analyse.components.watched.testbed import late_packets
from plimsoll.analyse.components.worker_pools import WorkerReadings, full_workers
from plimsoll.analyse.results.components.conditions import Condition, ConditionKind
from plimsoll.analyse.results.run import Traffic
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import Value
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import TESTERS, Agent
from plimsoll.collect.watched import WatchedReadings
from plimsoll.plan.model.cell import EMULATOR

PORTS: Final = 0.8
"""Share of the local ports in use toward one address, in any reading, from which on it is reported."""
WAITING_PORTS: Final = 0.5
"""Share of the local ports in TIME-WAIT. Linux first looks for the port of a listening socket among the odd ones: from
half of the ports on, it reads all odd ones before it finds a free even one."""
MIN_DROPS: Final = 10
DROP_SHARE: Final = 1e-4
"""Packets that an interface drops are reported from this number and this share of its packets on: the kernel also
counts packets of protocols that no process of the host uses."""
MAIN_INTERFACE: Final = 0.1
"""Interfaces with a smaller share of the packets of the host are left out."""
DISK_WAIT_S: Final = 0.02
"""Mean time of a request; a random access of a hard disk takes about 0.01 s."""
MIN_IOPS: Final = 10.0
"""A disk with fewer requests per second is hardly used."""
BUSY_DISK: Final = 0.9
"""From this share on, the utilization of the disk is the explanation."""
IO_PRESSURE: Final = 0.1
"""Share of the time in which some task waited for I/O. Below it, hardly any process waits for the disk."""
OUTSIDE: Final = 0.1
MIN_OUTSIDE: Final = 0.05
"""Mean share of the CPU of a host that processes outside the experiment used, and the lower end of its interval."""
MIN_LATE: Final = 10
LATE_SHARE: Final = 0.01
"""Packets that emulated links deliver more than 1 ms late are reported from this number and this share on: fewer hardly
change a mean or a median."""
NO_PORT: Final = "no free local port"
NOT_CONNECTED: Final = ("timeout connect", "no answer to connect")
"""Codes of failed transactions, as the engine reports them."""


@dataclass(frozen=True, slots=True)
class _Host:
    """A host with its monitor. `name`: its component; `cores`: None if they were not sampled; `services`: the samples
    of each service and watched process, by component."""

    name: str
    host: str
    samples: WindowSamples
    cores: int | None
    services: Mapping[str, WindowSamples]
    only_testers: bool

    def condition(
        self, kind: ConditionKind, severity: float, values: dict[str, Value], component: str = ""
    ) -> Condition:
        """A condition of this host, or of a service on it."""
        return Condition(kind, component or self.name, self.host, severity, values, rule(RuleName.CONDITIONS))


def run_conditions(
    samples: Sequence[SampleSeries],
    agents: Sequence[Agent],
    window: Window,
    services: Mapping[str, str],
    cpu: Sequence[HostCpu],
    traffic: Traffic,
    slow_connects: Callable[[], int | None],
    *,
    one_machine: bool = False,
    watched: Sequence[WatchedReadings] = (),
    workers: Sequence[WorkerReadings] = (),
) -> tuple[Condition, ...]:
    """The conditions in the window, in the order of their kinds. `agents`: of a run of several (empty: one);
    `services`: as for `place`; `slow_connects`: number of connections of the window that took 1 s or longer, None if
    it is not known. `one_machine`: the hosts are those of a testbed and share cores and disks: conditions of these are
    those of the host of the lab. `watched`: readings of watched systems, among them the links of a testbed;
    `workers`: those of the services.
    """
    found: list[Condition] = []
    for host in _hosts(samples, agents, window, services):
        found += _listen_queues(host, traffic, slow_connects)
        found += filter(None, (_ports(host, traffic), _waiting_ports(host), _packets(host)))
        if not (one_machine and host.host):
            found += filter(None, (_disk(host), _run_queue(host)))
    outside = [condition for condition in map(_outside, cpu) if condition is not None]
    found += [replace(one, component=LAB, host="") for one in outside[:1]] if one_machine else outside
    found += full_workers(workers, window)
    found += filter(None, (_late_packets(watched, window),))
    order = list(ConditionKind)
    # Several agents of one host have the same samples.
    unique = {(entry.kind, entry.component): entry for entry in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda entry: (order.index(entry.kind), -entry.severity)))


def _hosts(
    samples: Sequence[SampleSeries], agents: Sequence[Agent], window: Window, services: Mapping[str, str]
) -> Iterator[_Host]:
    for agent in agents or (None,):
        own = [series for series in samples if agent is None or series.agent == agent.name]
        located = place(agent, "host", services)
        if located is None:
            continue
        listening = {}
        for component in dict.fromkeys(series.component for series in own):
            part = place(agent, component, services)
            if component.startswith("service:") and part is not None:
                values = (series for series in own if series.component == component)
                listening[part[0]] = WindowSamples(values, window)
        yield _Host(
            name=located[0],
            host=located[1],
            samples=WindowSamples((series for series in own if series.component == "host"), window),
            cores=sampled_cores(own),
            services=listening,
            only_testers=agent is not None and agent.role == TESTERS and not agent.clock.same,
        )


def _listen_queues(
    host: _Host, traffic: Traffic, slow_connects: Callable[[], int | None]
) -> Iterator[Condition]:
    """One condition for each service that dropped requests for a connection. Those that the host counts may belong to
    other traffic: they are reported only if no service on it dropped any, and connections of testers were slow or
    failed."""
    overflows = host.samples.total(kernel.LISTEN_OVERFLOWS) or 0.0
    is_explained = False
    for name, samples in host.services.items():
        drops = samples.parts(kernel.SERVICE_DROPS)
        port = max(drops, key=lambda part: float(drops[part].sum()), default="")
        number = kernel.dropped_requests(samples, host.samples)
        if number <= 0:
            continue
        is_explained = True
        queue, backlog = (
            float(samples.parts(metric)[port].max())
            for metric in (kernel.SERVICE_QUEUE, kernel.SERVICE_BACKLOG)
        )
        values: dict[str, Value] = {
            "drops": number,
            "port": port,
            "queue": queue,
            "backlog": backlog,
            "overflowed": overflows >= number or queue >= backlog,
        }
        values |= _connects(traffic, slow_connects)
        yield host.condition(ConditionKind.LISTEN_QUEUE, number, values, name)
    number = host.samples.total(kernel.LISTEN_DROPS) or 0.0
    if number > 0 and not is_explained and not host.only_testers:
        connects = _connects(traffic, slow_connects)
        if connects["slow"] or connects["failed"]:
            values = {"drops": number, "overflowed": overflows > 0, **connects}
            yield host.condition(ConditionKind.LISTEN_QUEUE, number, values)


def _connects(traffic: Traffic, slow_connects: Callable[[], int | None]) -> dict[str, Value]:
    return {"slow": slow_connects(), "failed": _failed(traffic, *NOT_CONNECTED)}


def _failed(traffic: Traffic, *codes: str) -> int:
    return sum(error.count for error in traffic.errors_by_kind if error.code in codes)


def _ports(host: _Host, traffic: Traffic) -> Condition | None:
    used = host.samples.whole(kernel.PORTS)
    if used is None or float(used.max()) < PORTS:
        return None
    values: dict[str, Value] = {"used": float(used.max()), "failed": _failed(traffic, NO_PORT)}
    return host.condition(ConditionKind.PORTS, float(used.max()), values)


def _waiting_ports(host: _Host) -> Condition | None:
    waiting = host.samples.whole(kernel.WAITING_PORTS)
    if waiting is None or float(waiting.max()) < WAITING_PORTS:
        return None
    share = float(waiting.max())
    return host.condition(ConditionKind.WAITING_PORTS, share, {"waiting": share})


def _packets(host: _Host) -> Condition | None:
    full = host.samples.total(kernel.SOFTNET_DROPS) or 0.0
    values: dict[str, Value] = {"softnet": full} if full else {}
    for name, part, number in _interface_drops(host.samples):
        values |= {name: number, f"{name}_interface": part}
    severity = sum(value for value in values.values() if isinstance(value, float))
    return host.condition(ConditionKind.PACKETS, severity, values) if severity else None


def _interface_drops(samples: WindowSamples) -> Iterator[tuple[str, str, float]]:
    """Direction, interface and number of the dropped packets, of the interface that dropped most."""
    for direction, word in (("receive", "received"), ("send", "sent")):
        packets = {
            part: float(values.sum())
            for part, values in samples.parts(f"net.{direction}_packets").items()
            if part != "lo"
        }
        drops = {
            part: float(samples.parts(f"net.{direction}_drops")[part].sum())
            for part, number in packets.items()
            if number >= MAIN_INTERFACE * sum(packets.values())
        }
        part = max(drops, key=lambda part: drops[part], default="")
        if part and drops[part] >= max(MIN_DROPS, DROP_SHARE * packets[part]):
            yield word, part, drops[part]


def _disk(host: _Host) -> Condition | None:
    """The disk with the longest queue, if its requests take long although it is not busy all the time."""
    disk = host.samples.busiest_disk(is_stacked)
    wait = None if disk is None else host.samples.disk_wait_s(disk)
    if disk is None or wait is None:
        return None
    busy = host.samples.parts("disk.busy")[disk].mean()
    iops = host.samples.parts(kernel.DISK_IOPS)[disk].mean()
    pressure = host.samples.mean("psi.io.some")
    _, low, _ = mean_bounds(host.samples.parts(kernel.DISK_WAIT)[disk])
    is_slow = wait >= DISK_WAIT_S and low is not None and low >= DISK_WAIT_S / 2
    if (
        not is_slow
        or busy >= BUSY_DISK
        or iops < MIN_IOPS
        or (pressure is not None and pressure < IO_PRESSURE)
    ):
        return None
    values: dict[str, Value] = {
        "disk": disk,
        "wait_s": wait,
        "busy": float(busy),
        "iops": float(iops),
        "queue": float(host.samples.parts(kernel.DISK_QUEUE)[disk].mean()),
        "pressure": pressure,
    }
    return host.condition(ConditionKind.DISK, wait, values)


def _run_queue(host: _Host) -> Condition | None:
    tasks = host.samples.whole(kernel.RUNNABLE)
    if tasks is None or host.cores is None:
        return None
    mean, low, high = mean_bounds(tasks)
    if low is None or low <= host.cores:
        return None
    values: dict[str, Value] = {"tasks": mean, "low": low, "high": high, "cores": host.cores}
    return host.condition(ConditionKind.RUN_QUEUE, mean / host.cores, values)


def _outside(host: HostCpu) -> Condition | None:
    shares = outside_shares(host)
    if shares is None:
        return None
    mean, low, high = mean_bounds(np.asarray(shares))
    if mean < OUTSIDE or low is None or low < MIN_OUTSIDE:
        return None
    values: dict[str, Value] = {"share": mean, "low": low, "high": high}
    return Condition(
        ConditionKind.OUTSIDE, host.component, host.host, mean, values, rule(RuleName.CONDITIONS)
    )


def _late_packets(watched: Sequence[WatchedReadings], window: Window) -> Condition | None:
    late, delivered = late_packets(watched, window) or (0.0, 0.0)
    if late < max(MIN_LATE, LATE_SHARE * delivered):
        return None
    values: dict[str, Value] = {"late": late, "delivered": delivered}
    return Condition(
        ConditionKind.LATE_PACKETS, EMULATOR, "", late / delivered, values, rule(RuleName.CONDITIONS)
    )
