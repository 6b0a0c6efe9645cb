"""The counters of Plimsoll's own services, from /plimsoll/stats. The services do not count these requests."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading

TIMEOUT_S: Final = 5.0
GAUGES: Final = (
    "clock_ns",
    *("servers", "in_system", "mean_service_s", "mean_late_s", "max_late_s"),
    *("in_progress", "connections_in_use", "connections_waiting", "connections_limit", "threads_limit"),
    *("keys", "owed", "watching", "refusing", "purge_delay_most_ms"),
    *("jobs_submitted", "jobs_queued", "jobs_running", "cpus", "cpus_busy", "jobs_known", "jobs_held"),
)


class OwnCounters:
    """The counters of a service that uses HTTP, over one persistent connection."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def open(self) -> None:
        """Connects to the service."""
        self._connection = http.client.HTTPConnection(self._address, self._port, timeout=TIMEOUT_S)

    def read(self) -> Reading:
        """Sends one request."""
        assert self._connection is not None
        self._connection.request("GET", "/plimsoll/stats")
        return reading(self._connection.getresponse().read())

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()


def reading(answer: bytes) -> Reading:
    """The numbers of an answer. Raises ValueError if it is not JSON with numbers only."""
    values = {name: float(value) for name, value in json.loads(answer).items()}
    counters = {name: value for name, value in values.items() if name not in GAUGES}
    return Reading(counters, {name: value for name, value in values.items() if name in GAUGES})
