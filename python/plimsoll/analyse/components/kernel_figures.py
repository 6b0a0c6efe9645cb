"""Events and queues of hosts and of listening services in a window, from the monitors' samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.utilization import in_window
from plimsoll.analyse.results.components.kernel import KernelFigures
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.samples import SampleSeries

Array = NDArray[np.float64]
LISTEN_OVERFLOWS: Final = "tcp.listen_overflows"
LISTEN_DROPS: Final = "tcp.listen_drops"
SYN_RETRANSMITS: Final = "tcp.syn_retransmits"
SERVICE_DROPS: Final = "listen.drops"
SERVICE_QUEUE: Final = "listen.queue"
SERVICE_BACKLOG: Final = "listen.backlog"
SOFTNET_DROPS: Final = "net.softnet_drops"
PACKET_DROPS: Final = (SOFTNET_DROPS, "net.receive_drops", "net.send_drops")
PORTS: Final = "ports.used"
WAITING_PORTS: Final = "ports.waiting"
RUNNABLE: Final = "cpu.runnable"
DISK_IOPS: Final = "disk.iops"
DISK_WAIT: Final = "disk.wait"
DISK_QUEUE: Final = "disk.queue"


class WindowSamples:
    """The samples of one component in a window, by metric and part."""

    def __init__(self, samples: Iterable[SampleSeries], window: Window) -> None:
        self._values: dict[str, dict[str, Array]] = {}
        for series in samples:
            values = in_window(series, window)
            if values.size:
                self._values.setdefault(series.metric, {})[series.part] = values

    def parts(self, metric: str) -> Mapping[str, Array]:
        """The values of a metric by part; empty if it was not sampled."""
        return self._values.get(metric, {})

    def whole(self, metric: str) -> Array | None:
        """The values of the whole component."""
        return self.parts(metric).get("")

    def total(self, *metrics: str) -> float | None:
        """Number of events of all parts in the window; None if they were not counted."""
        found = [values for metric in metrics for values in self.parts(metric).values()]
        return float(sum(values.sum() for values in found)) if found else None

    def rate(self, *metrics: str) -> float | None:
        """The same per sample, which covers a second."""
        total = self.total(*metrics)
        sizes = (values.size for metric in metrics for values in self.parts(metric).values())
        return None if total is None else total / max(sizes)

    def mean(self, metric: str) -> float | None:
        """Mean of the whole component."""
        values = self.whole(metric)
        return None if values is None else float(values.mean())

    def busiest_disk(self, is_stacked: Callable[[str], bool]) -> str | None:
        """The disk with the greatest mean queue; `is_stacked`: whether its requests are also those of another one."""
        queues = self.parts(DISK_QUEUE)
        disks = (disk for disk in queues if not is_stacked(disk))
        return max(disks, key=lambda disk: float(queues[disk].mean()), default=None)

    def disk_wait_s(self, disk: str) -> float | None:
        """Mean time of a request of a disk, s; None without requests. Only seconds with a completed request have a
        wait, and count by the number of requests."""
        waits, rates = self.parts(DISK_WAIT).get(disk), self.parts(DISK_IOPS).get(disk)
        if waits is None or rates is None:
            return None
        weights = rates[rates > 0]
        return float(np.average(waits, weights=weights)) if weights.size == waits.size else None


def figures_of_host(samples: WindowSamples, is_stacked: Callable[[str], bool]) -> KernelFigures:
    """The figures of a host. `is_stacked`: as for `WindowSamples.busiest_disk`."""
    ports = samples.whole(PORTS)
    disk = samples.busiest_disk(is_stacked)
    wait = samples.disk_wait_s(disk) if disk is not None else None
    rates = [values.mean() for disk, values in samples.parts(DISK_IOPS).items() if not is_stacked(disk)]
    return KernelFigures(
        listen_overflows=samples.rate(LISTEN_OVERFLOWS),
        listen_drops=samples.rate(LISTEN_DROPS),
        syn_retransmits=samples.rate(SYN_RETRANSMITS),
        packet_drops=samples.rate(*PACKET_DROPS),
        sockets=samples.mean("sockets"),
        ports=None if ports is None else float(ports.max()),
        run_queue=samples.mean(RUNNABLE),
        disk_iops=float(sum(rates)) if rates else None,
        disk_wait_ms=None if wait is None else wait * 1e3,
        disk_queue=None if disk is None else float(samples.parts(DISK_QUEUE)[disk].mean()),
    )


def dropped_requests(samples: WindowSamples, host: WindowSamples) -> float:
    """Number of requests for a connection that a service on a host dropped. The counter of a listening socket also
    contains segments of connections that have ended, such as an RST, which Linux discards there. The counter of the
    host contains only requests, those of other services as well: it is the upper limit."""
    return _at_most(samples.total(SERVICE_DROPS) or 0.0, host.total(LISTEN_DROPS))


def _at_most(number: float, limit: float | None) -> float:
    return number if limit is None else min(number, limit)


def figures_of_service(samples: WindowSamples, host: WindowSamples) -> KernelFigures | None:
    """The figures of the listening sockets of a service on a host; None if it has none."""
    queues = samples.parts(SERVICE_QUEUE)
    if not queues:
        return None
    rate = samples.rate(SERVICE_DROPS)
    return KernelFigures(
        listen_drops=None if rate is None else _at_most(rate, host.rate(LISTEN_DROPS)),
        listen_queue=max(float(values.mean()) for values in queues.values()),
    )
