"""Counters of servers, read during a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a server. `counters` only increase while the server runs, so their differences are
    meaningful. `gauges` increase and decrease. If the server counts requests, the requests of this reader are
    subtracted."""

    counters: Mapping[str, float]
    gauges: Mapping[str, float] = field(default_factory=dict)


class Source(Protocol):
    """The counters of a server, over one persistent connection. Every method may raise any exception. The
    recorder then ends this source, but not the run."""

    def open(self) -> None:
        """Connects to the server."""

    def read(self) -> Reading:
        """Sends one request to the server and returns its counters."""

    def last(self) -> Mapping[str, Any]:
        """Returns what is read once after the run: `statements`, or further `gauges`."""

    def close(self) -> None:
        """Closes the connection. It is also called after a failure."""
