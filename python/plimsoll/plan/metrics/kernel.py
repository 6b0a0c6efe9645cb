"""The rows of the table of metrics for queues and events that the kernel of a host counts."""

from __future__ import annotations

from typing import Final

from plimsoll.plan.metrics.table import Kind, Metric, Source, Value

_KERNEL: Final = (
    (
        "listen_overflows",
        "listen-queue overflows of {component}",
        Kind.RATE,
        "listen_overflows",
        "/s",
        "connections that found the accept queue of a listening socket full; of hosts only",
    ),
    (
        "listen_drops",
        "requests for a connection that {component} dropped",
        Kind.RATE,
        "listen_drops",
        "/s",
        "SYN, or last segment of a handshake; of a service at its own listening sockets",
    ),
    (
        "listen_queue",
        "listen queue of {component}",
        Kind.COUNT,
        "listen_queue",
        "connections",
        "connections that wait to be accepted, at the port with most of them; of services only",
    ),
    (
        "syn_retransmits",
        "SYN segments that {component} repeated",
        Kind.RATE,
        "syn_retransmits",
        "/s",
        "SYN+ACK included; of hosts only",
    ),
    (
        "packet_drops",
        "packets that {component} dropped",
        Kind.RATE,
        "packet_drops",
        "packets/s",
        "at interfaces, and at the queues of the cores; of hosts only",
    ),
    (
        "sockets",
        "TCP sockets of {component}",
        Kind.COUNT,
        "sockets",
        "sockets",
        "IPv4 and IPv6, those in TIME-WAIT included; of hosts only",
    ),
    (
        "ports",
        "local ports in use on {component}",
        Kind.SHARE,
        "ports",
        "",
        "greatest share of the range toward one address; of hosts only",
    ),
    (
        "run_queue",
        "run queue of {component}",
        Kind.COUNT,
        "run_queue",
        "tasks",
        "tasks that run or wait for a core; of hosts only",
    ),
    (
        "disk_iops",
        "disk requests of {component}",
        Kind.RATE,
        "disk_iops",
        "requests/s",
        "requests completed, of all disks; of hosts only",
    ),
    (
        "disk_wait",
        "disk wait of {component}",
        Kind.TIME,
        "disk_wait_ms",
        "",
        "mean time of a request of the disk with the longest queue; of hosts only",
    ),
    (
        "disk_queue",
        "disk queue of {component}",
        Kind.COUNT,
        "disk_queue",
        "requests",
        "requests in progress at the disk with the longest queue; of hosts only",
    ),
    (
        "outside_cpu",
        "CPU of {component} that other processes used",
        Kind.SHARE,
        "outside_cpu",
        "",
        "processes outside the experiment; of hosts with services or watched processes",
    ),
)
"""Name, title, kind, field of `KernelFigures`, unit and note of each figure that a kernel counts."""

KERNEL_METRICS: Final = tuple(
    Metric(
        f"{name}.{{component}}",
        title,
        kind,
        Value(f"components[component={{component}}].kernel.{field}"),
        Source.SAMPLES,
        unit=unit,
        note=note,
        rules=None if kind == Kind.RATE else ("avg",),
    )
    for name, title, kind, field, unit, note in _KERNEL
)
