"""The counters of slapd, from its database cn=Monitor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.ldap import Entry, LdapClient

BASE: Final = "cn=Monitor"
ATTRIBUTES: Final = ("monitorCounter", "monitorOpCompleted", "monitoredInfo")
COUNTERS: Final = {
    **{
        f"cn={name},cn=operations,cn=monitor": name
        for name in ("bind", "unbind", "search", "compare", "abandon", "extended")
    },
    "cn=total,cn=connections,cn=monitor": "connections",
    "cn=entries,cn=statistics,cn=monitor": "entries",
    "cn=referrals,cn=statistics,cn=monitor": "references",
    "cn=bytes,cn=statistics,cn=monitor": "bytes",
}
"""Counters by the name of their entry, in lower case."""
GAUGES: Final = {
    "cn=current,cn=connections,cn=monitor": "connections_open",
    "cn=active,cn=threads,cn=monitor": "threads_active",
    "cn=pending,cn=threads,cn=monitor": "threads_pending",
    "cn=write,cn=waiters,cn=monitor": "waiting_to_write",
}


class SlapdCounters:
    """The counters of one slapd, without the connection and the searches of this reader."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._client: LdapClient | None = None

    def open(self) -> None:
        """Connects and binds."""
        self._client = LdapClient(self._address, self._port)

    def read(self) -> Reading:
        """Sends one search. slapd counts it when it ends, its entries and their bytes as it sends them: each reading
        contains the same part of its own search, which cancels out in differences."""
        client = self._client
        assert client is not None
        own = {
            "bind": 1.0,
            "connections": 1.0,
            "search": float(client.searches),
            "entries": float(client.entries),
            "bytes": float(client.received),
        }
        return reading(client.search(BASE, ATTRIBUTES), own)

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Closes the connection."""
        if self._client is not None:
            self._client.close()


def reading(entries: Iterable[Entry], own: Mapping[str, float]) -> Reading:
    """The counters and gauges in the entries of cn=Monitor, without the share of the reader. Raises ValueError if they
    are missing."""
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    for entry in entries:
        name = entry.dn.lower()
        values = next((entry.attributes[key] for key in ATTRIBUTES if key in entry.attributes), None)
        if name in COUNTERS and values:
            counter = COUNTERS[name]
            counters[counter] = float(values[0]) - own.get(counter, 0.0)
        elif name in GAUGES and values:
            gauges[GAUGES[name]] = float(values[0])
    if "search" not in counters:
        raise ValueError(f"the server has no counters in {BASE}")
    gauges |= {name: gauges[name] - 1 for name in ("connections_open", "threads_active") if name in gauges}
    return Reading(counters, gauges)


def is_answering(address: str, port: int) -> bool:
    """Whether the server answers a search of its counters."""
    source = SlapdCounters(address, port)
    try:
        source.open()
        source.read()
    except (OSError, ValueError):
        return False
    finally:
        source.close()
    return True
