"""A small LDAP client (RFC 4511) with which the lab reads the counters of an LDAP server: an anonymous bind and
searches, one at a time, without TLS."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

TIMEOUT_S: Final = 5.0
MAX_MESSAGE: Final = 1 << 20
"""The largest message that is accepted, bytes."""
_INTEGER, _TEXT, _ENUMERATED, _SEQUENCE = 0x02, 0x04, 0x0A, 0x30
_BIND, _BOUND, _SEARCH, _ENTRY, _DONE = 0x60, 0x61, 0x63, 0x64, 0x65
_PRESENT: Final = 0x87


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry. `attributes`: the values by the name of the attribute."""

    dn: str
    attributes: Mapping[str, Sequence[str]]


def element(tag: int, *parts: bytes) -> bytes:
    """A BER element with this content."""
    content = b"".join(parts)
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def split(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Tag and content of the first element, and the bytes behind it; None if it is not complete. Raises ValueError if
    it is not BER of LDAP, or too long."""
    if len(data) < 2:
        return None
    length, start = data[1], 2
    if length >= 0x80:
        start = 2 + length - 0x80
        if not 3 <= start <= 6:
            raise ValueError("the length of an element is invalid")
        if len(data) < start:
            return None
        length = int.from_bytes(data[2:start], "big")
    if length > MAX_MESSAGE:
        raise ValueError(f"an element has {length:,} bytes: expected at most {MAX_MESSAGE:,}")
    end = start + length
    return (data[0], data[start:end], data[end:]) if len(data) >= end else None


def elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags and contents of elements that follow each other. Raises ValueError if one is not complete."""
    while data:
        found = split(data)
        if found is None:
            raise ValueError("an element is longer than its parent")
        tag, content, data = found
        yield tag, content


class LdapClient:
    """A connection. `received`, `requests`, `entries`: bytes, searches and entries so far. Its methods raise OSError if
    the server does not answer, ValueError if it answers with other bytes or an error."""

    def __init__(self, address: str, port: int) -> None:
        self.received = 0
        self.searches = 0
        self.entries = 0
        self._number = 0
        self._buffer = b""
        self._socket = socket.create_connection((address, port), TIMEOUT_S)
        try:
            self._send(element(_BIND, element(_INTEGER, b"\x03"), element(_TEXT), element(0x80)))
            self._expect_success(*self._receive(), _BOUND)
        except BaseException:
            self.close()
            raise

    def search(self, base: str, attributes: Sequence[str]) -> list[Entry]:
        """All entries at and below `base` with these attributes."""
        names = [element(_TEXT, name.encode()) for name in attributes]
        self._send(
            element(
                _SEARCH,
                element(_TEXT, base.encode()),
                element(_ENUMERATED, b"\x02"),
                element(_ENUMERATED, b"\x00"),
                element(_INTEGER, b"\x00"),
                element(_INTEGER, b"\x00"),
                element(0x01, b"\x00"),
                element(_PRESENT, b"objectClass"),
                element(_SEQUENCE, *names),
            )
        )
        self.searches += 1
        found: list[Entry] = []
        while True:
            tag, content = self._receive()
            if tag != _ENTRY:
                self._expect_success(tag, content, _DONE)
                return found
            self.entries += 1
            found.append(_entry(content))

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _send(self, operation: bytes) -> None:
        self._number = self._number % 127 + 1
        self._socket.sendall(element(_SEQUENCE, element(_INTEGER, bytes((self._number,))), operation))

    def _receive(self) -> tuple[int, bytes]:
        """Tag and content of the operation of the next message."""
        while (message := split(self._buffer)) is None:
            more = self._socket.recv(65536)
            if not more:
                raise ConnectionError("the LDAP server closed the connection")
            self._buffer += more
            self.received += len(more)
        _, content, self._buffer = message
        _, operation, *_ = elements(content)
        return operation

    @staticmethod
    def _expect_success(tag: int, content: bytes, expected: int) -> None:
        if tag != expected:
            raise ValueError(f"the LDAP server answered with the operation {tag:#x}")
        (_, code), _, (_, text), *_ = elements(content)
        if code != b"\x00":
            raise ValueError(f"LDAP result {int.from_bytes(code, 'big')}: {text.decode('utf-8', 'replace')}")


def _entry(content: bytes) -> Entry:
    (_, dn), (_, attributes) = elements(content)
    values = {}
    for _, attribute in elements(attributes):
        (_, name), (_, found) = elements(attribute)
        values[name.decode()] = [value.decode("utf-8", "replace") for _, value in elements(found)]
    return Entry(dn.decode("utf-8", "replace"), values)
