"""The counters of a Tomcat, from the status page of its manager."""

from __future__ import annotations

import http.client
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.ports import LOOPBACK

TIMEOUT_S: Final = 5.0
COUNTERS: Final = {
    "requests": "requestCount",
    "errors": "errorCount",
    "processing_ms": "processingTime",
    "bytes_received": "bytesReceived",
    "bytes_sent": "bytesSent",
}
"""Counters of a connector, with the names that Tomcat gives them."""
THREADS: Final = {"threads": "currentThreadCount", "threads_busy": "currentThreadsBusy"}


class TomcatCounters:
    """The counters of the connector of one Tomcat. This reader uses another connector, which counts for itself.
    `status`: the port of the status page; `port`: that of the connector."""

    def __init__(self, status: int, port: int, address: str = LOOPBACK) -> None:
        self._address = address
        self._status = status
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def open(self) -> None:
        """Connects to the port of the status page."""
        self._connection = http.client.HTTPConnection(self._address, self._status, timeout=TIMEOUT_S)

    def read(self) -> Reading:
        """Sends one request."""
        assert self._connection is not None
        self._connection.request("GET", "/?XML=true")
        return reading(self._connection.getresponse().read(), self._port)

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()


def reading(page: bytes, port: int) -> Reading:
    """Parses the status page. `port`: of the connector whose counters are returned; the memory is that of the whole
    JVM, in bytes. Raises ValueError if it is another page."""
    try:
        status = ET.fromstring(page)
    except ET.ParseError as error:
        raise ValueError(f"the page is not the status of Tomcat: {page[:100]!r}") from error
    memory = status.find("jvm/memory")
    connector = next(
        (
            found
            for found in status.iter("connector")
            if found.get("name", "").strip('"').endswith(f"-{port}")
        ),
        None,
    )
    requests = connector.find("requestInfo") if connector is not None else None
    threads = connector.find("threadInfo") if connector is not None else None
    if memory is None or requests is None or threads is None:
        raise ValueError(f"the status of Tomcat has no connector on port {port}: {page[:100]!r}")
    total = float(memory.attrib["total"])
    return Reading(
        {name: float(requests.attrib[key]) for name, key in COUNTERS.items()},
        {
            **{name: float(threads.attrib[key]) for name, key in THREADS.items()},
            "heap_used": total - float(memory.attrib["free"]),
            "heap_committed": total,
        },
    )


def is_status_available(status: int, address: str = LOOPBACK) -> bool:
    """Whether Tomcat returns its status on this port."""
    connection = http.client.HTTPConnection(address, status, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/?XML=true")
        return b"<connector" in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
