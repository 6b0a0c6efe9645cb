"""Ports of this host: of loopback, unless testers run elsewhere."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

from plimsoll.errors import BadInput, Problem

LOOPBACK: Final = "127.0.0.1"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM, address: str = LOOPBACK) -> int:
    """A port of an address of this host (TCP where nothing else is asked for) that nobody listens on now.

    Another process may take it before its user does; the service then fails to start and says so. Raises BadInput where
    the address is not of this host.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            said = f"services cannot listen on {address}: {error.strerror}"
            raise BadInput([Problem(said, "hosts.controller.address")]) from error
        return int(probe.getsockname()[1])


def numeric(host: str) -> str:
    """The address of a name of this host: servers listen on addresses. Raises BadInput."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        said = f"the name {host} cannot be resolved: {error.strerror}"
        raise BadInput([Problem(said, "hosts.controller.address")]) from error
    return str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])


def netloc(address: str, port: int) -> str:
    """Address and port as in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@dataclass(frozen=True, slots=True)
class CachePorts:
    """Of a cache: as a forward proxy (which its peers use too), as a reverse proxy, and for questions of siblings.

    `address`: of loopback, of its own, for its siblings: a Squid takes a question from its own address for an echo,
    whatever the port.
    """

    address: str
    forward: int
    reverse: int
    icp: int


class PortBook:
    """Ports given to caches before they run: siblings name each other's, so one is asked for before it is started.
    `address`: on which they listen."""

    def __init__(self, address: str = LOOPBACK) -> None:
        self._address = address
        self._given: dict[str, CachePorts] = {}
        self._number = 0

    def of(self, name: str) -> CachePorts:
        """The ports of a cache. They do not change during an experiment, because a gateway that
        notifies it knows them too."""
        if name not in self._given:
            taken = {port for one in self._given.values() for port in (one.forward, one.reverse)}
            forward = self._other(taken)
            reverse = self._other(taken | {forward})
            self._number += 1
            address = f"127.0.0.{2 + self._number % 250}"
            self._given[name] = CachePorts(address, forward, reverse, free_port(socket.SOCK_DGRAM))
        return self._given[name]

    def _other(self, taken: set[int]) -> int:
        while (port := free_port(address=self._address)) in taken:
            pass
        return port
