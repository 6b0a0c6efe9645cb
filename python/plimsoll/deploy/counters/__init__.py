"""What servers count of themselves, read while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a server. `counters` only ever grow while it runs, so that differences mean something; `gauges` go up
    and down. What the looking itself adds is taken out where the server counts requests."""

    counters: Mapping[str, float]
    gauges: Mapping[str, float] = field(default_factory=dict)


class Source(Protocol):
    """A server's counters over one kept connection. Every call may raise any exception: the recorder takes it as the
    end of this source, never of the run."""

    def open(self) -> None:
        """Connects."""

    def read(self) -> Reading:
        """One request to the server."""

    def last(self) -> Mapping[str, Any]:
        """After the run: what is told once, such as `statements`, or further `gauges`."""

    def close(self) -> None:
        """Ends the connection; also after a failure."""
