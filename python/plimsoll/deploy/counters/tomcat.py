"""The counters of a Tomcat, from the status page of its manager and from beans of its JVM."""

from __future__ import annotations

import http.client
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.ports import LOOPBACK

TIMEOUT_S: Final = 5.0
QUERIES: Final = {
    "status": "XML=true",
    "collectors": "qry=java.lang:type=GarbageCollector,*",
    "connectors": "qry=Catalina:type=ThreadPool,*",
}
"""What is asked of the status page, and of the beans."""
COUNTERS: Final = {
    "requests": "requestCount",
    "errors": "errorCount",
    "processing_ms": "processingTime",
    "bytes_received": "bytesReceived",
    "bytes_sent": "bytesSent",
}
"""Counters of a connector, with the names that Tomcat gives them."""
COLLECTIONS: Final = {"gc_collections": "CollectionCount", "gc_ms": "CollectionTime"}
"""Counters of the garbage collectors, with the names of their beans' attributes. A JVM has two or more collectors."""
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
        """Sends three requests."""
        status = reading(self._get("/", "status"), self._port)
        collections = collector_counters(self._get("/beans", "collectors"))
        connections = connection_count(self._get("/beans", "connectors"), self._port)
        return Reading({**status.counters, **collections}, {**status.gauges, "connections": connections})

    def _get(self, path: str, query: str) -> bytes:
        assert self._connection is not None
        self._connection.request("GET", f"{path}?{QUERIES[query]}")
        return self._connection.getresponse().read()

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


def collector_counters(beans: bytes) -> dict[str, float]:
    """The sums over all garbage collectors of a JVM. `gc_ms` of a collector that works beside the program includes that
    time, so it is not only the time of pauses. Raises ValueError if there is no collector."""
    collectors = _beans(beans)
    if not collectors:
        raise ValueError(f"the JVM of Tomcat reports no garbage collector: {beans[:100]!r}")
    return {name: sum(float(each[key]) for each in collectors) for name, key in COLLECTIONS.items()}


def connection_count(beans: bytes, port: int) -> float:
    """The open connections of a connector, including those that wait for their next request. Raises ValueError if it is
    not listed."""
    for bean in _beans(beans):
        if bean.get("localPort") == str(port) and "connectionCount" in bean:
            counted = int(bean["connectionCount"])
            # Tomcat counts a connection before it accepts it, unless the limit is reached.
            return float(counted - 1 if 0 < counted < int(bean["maxConnections"]) else counted)
    raise ValueError(f"the beans of Tomcat have no connector on port {port}: {beans[:100]!r}")


def _beans(text: bytes) -> list[dict[str, str]]:
    """The attributes of each bean. Each begins with its object name, which contains a domain and a key; an attribute
    `Name` does not. Further lines of a value begin with a space."""
    lines = text.decode("utf-8", "replace").replace("\r\n", "\n")
    parts = re.split(r"^Name: (?=[^:\n]+:[^\n]+=)", lines, flags=re.MULTILINE)[1:]
    return [dict(re.findall(r"^([A-Za-z]\w*): (.*)$", part, re.MULTILINE)) for part in parts]


def is_status_available(status: int, address: str = LOOPBACK) -> bool:
    """Whether Tomcat returns its status on this port."""
    connection = http.client.HTTPConnection(address, status, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/?{QUERIES['status']}")
        return b"<connector" in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
