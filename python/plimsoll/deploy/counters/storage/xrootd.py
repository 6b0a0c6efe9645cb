"""The counters of an XRootD server, over its own protocol.

Source of the protocol: "The XRootD Protocol", version 5.1. A request is a header of 24 bytes and data; an answer is a
header of 8 bytes (stream, status, length) and data. All numbers are big-endian.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final
from xml.etree import ElementTree

from plimsoll.deploy.counters import Reading

TIMEOUT_S: Final = 5.0
MAX_ANSWER: Final = 1024 * 1024
_QUERY, _LOGIN, _LOCATE = 3001, 3007, 3027
_STATISTICS: Final = 1
"""The kind of query that returns the statistics of the server."""
_OK: Final = 0
_HANDSHAKE: Final = struct.pack(">5i", 0, 0, 0, 4, 2012)
COUNTERS: Final = {
    "connections": ("link", "tot"),
    "bytes_in": ("link", "in"),
    "bytes_out": ("link", "out"),
    "logins": ("xrootd", "lgn/num"),
    "opens": ("xrootd", "ops/open"),
    "reads": ("xrootd", "ops/rd"),
    "writes": ("xrootd", "ops/wr"),
    "redirects": ("xrootd", "rdr"),
    "errors": ("xrootd", "err"),
}
"""Counters by name: the part of the statistics, and the path in it. Bytes and reads are those of connections that have
ended, the bytes with the headers of the protocol: this query does not add up the open connections (XrdXrootdStats.cc).
`xrd.report` with `sync` would, but it sends UDP packets, which can be lost, to a port of the lab."""


class XrootdConnection:
    """A connection with a login, as an anonymous client. Every method raises OSError, or ValueError for an answer of
    another protocol."""

    def __init__(self, address: str, port: int) -> None:
        self._socket = socket.create_connection((address, port), timeout=TIMEOUT_S)
        try:
            self._ask(_HANDSHAKE)
            self._ask(struct.pack(">HHi8sBBBBi", 0, _LOGIN, 0, b"plimsoll", 0, 0, 5, 0, 0))
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> XrootdConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def statistics(self) -> bytes:
        """All statistics of the server, as XML."""
        return self._ask(struct.pack(">HHHH4s8si", 0, _QUERY, _STATISTICS, 0, bytes(4), bytes(8), 1) + b"a")

    def servers(self) -> str:
        """The data servers of a redirector, such as `Sr[::127.0.0.1]:1094 `."""
        data = self._ask(struct.pack(">HHH14si", 0, _LOCATE, 0, bytes(14), 1) + b"*")
        return data.rstrip(b"\0").decode("ascii", "replace") + " "

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        _, status, length = struct.unpack(">HHi", self._exactly(8))
        if not 0 <= length <= MAX_ANSWER:
            raise ValueError(f"an answer of {length} bytes is not one of XRootD")
        data = self._exactly(length)
        if status != _OK:
            raise OSError(f"XRootD answers with status {status}: {data[4:200]!r}")
        return data

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise OSError("XRootD closed the connection")
            data += part
        return data


class XrootdCounters:
    """The counters of one server, without the connection and the login of this reader."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._connection: XrootdConnection | None = None

    def open(self) -> None:
        """Connects to the server."""
        self._connection = XrootdConnection(self._address, self._port)

    def read(self) -> Reading:
        """Sends one request."""
        assert self._connection is not None
        return reading(self._connection.statistics())

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()


def reading(page: bytes) -> Reading:
    """Parses statistics, and subtracts one open connection with a login. Raises ValueError if they are not those of
    XRootD."""
    try:
        tree = ElementTree.fromstring(re.sub(rb"\0+$", b"", page))
    except ElementTree.ParseError as error:
        raise ValueError(f"the answer is not XRootD's statistics: {page[:100]!r}") from error
    parts = {part.get("id"): part for part in tree.iter("stats")}
    own = ("connections", "logins")
    counters = {name: _number(parts, *path) - (name in own) for name, path in COUNTERS.items()}
    return Reading(counters, {"connected": _number(parts, "link", "num") - 1})


def _number(parts: Mapping[str | None, ElementTree.Element], part: str, path: str) -> float:
    found = parts[part].findtext(path) if part in parts else None
    if found is None:
        raise ValueError(f"XRootD's statistics lack {part}/{path}")
    return float(found)
