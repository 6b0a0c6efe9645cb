"""One line of an access log of nginx, Apache, Squid or Traffic Server: bytes in, a record out. Pure.

- *native*: Squid's format, `time elapsed client code/status bytes method URL user hierarchy/peer type`, with a time
in seconds and milliseconds and an elapsed time in milliseconds. Squid writes the time of the end, Traffic Server that
of the start. - *combined* (and *common*): `client ident user [time] "request" status bytes ...`, with a time in whole
seconds. nginx writes the time of the end, Apache that of the start. The last field may be a duration that the
administrator has added (nginx `$request_time`, Apache `%D`, `%T`).
"""

from __future__ import annotations

import re
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
_TIME: Final = re.compile(rb"(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})")
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
    """How lines are read. `duration`: unit of the last field of combined lines; None: they have no duration."""

    name: Format = "auto"
    duration: DurationUnit | None = None


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
    duration_ns = _duration(int(elapsed) * UNITS_NS["ms"])
    at_ns = int(seconds) * SECOND_NS + int(ms) * UNITS_NS["ms"]
    start_ns = at_ns if form.name == "trafficserver" else at_ns - duration_ns
    host, path = _split(method, url)
    # `%03d` of a status that was not sent is 000.
    return AccessRecord(
        start_ns, UNITS_NS["ms"], duration_ns, client, method, host, path, int(status), _size(int(size))
    )


def _combined(match: re.Match[bytes], line: bytes, form: LineFormat) -> AccessRecord:
    virtual_host, client, stamp, request, status, size = match.groups()
    at_ns = _stamp(stamp)
    parts = _REQUEST.match(request)
    if parts is None:
        raise LineError("the request is not METHOD PATH PROTOCOL")
    duration_ns = None
    if form.duration is not None:
        last = _LAST.search(line, match.end())
        if last is None:
            raise LineError("the last field is not a duration")
        duration_ns = _duration(round(float(last[1]) * UNITS_NS[form.duration]))
    start_ns = at_ns if duration_ns is None or form.name == "apache" else at_ns - duration_ns
    host, path = _split(parts[1], _unescape(parts[2]))
    return AccessRecord(
        start_ns,
        SECOND_NS,
        duration_ns,
        client,
        parts[1],
        host or virtual_host or b"",
        path,
        0 if status == b"-" else int(status),
        None if size == b"-" else _size(int(size)),
    )


def _split(method: bytes, url: bytes) -> tuple[bytes, bytes]:
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


def _unescape(text: bytes) -> bytes:
    r"""A request without the escapes of the log: `\x22`, `\"`, `\\`."""
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()) if found[1] else found[2], text)


def _duration(ns: int) -> int:
    if not 0 <= ns <= MAX_DURATION_NS:
        raise LineError("the duration is negative or longer than 7 days")
    return ns


def _size(size: int) -> int:
    if not 0 <= size <= MAX_SIZE:
        raise LineError("the size is negative or too large")
    return size


@lru_cache(maxsize=4096)
def _stamp(text: bytes) -> int:
    """ns since 1970 of `25/Nov/2026:16:49:02 +0100`."""
    match = _TIME.fullmatch(text)
    if match is None or int(match[3]) not in _YEARS:
        raise LineError("the time is not DAY/MONTH/YEAR:HOUR:MINUTE:SECOND ZONE of the years 1990 to 2100")
    day, month, year, hour, minute, second, sign, hours, minutes = match.groups()
    try:
        at = datetime(
            int(year), _MONTHS.get(month, 0), int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
    except ValueError:
        raise LineError("the time does not exist") from None
    zone = timedelta(hours=int(hours), minutes=int(minutes))
    since = at - (zone if sign == b"+" else -zone) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND_NS
