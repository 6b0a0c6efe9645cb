"""The counters of a GridFTP server, from its log of transfers. The server itself has none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.logs.lines import LineCounters

DOWNLOADS: Final = frozenset({b"RETR", b"ERET"})
"""Commands that read a file, as a whole or in parts. Listings (LIST, NLST, MLSD) are not transfers of files."""
UPLOADS: Final = frozenset({b"STOR", b"ESTO", b"APPE"})
_LINE: Final = re.compile(rb" NBYTES=(\d+) .* TYPE=(\S+) CODE=(\d+)")


@dataclass(slots=True)
class TransferCounts:
    """Transfers that have ended, and the bytes of their files. `failed` transfers are in no other count."""

    downloads: int = 0
    uploads: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    failed: int = 0

    def add(self, line: bytes) -> None:
        """Counts one line of the log. Lines of another form are ignored."""
        match = _LINE.search(line)
        if match is None:
            return
        size, command, code = int(match[1]), match[2], match[3]
        if command not in DOWNLOADS | UPLOADS:
            return
        if not code.startswith(b"2"):
            self.failed += 1
        elif command in DOWNLOADS:
            self.downloads += 1
            self.bytes_sent += size
        else:
            self.uploads += 1
            self.bytes_received += size

    def reading(self) -> Reading:
        """The counters, with the sum of all transfers."""
        return Reading(
            {
                "transfers": self.downloads + self.uploads + self.failed,
                "downloads": self.downloads,
                "uploads": self.uploads,
                "bytes_sent": self.bytes_sent,
                "bytes_received": self.bytes_received,
                "failed": self.failed,
            }
        )


class TransferCounters(LineCounters):
    """Counts the transfers of a log. See `LineCounters`."""

    def __init__(self, read: Callable[[int], bytes], begin: int) -> None:
        super().__init__(read, begin, TransferCounts())
