"""Ports of loopback."""

from __future__ import annotations

import socket
from dataclasses import dataclass


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of 127.0.0.1 (TCP where nothing else is asked for) that nobody listens on now. Another process may take it
    before its user does; the service then fails to start and says so."""
    with socket.socket(type=kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class CachePorts:
    """Of a cache: as a forward proxy (which its peers use too), as a reverse proxy, and for questions of siblings.

    `address`: of loopback, of its own: a Squid takes a question from its own address for an echo, whatever the port.
    """

    address: str
    forward: int
    reverse: int
    icp: int


class PortBook:
    """Ports given to caches before they run: siblings name each other's, so one is asked for before it is started."""

    def __init__(self) -> None:
        self._given: dict[str, CachePorts] = {}
        self._number = 0

    def of(self, name: str) -> CachePorts:
        """The ports of a cache, the same as long as the book: a gateway that tells it of changes knows them too."""
        if name not in self._given:
            taken = {port for one in self._given.values() for port in (one.forward, one.reverse)}
            forward = _other(taken)
            reverse = _other(taken | {forward})
            self._number += 1
            address = f"127.0.0.{2 + self._number % 250}"
            self._given[name] = CachePorts(address, forward, reverse, free_port(socket.SOCK_DGRAM))
        return self._given[name]


def _other(taken: set[int]) -> int:
    while (port := free_port()) in taken:
        pass
    return port
