"""Selects the metrics of known exporters, and gives them the names that Plimsoll's own monitors and readers
use.

Node exporter: the metrics of the component `host` in samples.parquet. The name of a core, device or interface
follows after a space. A value that is a share there is a number of seconds here, as counters only increase.
Squid exporter: the names of the cache manager's page `counters`, as of services of kind `squid`.
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
"""The prefixes of the metrics that the exporter reads from the pages `service_times` and `info`."""
_REQUESTS: Final = "client_http.requests"


def is_node_metric(name: str) -> bool:
    """Whether a metric with this name is read from a node exporter."""
    return name in (_CPU, _UNAME) or name in _NODE_COUNTERS or name in _NODE_GAUGES


def node_reading(samples: Sequence[Sample]) -> Reading:
    """Seconds, bytes and counts of a host. Raises ValueError if the page has no CPU times."""
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    for sample in samples:
        if sample.name == _CPU:
            _add_cpu(counters, sample)
        elif sample.name in _NODE_COUNTERS:
            counters[_with_part(_NODE_COUNTERS[sample.name], sample)] = sample.value
        elif sample.name in _NODE_GAUGES:
            gauges[_with_part(_NODE_GAUGES[sample.name], sample)] = sample.value
    if "cpu.all" not in counters:
        raise ValueError(f"the page has no {_CPU}: it is not the page of a node exporter")
    if "memory.total" in gauges and "memory.available" in gauges:
        gauges["memory.used"] = gauges["memory.total"] - gauges["memory.available"]
    # The speed of a link that is down or virtual is -1 or 0.
    gauges = {name: value for name, value in gauges.items() if value > 0 or not name.startswith("net.speed")}
    return Reading({name: value for name, value in counters.items() if not name.endswith(" lo")}, gauges)


def _add_cpu(counters: dict[str, float], sample: Sample) -> None:
    mode, core = sample.labels.get("mode", ""), sample.labels.get("cpu", "")
    busy = 0.0 if mode in IDLE else sample.value
    added = {"cpu.all": sample.value, "cpu.busy": busy, f"cpu.{mode}": sample.value}
    added |= {f"cpu.all {core}": sample.value, f"cpu.busy {core}": busy}
    for name, value in added.items():
        counters[name] = counters.get(name, 0.0) + value


def _with_part(metric: str, sample: Sample) -> str:
    return f"{metric} {sample.labels['device']}" if "device" in sample.labels else metric


def node_version(samples: Sequence[Sample]) -> str:
    """The system, kernel release and name of the host."""
    labels = next((sample.labels for sample in samples if sample.name == _UNAME), {})
    words = [labels.get("sysname", ""), labels.get("release", "")]
    return " ".join(
        word for word in (*words, f"on {labels['nodename']}" if "nodename" in labels else "") if word
    )


def is_squid_metric(name: str) -> bool:
    """Whether a metric with this name is read from a Squid exporter."""
    return (
        _SQUID_COUNTER.fullmatch(name) is not None
        or name in _SQUID_PROCESS
        or name.startswith(_SQUID_PAGES)
        or name == "squid_up"
    )


class SquidPages:
    """Computes the readings of one Squid exporter. For each page, the exporter requests one to three pages of
    the cache manager. These requests are subtracted. Their size is not known, so a few kilobytes per reading
    remain."""

    def __init__(self) -> None:
        self._own_requests = 0
        self._before = 0.0

    def reading(self, samples: Sequence[Sample]) -> Reading:
        """The counters of a Squid. Raises ValueError if the exporter does not reach Squid, or is not a Squid
        exporter."""
        counters: dict[str, float] = {}
        gauges: dict[str, float] = {}
        for sample in samples:
            count = _SQUID_COUNTER.fullmatch(sample.name)
            if count is not None:
                counters[f"{count[1].replace('server_', 'server.')}.{count[2]}"] = sample.value
            elif sample.name in _SQUID_PROCESS:
                (counters if sample.counts else gauges)[_SQUID_PROCESS[sample.name]] = sample.value
        if _REQUESTS not in counters:
            down = any(sample.name == "squid_up" and sample.value == 0 for sample in samples)
            raise ValueError(
                "the exporter cannot reach its Squid (squid_up is 0)"
                if down
                else "the page has no squid_client_http_requests_total: it is not the page of a Squid exporter"
            )
        counters[_REQUESTS] = self._without_own_requests(counters[_REQUESTS], samples)
        return Reading(counters, gauges)

    def _without_own_requests(self, requests: float, samples: Sequence[Sample]) -> float:
        # The exporter requests the page `counters` first, so that page shows the requests of the previous readings.
        if requests < self._before:
            self._own_requests = 0  # Squid was restarted
        self._before = requests
        others = requests - self._own_requests
        self._own_requests += 1 + sum(
            any(sample.name.startswith(page) for sample in samples) for page in _SQUID_PAGES
        )
        return others


def named_reading(samples: Sequence[Sample], is_wanted: Callable[[str], bool]) -> Reading:
    """The metrics that are selected by name, as series with the names that the exporter uses."""
    selected = [sample for sample in samples if is_wanted(sample.name)]
    return Reading(
        {sample.series: sample.value for sample in selected if sample.counts},
        {sample.series: sample.value for sample in selected if not sample.counts},
    )
