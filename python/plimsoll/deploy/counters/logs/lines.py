"""Counters of a server that has none of its own, from the lines of its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from plimsoll.deploy.counters import Reading


class LineCounts(Protocol):
    """What was counted."""

    def add(self, line: bytes) -> None:
        """Counts one line of the log. Lines of another form are ignored."""

    def reading(self) -> Reading:
        """The counters."""


class LineCounters:
    """Counts the lines of a log. `read`: returns a part of the log that begins at an offset; empty at the end of the
    log. `begin`: the offset of the first line of this process of the server."""

    def __init__(self, read: Callable[[int], bytes], begin: int, counts: LineCounts) -> None:
        self._read = read
        self._offset = begin
        self._counts = counts

    def open(self) -> None:
        """There is no connection."""

    def read(self) -> Reading:
        """Counts the lines that are new and complete."""
        while part := self._read(self._offset):
            end = part.rfind(b"\n") + 1
            if end == 0:
                break
            for line in part[:end].splitlines():
                self._counts.add(line)
            self._offset += end
        return self._counts.reading()

    def last(self) -> Mapping[str, Any]:
        """Returns nothing."""
        return {}

    def close(self) -> None:
        """There is no connection."""
