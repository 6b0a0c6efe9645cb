"""What is kept of the exporters that we know, by the names that our own monitors and readers use.

Node exporter: the metrics of the component `host` in samples.parquet, a core, device or interface after a space; what
is a share there is a number of seconds here, as it only grows. Squid exporter: the names of the cache manager's page
`counters`, as of services of kind `squid`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.exposition import Sample

IDLE: Final = ("idle", "iowait")
"""Modes in which a core is not busy."""
_NODE_COUNTERS: Final = {
    "node_disk_io_time_seconds_total": "disk.busy",
    "node_disk_read_bytes_total": "disk.read",
    "node_disk_written_bytes_total": "disk.write",
    "node_network_receive_bytes_total": "net.receive",
    "node_network_transmit_bytes_total": "net.send",
    "node_netstat_Tcp_RetransSegs": "net.retransmits",
    "node_context_switches_total": "context_switches",
    "node_pressure_cpu_waiting_seconds_total": "psi.cpu.some",
    "node_pressure_io_waiting_seconds_total": "psi.io.some",
    "node_pressure_io_stalled_seconds_total": "psi.io.full",
    "node_pressure_memory_waiting_seconds_total": "psi.memory.some",
    "node_pressure_memory_stalled_seconds_total": "psi.memory.full",
}
_NODE_GAUGES: Final = {
    "node_load1": "load.1",
    "node_memory_MemTotal_bytes": "memory.total",
    "node_memory_MemAvailable_bytes": "memory.available",
    "node_network_speed_bytes": "net.speed",
}
_CPU: Final = "node_cpu_seconds_total"
_UNAME: Final = "node_uname_info"
_SQUID_COUNTER: Final = re.compile(
    r"squid_(client_http|server_all|server_http|server_ftp|server_other|swap)_"
    r"(requests|hits|errors|kbytes_in|kbytes_out|hit_kbytes_out|ins|outs|files_cleaned)(?:_kbytes|_bytes)?_total"
)
_SQUID_PROCESS: Final = {
    "squid_process_cpu_seconds_total": "process.cpu",
    "squid_process_resident_memory_bytes": "process.memory",
    "squid_process_open_fds": "process.file_descriptors",
}
_SQUID_PAGES: Final = ("squid_HTTP_Requests_All_", "squid_info_")
"""How metrics begin that the exporter makes of the pages `service_times` and `info`."""
_REQUESTS: Final = "client_http.requests"


def node_wants(name: str) -> bool:
    """Whether something is made of this metric of a node exporter."""
    return name in (_CPU, _UNAME) or name in _NODE_COUNTERS or name in _NODE_GAUGES


def node_reading(found: Sequence[Sample]) -> Reading:
    """Seconds, bytes and counts of a host. Raises ValueError where its processor is not told of."""
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    for one in found:
        if one.name == _CPU:
            _add_cpu(counters, one)
        elif one.name in _NODE_COUNTERS:
            counters[_with_part(_NODE_COUNTERS[one.name], one)] = one.value
        elif one.name in _NODE_GAUGES:
            gauges[_with_part(_NODE_GAUGES[one.name], one)] = one.value
    if "cpu.all" not in counters:
        raise ValueError(f"the page has no {_CPU}: it is not the page of a node exporter")
    if "memory.total" in gauges and "memory.available" in gauges:
        gauges["memory.used"] = gauges["memory.total"] - gauges["memory.available"]
    # Of a link that is down, or is virtual, the speed is -1 or 0.
    gauges = {name: value for name, value in gauges.items() if value > 0 or not name.startswith("net.speed")}
    return Reading({name: value for name, value in counters.items() if not name.endswith(" lo")}, gauges)


def _add_cpu(counters: dict[str, float], one: Sample) -> None:
    mode, core = one.labels.get("mode", ""), one.labels.get("cpu", "")
    busy = 0.0 if mode in IDLE else one.value
    added = {"cpu.all": one.value, "cpu.busy": busy, f"cpu.{mode}": one.value}
    added |= {f"cpu.all {core}": one.value, f"cpu.busy {core}": busy}
    for name, value in added.items():
        counters[name] = counters.get(name, 0.0) + value


def _with_part(metric: str, one: Sample) -> str:
    return f"{metric} {one.labels['device']}" if "device" in one.labels else metric


def node_version(found: Sequence[Sample]) -> str:
    """Kernel and name of the host, as it calls itself."""
    told = next((one.labels for one in found if one.name == _UNAME), {})
    words = [told.get("sysname", ""), told.get("release", "")]
    return " ".join(word for word in (*words, f"on {told['nodename']}" if "nodename" in told else "") if word)


def squid_wants(name: str) -> bool:
    """Whether something is made of this metric of a Squid exporter."""
    return (
        _SQUID_COUNTER.fullmatch(name) is not None
        or name in _SQUID_PROCESS
        or name.startswith(_SQUID_PAGES)
        or name == "squid_up"
    )


class SquidPages:
    """Readings of one Squid exporter. Each of its pages is made of one to three of the cache manager's, for which it
    asks Squid; these requests of ours are taken out. Their kilobytes nobody tells: a few a reading stay."""

    def __init__(self) -> None:
        self._asked = 0
        self._before = 0.0

    def reading(self, found: Sequence[Sample]) -> Reading:
        """Counts of a Squid. Raises ValueError where the exporter does not reach it."""
        counters: dict[str, float] = {}
        gauges: dict[str, float] = {}
        for one in found:
            count = _SQUID_COUNTER.fullmatch(one.name)
            if count is not None:
                counters[f"{count[1].replace('server_', 'server.')}.{count[2]}"] = one.value
            elif one.name in _SQUID_PROCESS:
                (counters if one.counts else gauges)[_SQUID_PROCESS[one.name]] = one.value
        if _REQUESTS not in counters:
            down = any(one.name == "squid_up" and one.value == 0 for one in found)
            raise ValueError(
                "the exporter cannot reach its Squid (squid_up is 0)"
                if down
                else "the page has no squid_client_http_requests_total: it is not the page of a Squid exporter"
            )
        counters[_REQUESTS] = self._without_ours(counters[_REQUESTS], found)
        return Reading(counters, gauges)

    def _without_ours(self, requests: float, found: Sequence[Sample]) -> float:
        # `counters` is the first page that it asks for: what it shows are the requests of the pages before.
        if requests < self._before:
            self._asked = 0  # Squid was started anew
        self._before = requests
        others = requests - self._asked
        self._asked += 1 + sum(any(one.name.startswith(page) for one in found) for page in _SQUID_PAGES)
        return others


def named_reading(found: Sequence[Sample], wants: Callable[[str], bool]) -> Reading:
    """Series by the names that the exporter gives them."""
    mine = [one for one in found if wants(one.name)]
    return Reading(
        {one.series: one.value for one in mine if one.counts},
        {one.series: one.value for one in mine if not one.counts},
    )
