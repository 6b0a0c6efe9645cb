"""Frontier queries from a log of a Squid (native or combined format) or of the servlet, plain or gzip.

The log is read line by line. Limited amounts are stored: the distinct queries, the count of each, and their order. A
query is packed in `p1` of a URL `.../type=frontier_request...` (crate `wire`, request.rs).
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_QUERIES: Final = 50_000
"""Maximum number of distinct queries, in the order of their first appearance."""
MAX_TEXT: Final = 32_000_000
"""Maximum length of all distinct queries together, characters."""
MAX_REQUESTS: Final = 1_000_000
"""Maximum number of requests whose order and times are stored."""
MAX_QUERY: Final = 256 * 1024
"""Maximum length of a query, bytes: that of the gateway. SQL in a request head of 8 KiB is shorter."""
MAX_LINE: Final = 256 * 1024

_URL: Final = re.compile(rb'type=frontier_request[^\s"]*')
_P1: Final = re.compile(rb"[?&]p1=([^&\s\"]*)")
_NATIVE: Final = re.compile(rb"\s*(\d{9,11})\.(\d{3})\s+(-?\d+)\s")
_COMBINED: Final = re.compile(
    rb"\[(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})\]"
)
_SERVLET: Final = re.compile(
    rb"(\d{2})/(\d{2})/(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{3})(?: \S+)? ([+-])(\d{2})(\d{2})"
)
_MONTHS: Final = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_STANDARD: Final = bytes.maketrans(b".-_", b"+/=")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RequestLog:
    """The requests of a log.

    `queries` and `counts`: distinct queries and the count of each; `order`: indexes of `queries`, one for each request,
    in the order of the requests; `at_ns`: their times since the first (None: a line has no time); `lines`: number of
    lines; `other`: lines without a Frontier request; `bad`: lines whose request cannot be read; `first_bad`: line and
    reason of the first of them; `left_out`: requests beyond the limits.
    """

    queries: tuple[str, ...]
    counts: tuple[int, ...]
    order: tuple[int, ...] = field(repr=False)
    at_ns: tuple[int, ...] | None = field(repr=False)
    lines: int
    other: int
    bad: int
    first_bad: str
    left_out: int

    def remark(self, name: str) -> str:
        """The counts as text. `name`: of the log."""
        parts = [
            f"{name}: {sum(self.counts):,} requests of {len(self.queries):,} queries in {self.lines:,} lines"
        ]
        if self.other:
            hold = "line contains" if self.other == 1 else "lines contain"
            parts.append(f"{self.other:,} {hold} no Frontier request")
        if self.bad:
            parts.append(f"{self.bad:,} requests cannot be read ({self.first_bad})")
        if self.left_out:
            parts.append(
                f"{self.left_out:,} requests are left out: the limits are {MAX_QUERIES:,} queries and "
                f"{MAX_REQUESTS:,} requests"
            )
        return "; ".join(parts)


def read_request_log(path: Path) -> RequestLog:
    """Reads a log. The result is cached until the file changes. Raises OSError, EOFError or zlib.error if the file
    cannot be read."""
    facts = path.stat()
    return _read(path, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=2)
def _read(path: Path, modified_ns: int, size: int) -> RequestLog:
    reader = _Reader()
    for line in _lines(path):
        reader.take(line)
    return reader.result()


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            yield line


class _Reader:
    """The requests of the lines read so far."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.counts: list[int] = []
        self.order = array("L")
        self.times = array("q")
        self.text = self.lines = self.other = self.bad = self.left_out = 0
        self.first_bad = ""
        self.timed = True

    def take(self, line: bytes) -> None:
        self.lines += 1
        url = _URL.search(line)
        if url is None:
            self.other += 1
            return
        packed = _P1.findall(url[0])
        try:
            queries = [unpack_query(parameter) for parameter in packed]
        except ValueError as error:
            queries = []
            self.first_bad = self.first_bad or f"line {self.lines}: {error}"
        if not queries:
            self.bad += 1
            self.first_bad = self.first_bad or f"line {self.lines}: the URL has no parameter p1"
            return
        at_ns = time_of(line)
        for query in queries:
            self._keep(query, at_ns)

    def _keep(self, query: str, at_ns: int | None) -> None:
        number = self.known.get(query)
        if number is None:
            if len(self.known) >= MAX_QUERIES or self.text + len(query) > MAX_TEXT:
                self.left_out += 1
                return
            number = self.known[query] = len(self.counts)
            self.counts.append(0)
            self.text += len(query)
        self.counts[number] += 1
        if len(self.order) >= MAX_REQUESTS:
            self.left_out += 1
            return
        self.order.append(number)
        self.timed = self.timed and at_ns is not None
        self.times.append(at_ns or 0)

    def result(self) -> RequestLog:
        order = range(len(self.order))
        if self.timed:
            # A cache writes a line when a request ends; requests are replayed in the order of their starts.
            by_time = sorted(order, key=self.times.__getitem__)
            first = self.times[by_time[0]] if by_time else 0
            at_ns = tuple(self.times[index] - first for index in by_time)
        else:
            by_time, at_ns = list(order), None
        return RequestLog(
            tuple(self.known),
            tuple(self.counts),
            tuple(self.order[index] for index in by_time),
            at_ns,
            self.lines,
            self.other,
            self.bad,
            self.first_bad,
            self.left_out,
        )


def unpack_query(p1: bytes) -> str:
    """The SQL of a `p1`, without the newline that some clients add. Raises ValueError with the reason."""
    standard = unquote_to_bytes(p1).translate(_STANDARD)
    try:
        packed = base64.b64decode(standard, validate=True)
    except binascii.Error:
        raise ValueError("p1 is not base64") from None
    inflate = zlib.decompressobj()
    try:
        sql = inflate.decompress(packed, MAX_QUERY + 1)
    except zlib.error:
        raise ValueError("p1 is not zlib data") from None
    if len(sql) > MAX_QUERY:
        raise ValueError(f"p1 contains more than {MAX_QUERY:,} bytes")
    if not inflate.eof:
        raise ValueError("p1 is truncated")
    try:
        text = sql.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("p1 is not UTF-8 text") from None
    text = text.removesuffix("\n")
    if not text.strip():
        raise ValueError("p1 is empty")
    return text


def time_of(line: bytes) -> int | None:
    """The start of the request of a line, ns since 1970; None if the line has no time."""
    if native := _NATIVE.match(line):
        # The time of Squid's native format is that of the end; the third column is the duration in ms.
        return (int(native[1]) * 1000 + int(native[2]) - max(0, int(native[3]))) * 1_000_000
    try:
        if combined := _COMBINED.search(line):
            day, month, year, hour, minute, second = combined.groups()[:6]
            when = (int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
            return _ns(when, 0, combined.groups()[6:])
        if servlet := _SERVLET.search(line):
            month, day, year, hour, minute, second, ms = servlet.groups()[:7]
            when = (2000 + int(year), int(month), int(day), int(hour), int(minute), int(second))
            return _ns(when, int(ms), servlet.groups()[7:])
    except ValueError:  # the 31st of February
        pass
    return None


def _ns(when: tuple[int, int, int, int, int, int], ms: int, zone: tuple[bytes | str, ...]) -> int:
    sign, hours, minutes = zone
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    if sign == b"-":
        offset = -offset
    since = datetime(*when, tzinfo=UTC) - offset - _EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000_000 + ms * 1_000_000
