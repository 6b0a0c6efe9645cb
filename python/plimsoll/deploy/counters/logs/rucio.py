"""The counters of a Rucio, from the access log of gunicorn. Rucio itself has none over its REST interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.logs.lines import LineCounters

FORMAT: Final = "%(m)s %(U)s %(s)s %(B)s"
"""A line of the log: method, path, status, bytes of the body."""


@dataclass(slots=True)
class RucioCounts:
    """Requests, when they end; those for tokens are logins instead. Requests and logins with a status of 400 and above;
    bytes of the bodies."""

    requests: int = 0
    logins: int = 0
    failed: int = 0
    bytes_sent: int = 0

    def add(self, line: bytes) -> None:
        """Counts one line of the log. Lines of another form are ignored."""
        words = line.split()
        if len(words) != 4 or not (words[2].isdigit() and words[3].isdigit()):
            return
        if words[1].startswith(b"/auth/"):
            self.logins += 1
        else:
            self.requests += 1
        self.failed += int(words[2]) >= 400
        self.bytes_sent += int(words[3])

    def reading(self) -> Reading:
        """The counters."""
        return Reading(
            {
                "requests": self.requests,
                "logins": self.logins,
                "failed": self.failed,
                "bytes_sent": self.bytes_sent,
            }
        )


class RucioCounters(LineCounters):
    """Counts the requests in the access log of a Rucio. See `LineCounters`."""

    def __init__(self, read: Callable[[int], bytes], begin: int) -> None:
        super().__init__(read, begin, RucioCounts())
