"""Ports of this host: of loopback, unless testers run on other hosts."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from plimsoll.errors import BadInput, Problem

LOOPBACK: Final = "127.0.0.1"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM, address: str = LOOPBACK) -> int:
    """A port of an address of this host on which no process listens now. `kind`: TCP by default.

    Another process may take the port before the service listens. The service then fails to start and reports
    it. Raises BadInput if the address does not belong to this host.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            message = f"services cannot listen on {address}: {error.strerror}"
            raise BadInput([Problem(message, "hosts.controller.address")]) from error
        return int(probe.getsockname()[1])


def numeric_address(host: str) -> str:
    """Resolves a name of this host to an address, IPv4 if there is one, since servers listen on addresses.
    Raises BadInput."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        message = f"the name {host} cannot be resolved: {error.strerror}"
        raise BadInput([Problem(message, "hosts.controller.address")]) from error
    return str(min(addresses, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def netloc(address: str, port: int) -> str:
    """Address and port as in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@dataclass(frozen=True, slots=True)
class CachePorts:
    """The ports of a cache: as a forward proxy (also for its peers), as a reverse proxy, and for the ICP
    queries of siblings.

    `reach`: the address at which clients and peers reach the cache. `address`: an address of loopback for its
    siblings, which run on the same host. It differs between caches, since Squid takes a query
    from its own address for an echo, for any port.
    """

    address: str
    forward: int
    reverse: int
    icp: int
    reach: str = LOOPBACK


class PortHost(Protocol):
    """The host of a cache. `address`: on which its services listen."""

    address: str

    def free_port(self, kind: socket.SocketKind = socket.SOCK_STREAM, address: str | None = None) -> int:
        """A port on which no process listens now."""


class ThisHost:
    """This host, with one address."""

    def __init__(self, address: str = LOOPBACK) -> None:
        self.address = address

    def free_port(self, kind: socket.SocketKind = socket.SOCK_STREAM, address: str | None = None) -> int:
        """See `PortHost`."""
        return free_port(kind, address or self.address)


class PortBook:
    """Assigns ports to caches before they run. Siblings name each other's ports, so a port is required before
    its cache is started. `host_of`: the host of a cache, and the address at which clients reach the cache."""

    def __init__(self, host_of: Callable[[str], tuple[PortHost, str]] | None = None) -> None:
        here = ThisHost()
        self._host_of = host_of or (lambda name: (here, here.address))
        self._assigned: dict[str, tuple[PortHost, CachePorts]] = {}
        self._number = 0

    def ports_of(self, name: str) -> CachePorts:
        """The ports of a cache. They do not change during an experiment, because a gateway that notifies the
        cache knows them too, unless its host changes."""
        host, reach = self._host_of(name)
        if name not in self._assigned or self._assigned[name][0] is not host:
            taken = {
                port
                for other, ports in self._assigned.values()
                if other is host
                for port in (ports.forward, ports.reverse)
            }
            forward = _unused_port(host, taken)
            reverse = _unused_port(host, taken | {forward})
            self._number += 1
            address = f"127.0.0.{2 + self._number % 250}"
            icp = host.free_port(socket.SOCK_DGRAM, LOOPBACK)
            self._assigned[name] = host, CachePorts(address, forward, reverse, icp, reach)
        return self._assigned[name][1]


def _unused_port(host: PortHost, taken: set[int]) -> int:
    while (port := host.free_port()) in taken:
        pass
    return port
