"""Queues and events that the kernel of a host counts, a part of the result of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelFigures:
    """Events and queues that the kernel of a host counts, as means of the window; of a service those of its listening
    sockets. None: not measured."""

    listen_overflows: float | None = None
    """Of a host, per second: connections that found the accept queue of a listening socket full."""
    listen_drops: float | None = None
    """Per second: requests for a connection that were dropped, for this and any other reason."""
    listen_queue: float | None = None
    """Of a service: connections that wait to be accepted, at the port with most of them."""
    syn_retransmits: float | None = None
    """Of a host, per second: SYN and SYN+ACK segments that were repeated."""
    packet_drops: float | None = None
    """Of a host, packets per second: dropped by its interfaces, and because the queue of a core was full."""
    sockets: float | None = None
    """Of a host: TCP sockets, those in TIME-WAIT included."""
    ports: float | None = None
    """Of a host: greatest share of the local ports that was in use toward one address, 0 to 1."""
    run_queue: float | None = None
    """Of a host: tasks that run or wait for a core."""
    disk_iops: float | None = None
    """Of a host: requests per second of all its disks."""
    disk_wait_ms: float | None = None
    """Of a host: mean time of a request of the disk with the longest queue."""
    disk_queue: float | None = None
    """Of a host: mean number of requests in progress at this disk."""
    outside_cpu: float | None = None
    """Of a host with services or watched processes: share of its CPU that processes outside the experiment used, 0 to
    1."""
