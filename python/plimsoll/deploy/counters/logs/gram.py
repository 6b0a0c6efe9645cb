"""The counters of a GRAM gatekeeper, from its log. The gatekeeper itself has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.logs.lines import LineCounters

_PING_ONLY = b"[PING ONLY]"


@dataclass(slots=True)
class GatekeeperCounts:
    """Accepted connections; those that were authenticated; requests of these that only test the authentication, and
    other requests; job managers that were started for the latter; connections that ended with an error."""

    connections: int = 0
    authenticated: int = 0
    pings: int = 0
    requests: int = 0
    started: int = 0
    failed: int = 0

    def add(self, line: bytes) -> None:
        """Counts one line of the log. Lines of another form are ignored."""
        if b"Got connection " in line:
            self.connections += 1
        elif b"Authenticated globus user: " in line:
            self.authenticated += 1
        elif b"Requested service: " in line:
            if _PING_ONLY in line:
                self.pings += 1
            else:
                self.requests += 1
        elif b" Child " in line and line.rstrip().endswith(b" started"):
            self.started += 1
        elif b" -- Failure: " in line and b"ping successful" not in line:
            self.failed += 1

    def reading(self) -> Reading:
        """The counters."""
        return Reading(
            {
                "connections": self.connections,
                "authenticated": self.authenticated,
                "pings": self.pings,
                "requests": self.requests,
                "started": self.started,
                "failed": self.failed,
            }
        )


class GatekeeperCounters(LineCounters):
    """Counts the requests in the log of a gatekeeper. See `LineCounters`."""

    def __init__(self, read: Callable[[int], bytes], begin: int) -> None:
        super().__init__(read, begin, GatekeeperCounts())
