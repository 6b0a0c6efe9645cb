"""One line of an access log of nginx, Apache, Squid or Traffic Server: bytes in, a record out. Pure.

- *native*: Squid's format, `time elapsed client code/status bytes method URL user hierarchy/peer type`, with a time
in seconds and milliseconds and an elapsed time in milliseconds. Squid writes the time of the end, Traffic Server that
of the start. - *combined* (and *common*): `client ident user [time] "request" status bytes ...`, with a time in whole
seconds. nginx writes the time of the end, Apache that of the start. The last field may be a duration that the
administrator has added (nginx `$request_time`, Apache `%D`, `%T`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

Format = Literal["auto", "nginx", "apache", "squid", "trafficserver"]
"""The program that wrote the log; auto: found from each line, with the time as it is written."""
DurationUnit = Literal["s", "ms", "us"]
UNITS_NS: Final[dict[DurationUnit, int]] = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000}
MAX_LINE: Final = 64 * 1024
"""Maximum length of a line, bytes. Servers limit a request line to 8 KiB by default."""
MAX_DURATION_NS: Final = 7 * 86_400 * 10**9
"""A longer duration is a damaged line."""
MAX_SIZE: Final = 1 << 50
SECOND_NS: Final = 1_000_000_000

_NATIVE: Final = re.compile(
    rb"\s*(\d{9,11})\.(\d{3})\s+(-?\d{1,18})\s+(\S+)\s+\S+?/(\d{3})\s+(-?\d{1,18})\s+(\S+)\s+(\S+)\s"
)
_COMBINED: Final = re.compile(
    rb"(?:([^\s:]+):\d{1,5} )?(\S+) \S+ [^\[\"]*\[([^\]]{20,32})\] "
    rb'"((?:[^"\\]|\\.)*)" (\d{3}|-) (-?\d{1,18}|-)(?:\s|$)'
)
_TIME: Final = re.compile(rb"(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-]\d{4})")
_TIME_EXPECTED: Final = "the time is not DAY/MONTH/YEAR:HOUR:MINUTE:SECOND ZONE of the years 1990 to 2100"
_REQUEST: Final = re.compile(rb"([A-Z][A-Z_-]{0,31}) (\S+)(?: HTTP/\d(?:\.\d)?)?\Z")
_URL: Final = re.compile(rb"https?://([^/?#\s]+)([/?#]\S*)?\Z", re.IGNORECASE)
_LAST: Final = re.compile(rb"(\d{1,12}(?:\.\d{1,9})?)\s*\Z")
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_UNSAFE: Final = re.compile(rb"[\x00-\x20\x7f-\xff]")
_MONTHS: Final = {
    name: at for at, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = range(1990, 2101)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How lines are read. `duration`: unit of the last field of combined lines; None: they have no duration. `text`: a
    format string of nginx or Apache, which `log_format` reads; empty: the format is `name`."""

    name: Format = "auto"
    duration: DurationUnit | None = None
    text: str = ""


@dataclass(slots=True)
class AccessRecord:
    """A request. `start_ns`: since 1970, the time of the log less the duration where the log has the time of the end;
    `grain_ns`: resolution of that time; `duration_ns`: None if the log has none; `host`: empty if the log has none;
    `path`: with the query, begins with /, printable ASCII (other bytes are escaped as %XX); `status`: 0 if none was
    sent; `size`: bytes sent, None if not logged."""

    start_ns: int
    grain_ns: int
    duration_ns: int | None
    client: bytes
    method: bytes
    host: bytes
    path: bytes
    status: int
    size: int | None


class LineError(ValueError):
    """A line that is not a request of an access log. The text is the reason."""


def parse_line(line: bytes, form: LineFormat) -> AccessRecord:
    """The request of a line. Raises LineError with the reason."""
    if form.name in ("auto", "squid", "trafficserver") and (native := _NATIVE.match(line)):
        return _native(native, form)
    if form.name in ("auto", "nginx", "apache") and (combined := _COMBINED.match(line)):
        return _combined(combined, line, form)
    raise LineError("the line is not in a known format")


def _native(match: re.Match[bytes], form: LineFormat) -> AccessRecord:
    seconds, ms, elapsed, client, status, size, method, url = match.groups()
    duration_ns = duration_in_range(int(elapsed) * UNITS_NS["ms"])
    at_ns = int(seconds) * SECOND_NS + int(ms) * UNITS_NS["ms"]
    start_ns = at_ns if form.name == "trafficserver" else at_ns - duration_ns
    host, path = split_target(method, url)
    # `%03d` of a status that was not sent is 000.
    return AccessRecord(
        start_ns,
        UNITS_NS["ms"],
        duration_ns,
        client,
        method,
        host,
        path,
        int(status),
        size_in_range(int(size)),
    )


def _combined(match: re.Match[bytes], line: bytes, form: LineFormat) -> AccessRecord:
    virtual_host, client, stamp, request, status, size = match.groups()
    at_ns = stamp_ns(stamp)
    method, target = split_request(request)
    duration_ns = None
    if form.duration is not None:
        last = _LAST.search(line, match.end())
        if last is None:
            raise LineError("the last field is not a duration")
        duration_ns = duration_in_range(round(float(last[1]) * UNITS_NS[form.duration]))
    start_ns = at_ns if duration_ns is None or form.name == "apache" else at_ns - duration_ns
    host, path = split_target(method, unescape(target))
    return AccessRecord(
        start_ns,
        SECOND_NS,
        duration_ns,
        client,
        method,
        host or virtual_host or b"",
        path,
        0 if status == b"-" else int(status),
        None if size == b"-" else size_in_range(int(size)),
    )


def split_request(request: bytes) -> tuple[bytes, bytes]:
    """Method and target of `METHOD TARGET PROTOCOL`, with the escapes of the log. Raises LineError."""
    parts = _REQUEST.match(request)
    if parts is None:
        raise LineError("the request is not METHOD PATH PROTOCOL")
    return parts[1], parts[2]


def split_target(method: bytes, url: bytes) -> tuple[bytes, bytes]:
    """Host (empty if none) and path of the target of a request."""
    if url.startswith(b"/"):
        return b"", _printable(url)
    if method not in (b"GET", b"HEAD"):
        return b"", b"/"  # `OPTIONS *`, `CONNECT host:443`: counted, and not used
    parts = _URL.match(url)
    if parts is None:
        raise LineError("the target of the request is neither a path nor a URL")
    path = parts[2] or b"/"
    return parts[1].lower(), _printable(path if path.startswith(b"/") else b"/" + path)


def _printable(path: bytes) -> bytes:
    """A path in which control bytes, spaces and bytes above ASCII are escaped, so that it is one line of a file."""
    return _UNSAFE.sub(lambda byte: b"%%%02X" % byte[0][0], path)


def unescape(text: bytes) -> bytes:
    r"""A request without the escapes of the log: `\x22`, `\"`, `\\`."""
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else found[2], text)


def duration_in_range(ns: int) -> int:
    """The duration. Raises LineError if it is not possible."""
    if not 0 <= ns <= MAX_DURATION_NS:
        raise LineError("the duration is negative or longer than 7 days")
    return ns


def size_in_range(size: int) -> int:
    """The size, bytes. Raises LineError if it is not possible."""
    if not 0 <= size <= MAX_SIZE:
        raise LineError("the size is negative or too large")
    return size


@lru_cache(maxsize=4096)
def stamp_ns(text: bytes) -> int:
    """ns since 1970 of `25/Nov/2026:16:49:02 +0100`. Raises LineError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise LineError(_TIME_EXPECTED)
    return date_ns(dict(zip("dbYHMSz", match.groups(), strict=True)))


def date_ns(parts: Mapping[str, bytes]) -> int:
    """ns since 1970 of a time, from its parts by the letters of strftime: Y, m or b, d, H, M, S, and z (`+0100` or
    `+01:00`; UTC if it is missing). Raises LineError."""
    if int(parts["Y"]) not in _YEARS:
        raise LineError(_TIME_EXPECTED)
    month = _MONTHS.get(parts["b"], 0) if "b" in parts else int(parts["m"])
    day, hour, minute, second = (int(parts[name]) for name in "dHMS")
    try:
        at = datetime(int(parts["Y"]), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise LineError("the time does not exist") from None
    zone = parts.get("z", b"+0000").replace(b":", b"")
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    since = at - (-offset if zone.startswith(b"-") else offset) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND_NS
