"""The counters of nginx's stub_status."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from typing import Any, Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.ports import LOOPBACK

TIMEOUT_S: Final = 5.0
_FORM: Final = re.compile(
    r"Active connections:\s*(\d+)\s+server accepts handled requests\s+(\d+)\s+(\d+)\s+(\d+)\s+"
    r"Reading:\s*(\d+)\s+Writing:\s*(\d+)\s+Waiting:\s*(\d+)"
)


class NginxCounters:
    """The counters of one nginx, without the requests and the connection of this reader."""

    def __init__(self, port: int, address: str = LOOPBACK) -> None:
        self._address = address
        self._port = port
        self._connection: http.client.HTTPConnection | None = None
        self._own_requests = 0

    def open(self) -> None:
        """Connects to the status port."""
        self._connection = http.client.HTTPConnection(self._address, self._port, timeout=TIMEOUT_S)

    def read(self) -> Reading:
        """Sends one request."""
        assert self._connection is not None
        self._connection.request("GET", "/")
        page = self._connection.getresponse().read().decode("utf-8", "replace")
        self._own_requests += 1
        return reading(page, self._own_requests)

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()


def reading(page: str, own_requests: int) -> Reading:
    """Parses a page of stub_status and subtracts `own_requests` and one connection. Raises ValueError if it
    is another page."""
    match = _FORM.search(page)
    if match is None:
        raise ValueError(f"the page is not that of stub_status: {page[:100]!r}")
    active, accepts, handled, requests, being_read, being_written, waiting = map(float, match.groups())
    return Reading(
        {
            "accepted": accepts - 1,
            "handled": handled - 1,
            "requests": requests - own_requests,
        },
        {
            "active": active - 1,
            "reading": being_read,
            "writing": being_written - 1,
            "waiting": waiting,
        },
    )


def is_status_available(port: int, address: str = LOOPBACK) -> bool:
    """Whether nginx returns its status on this port."""
    source = NginxCounters(port, address)
    try:
        source.open()
        source.read()
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        source.close()
    return True
