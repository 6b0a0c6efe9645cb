"""The GET and HEAD requests of an access log, plain or gzip, as columns.

The log is read line by line. If a limit is reached, reading stops, so that the requests are those of the beginning of
the log: an omission of single requests would distort their popularity and their arrivals.
"""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plimsoll.plan.queries.access_line import MAX_LINE, AccessRecord, LineError, LineFormat
from plimsoll.plan.queries.log_format import line_parser

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_REQUESTS: Final = 2_000_000
MAX_TEXT: Final = 100_000_000
"""Maximum length of all distinct paths and of all distinct clients together, bytes."""
MAX_BYTES: Final = 4 << 30
"""Maximum number of bytes that are read after decompression."""
MAX_REASONS: Final = 20
NONE: Final = -1
"""A duration or size that is not in the log."""


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Lines by what became of them. `malformed`: by reason, in order of their first line, at most 20 reasons;
    `first_malformed`: number of the first such line, 0: none; `other_methods`: neither GET nor HEAD; `failed`: with a
    status of 400 or above, or none; `stopped`: the limit at which reading stopped, or the damage of the file; empty:
    the file was read to its end."""

    lines: int = 0
    used: int = 0
    malformed: dict[str, int] = field(default_factory=dict)
    first_malformed: int = 0
    other_methods: int = 0
    failed: int = 0
    stopped: str = ""

    @property
    def all_malformed(self) -> int:
        """Number of malformed lines."""
        return sum(self.malformed.values())

    def remark(self, name: str) -> str:
        """The counts as text. `name`: of the log."""
        parts = [f"{name}: {self.used:,} requests in {self.lines:,} lines"]
        if self.other_methods:
            parts.append(f"{self.other_methods:,} with methods other than GET and HEAD are not used")
        if self.failed:
            parts.append(f"{self.failed:,} without a status below 400 are not used")
        if self.malformed:
            reasons = ", ".join(f"{count:,}: {reason}" for reason, count in self.malformed.items())
            parts.append(
                f"{self.all_malformed:,} lines cannot be read, the first is line {self.first_malformed:,} "
                f"({reasons})"
            )
        if self.stopped:
            parts.append(self.stopped)
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class AccessLog:
    """Requests in the order of their starts. Columns of equal length: `start_ns` (since 1970), `duration_ns` (`NONE`:
    unknown), `size` (bytes, `NONE`: unknown), `object` and `client` (indexes), `is_head` (0 or 1). `paths`, `hosts`:
    of each object (host empty if unknown). `clients`: number of clients, 0 if the log has none. `grain_ns`: the
    coarsest resolution of the times."""

    start_ns: array[int] = field(repr=False)
    duration_ns: array[int] = field(repr=False)
    size: array[int] = field(repr=False)
    object: array[int] = field(repr=False)
    client: array[int] = field(repr=False)
    is_head: array[int] = field(repr=False)
    paths: tuple[bytes, ...] = field(repr=False)
    hosts: tuple[bytes, ...] = field(repr=False)
    clients: int
    grain_ns: int
    counts: LineCounts


def read_access_log(path: Path, form: LineFormat, max_objects: int = MAX_REQUESTS) -> AccessLog:
    """Reads a log. `max_objects`: number of distinct paths at which reading stops. The result is cached until the
    file changes. Raises OSError if the file cannot be opened or is not a file."""
    facts = path.stat()
    return _read(path, facts.st_mtime_ns, facts.st_size, form, max_objects)


@lru_cache(maxsize=2)
def _read(path: Path, modified_ns: int, size: int, form: LineFormat, max_objects: int) -> AccessLog:
    return collect_requests(_Lines(path), form, max_objects)


def collect_requests(
    lines: Iterable[bytes | None], form: LineFormat, max_objects: int = MAX_REQUESTS
) -> AccessLog:
    """The requests of lines. None is a line that is too long."""
    columns = _Columns(form, max_objects)
    for line in lines:
        if columns.add(line):
            break
    return columns.result(getattr(lines, "stopped", ""))


class _Lines:
    """The lines of a file without their ends; None for a line that is too long. `stopped`: why it ended early."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stopped = ""

    def __iter__(self) -> Iterator[bytes | None]:
        with self.path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        number = total = 0
        with gzip.open(self.path, "rb") if packed else self.path.open("rb") as file:
            try:
                while line := file.readline(MAX_LINE):
                    number += 1
                    total += len(line)
                    is_long = len(line) == MAX_LINE and not line.endswith(b"\n")
                    while is_long and (rest := file.readline(MAX_LINE)):
                        total += len(rest)
                        if rest.endswith(b"\n") or total > MAX_BYTES:
                            break
                    yield None if is_long else line.rstrip(b"\r\n")
                    if total > MAX_BYTES:
                        self.stopped = f"reading stopped after {MAX_BYTES >> 30} GiB, in line {number:,}"
                        return
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.stopped = f"the compressed file is truncated or damaged after line {number:,}"


def _order_of(times: array[int]) -> NDArray[np.int64]:
    """Indexes that sort the times; equal ones keep their order."""
    import numpy as np  # not needed to plan an experiment without a log

    return np.argsort(np.frombuffer(times, dtype=np.int64), kind="stable") if times else np.empty(0, np.int64)


def _sorted(column: array[int], order: NDArray[np.int64]) -> array[int]:
    import numpy as np

    if not column:
        return column
    return array(column.typecode, np.frombuffer(column, dtype=column.typecode)[order].tobytes())


class _Columns:
    """The requests of the lines so far."""

    def __init__(self, form: LineFormat, max_objects: int) -> None:
        self.parse = line_parser(form)
        self.max_objects = max_objects
        self.start, self.duration, self.size = array("q"), array("q"), array("q")
        self.object, self.client, self.head = array("L"), array("L"), array("B")
        self.objects: dict[bytes, int] = {}
        self.clients: dict[bytes, int] = {}
        self.malformed: dict[str, int] = {}
        self.lines = self.first_malformed = self.other_methods = self.failed = self.text = self.grain_ns = 0
        self.stopped = ""

    def add(self, line: bytes | None) -> bool:
        """Adds a line. True if a limit is reached."""
        self.lines += 1
        try:
            if line is None:
                raise LineError(f"the line is longer than {MAX_LINE:,} bytes")
            record = self.parse(line)
        except LineError as error:
            self._count(str(error))
            return False
        if record.method not in (b"GET", b"HEAD"):
            self.other_methods += 1
        elif not 100 <= record.status < 400:
            self.failed += 1
        else:
            return self._add_request(record)
        return False

    def _count(self, reason: str) -> None:
        self.first_malformed = self.first_malformed or self.lines
        if reason in self.malformed or len(self.malformed) < MAX_REASONS:
            self.malformed[reason] = self.malformed.get(reason, 0) + 1

    def _add_request(self, record: AccessRecord) -> bool:
        key = record.host + b" " + record.path
        new = (len(key) if key not in self.objects else 0) + (
            len(record.client) if record.client not in self.clients else 0
        )
        if len(self.start) >= MAX_REQUESTS:
            self.stopped = (
                f"reading stopped at line {self.lines:,}: at most {MAX_REQUESTS:,} requests are used"
            )
        elif key not in self.objects and len(self.objects) >= self.max_objects:
            self.stopped = (
                f"reading stopped at line {self.lines:,}: at most {self.max_objects:,} paths are used"
            )
        elif self.text + new > MAX_TEXT:
            self.stopped = (
                f"reading stopped at line {self.lines:,}: the distinct paths and clients are longer than "
                f"{MAX_TEXT:,} bytes"
            )
        if self.stopped:
            self.lines -= 1
            return True
        self.text += new
        self.start.append(record.start_ns)
        self.duration.append(NONE if record.duration_ns is None else record.duration_ns)
        self.size.append(NONE if record.size is None else record.size)
        self.object.append(self.objects.setdefault(key, len(self.objects)))
        self.client.append(self.clients.setdefault(record.client, len(self.clients)))
        self.head.append(record.method == b"HEAD")
        self.grain_ns = max(self.grain_ns, record.grain_ns)
        return False

    def result(self, stopped: str) -> AccessLog:
        # Servers write a line when the request ends; the requests are used in the order of their starts.
        order = _order_of(self.start)
        hosts: dict[bytes, bytes] = {}
        host_of, paths = [], []
        for key in self.objects:
            host, path = key.split(b" ", 1)
            host_of.append(hosts.setdefault(host, host))
            paths.append(path)
        self.objects.clear()
        return AccessLog(
            _sorted(self.start, order),
            _sorted(self.duration, order),
            _sorted(self.size, order),
            _sorted(self.object, order),
            _sorted(self.client, order),
            _sorted(self.head, order),
            tuple(paths),
            tuple(host_of),
            0 if set(self.clients) == {b""} else len(self.clients),
            self.grain_ns,
            LineCounts(
                self.lines,
                len(self.start),
                self.malformed,
                self.first_malformed,
                self.other_methods,
                self.failed,
                self.stopped or stopped,
            ),
        )
