"""The counters of Squid's cache manager, read over HTTP."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading

TIMEOUT_S: Final = 5.0
GROUPS: Final = ("client_http.", "server.all.", "server.http.", "icp.", "swap.")
SINGLE: Final = ("cpu_time", "page_faults", "select_loops", "aborted_requests")
_COUNTER: Final = re.compile(r"^([a-z_.]+) = ([0-9.]+)", re.MULTILINE)
_GAUGES: Final = {
    "memory_kbytes": r"Storage Mem size:\s+([0-9.]+) KB",
    "disk_kbytes": r"Storage Swap size:\s+([0-9.]+) KB",
    "objects": r"([0-9]+) StoreEntries\s*$",
    "file_descriptors": r"Number of file desc currently in use:\s+([0-9]+)",
    "mean_object_kbytes": r"Mean Object Size:\s+([0-9.]+) KB",
}
"""Values of the page `info`, which is read once after a run."""


class SquidCounters:
    """Reads the page `counters`. The requests of this reader are subtracted from client_http.requests, and
    the bytes of their answers from client_http.kbytes_out."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._connection: http.client.HTTPConnection | None = None
        self._own_requests = 0
        self._own_bytes = 0

    def open(self) -> None:
        """Connects to Squid."""
        self._connection = http.client.HTTPConnection(self._address, self._port, timeout=TIMEOUT_S)

    def read(self) -> Reading:
        """Sends one request."""
        own_requests, own_bytes = self._own_requests, self._own_bytes
        values = counters(self._page("counters"))
        for name, own_count in (
            ("client_http.requests", own_requests),
            ("client_http.kbytes_out", own_bytes / 1024),
        ):
            if name in values:
                values[name] -= own_count
        return Reading(values)

    def last(self) -> Mapping[str, Any]:
        """The contents of the cache after the run, as gauges."""
        return {"gauges": gauges(self._page("info"))}

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def _page(self, name: str) -> str:
        assert self._connection is not None
        self._connection.request("GET", f"/squid-internal-mgr/{name}")
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"the cache manager answers with status {answer.status} {answer.reason}")
        self._own_requests += 1
        self._own_bytes += (
            len(body) + sum(len(key) + len(value) + 4 for key, value in answer.getheaders()) + 20
        )
        return body.decode("utf-8", "replace")


def manager(address: str, port: int, page: str) -> bytes:
    """A page of the cache manager, over a separate connection. Raises OSError."""
    connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/squid-internal-mgr/{page}")
        return connection.getresponse().read()
    except http.client.HTTPException as error:
        raise OSError(f"no answer from the cache manager: {error}") from error
    finally:
        connection.close()


def counters(page: str) -> dict[str, float]:
    """The selected counters of the page `counters`."""
    return {
        name: float(value)
        for name, value in _COUNTER.findall(page)
        if name in SINGLE or name.startswith(GROUPS)
    }


def gauges(page: str) -> dict[str, float]:
    """The gauges of the page `info`."""
    values = {}
    for name, pattern in _GAUGES.items():
        match = re.search(pattern, page, re.MULTILINE)
        if match:
            values[name] = float(match[1])
    return values
