"""Lines of access logs of every format, and lines that are not."""

from __future__ import annotations

import random

import pytest

from plimsoll.plan.queries.access_line import AccessRecord, LineError, LineFormat, parse_line

AUTO = LineFormat()
START_NS = 1_795_621_742 * 10**9
"""2026-11-25 15:49:02 UTC."""
NGINX = b'192.0.2.7 - - [25/Nov/2026:16:49:02 +0100] "GET /a/b?c=1 HTTP/1.1" 200 512 "-" "curl/7.88.1"'
SQUID = (
    b"1795621742.345    145 192.0.2.7 TCP_MISS/200 850 GET http://Host:80/a?b - HIER_DIRECT/1.2.3.4 text/html"
)


def reason(line: bytes, form: LineFormat = AUTO) -> str:
    with pytest.raises(LineError) as caught:
        parse_line(line, form)
    return str(caught.value)


def test_a_combined_line() -> None:
    assert parse_line(NGINX, AUTO) == AccessRecord(
        START_NS, 10**9, None, b"192.0.2.7", b"GET", b"", b"/a/b?c=1", 200, 512
    )


def test_the_time_is_that_of_the_end_for_nginx_and_of_the_start_for_apache() -> None:
    nginx = parse_line(NGINX + b" 1.250", LineFormat("nginx", "s"))
    assert (nginx.start_ns, nginx.duration_ns) == (START_NS - 1_250_000_000, 1_250_000_000)
    apache = parse_line(NGINX + b" 1250000", LineFormat("apache", "us"))
    assert (apache.start_ns, apache.duration_ns) == (START_NS, 1_250_000_000)


def test_a_native_line_has_the_time_of_the_end_except_of_traffic_server() -> None:
    squid = parse_line(SQUID, AUTO)
    assert squid == AccessRecord(
        START_NS + 200_000_000, 10**6, 145_000_000, b"192.0.2.7", b"GET", b"host:80", b"/a?b", 200, 850
    )
    assert parse_line(SQUID, LineFormat("trafficserver")).start_ns == START_NS + 345_000_000


@pytest.mark.parametrize(
    ("line", "host", "path"),
    [
        (NGINX.replace(b"192.0.2.7", b"2001:db8::1"), b"", b"/a/b?c=1"),
        (b"www.example.org:443 " + NGINX, b"www.example.org", b"/a/b?c=1"),
        (NGINX.replace(b"/a/b?c=1", b"http://X.org/a"), b"x.org", b"/a"),
        (NGINX.replace(b"/a/b?c=1", b"http://x.org"), b"x.org", b"/"),
        (NGINX.replace(b"/a/b?c=1", b"http://x.org?q"), b"x.org", b"/?q"),
        (NGINX.replace(b"- - [", b"- some user ["), b"", b"/a/b?c=1"),
        # Escapes of nginx and of Apache. Bytes that would begin a line, or that are not ASCII, remain escaped.
        (NGINX.replace(b"/a/b", rb"/\x22\x0D\x0AHost:\xC3\xA4"), b"", b'/"%0D%0AHost:%C3%A4?c=1'),
        (NGINX.replace(b"/a/b", rb"/\"b\\"), b"", b'/"b\\?c=1'),
        (NGINX.replace(b"/a/b", b"/\xff\x80"), b"", b"/%FF%80?c=1"),
        (NGINX.replace(b"/a/b", b"/{tester}"), b"", b"/{tester}?c=1"),
    ],
)
def test_hosts_and_paths(line: bytes, host: bytes, path: bytes) -> None:
    record = parse_line(line, AUTO)
    assert (record.host, record.path) == (host, path)


def test_a_request_that_forges_the_end_of_its_line_is_one_request() -> None:
    line = NGINX.replace(b"/a/b?c=1", rb"/a\" 404 7 \"-\" \"x")
    assert reason(line) == "the request is not METHOD PATH PROTOCOL"
    user = NGINX.replace(b"- - [", rb"- x [25/Nov/2026:00:00:00 +0000] \"GET /forged HTTP/1.1\" 200 1 [")
    assert reason(user) == "the line is not in a known format"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "known format"),
        (b"\x00\xff" * 100, "known format"),
        (NGINX.replace(b"25/Nov", b"31/Feb"), "does not exist"),
        (NGINX.replace(b"25/Nov", b"25/Foo"), "does not exist"),
        (NGINX.replace(b"2026", b"9999"), "1990 to 2100"),
        (NGINX.replace(b"16:49:02", b"25:61:02"), "does not exist"),
        (NGINX.replace(b"+0100", b"nowhere"), "the time is not"),
        (NGINX.replace(b"512", b"-512"), "size is negative"),
        (SQUID.replace(b" 850 ", b" -850 "), "size is negative"),
        (SQUID.replace(b" 850 ", b" 999999999999999999 "), "too large"),
        (SQUID.replace(b" 145 ", b" -145 "), "duration is negative"),
        (SQUID.replace(b"http://Host:80/a?b", b"ftp://x/y"), "neither a path nor a URL"),
        (NGINX.replace(b"GET /a/b?c=1 HTTP/1.1", rb"\x16\x03\x01"), "METHOD PATH"),
        (NGINX.replace(b"GET /a/b?c=1 HTTP/1.1", b"-"), "METHOD PATH"),
        (NGINX[:60], "known format"),
    ],
)
def test_lines_that_are_not_requests(line: bytes, text: str) -> None:
    assert text in reason(line)


def test_a_missing_duration() -> None:
    assert reason(NGINX + b" -", LineFormat("nginx", "s")) == "the last field is not a duration"
    assert reason(SQUID, LineFormat("nginx")) == "the line is not in a known format"


def test_other_methods_have_no_path() -> None:
    assert (
        parse_line(SQUID.replace(b"GET http://Host:80/a?b", b"CONNECT host:443"), AUTO).method == b"CONNECT"
    )
    assert parse_line(NGINX.replace(b"GET /a/b?c=1", b"OPTIONS *"), AUTO).method == b"OPTIONS"


def test_changed_lines_raise_nothing_else() -> None:
    draw = random.Random(1)
    for _ in range(20_000):
        line = bytearray(draw.choice((NGINX + b" 0.5", SQUID)))
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(line))
            match draw.randrange(3):
                case 0:
                    line[at] = draw.randrange(256)
                case 1:
                    del line[at]
                case 2:
                    line[at:at] = draw.choice((b" ", b'"', b"\\", b"[", b"-", b"9" * 40, b"\xff"))
        try:
            record = parse_line(bytes(line), draw.choice((AUTO, LineFormat("nginx", "s"))))
        except LineError:
            continue
        assert record.path.isascii() and b"\n" not in record.path and record.path.startswith(b"/")
        assert (record.size or 0) >= 0 and (record.duration_ns or 0) >= 0


@pytest.mark.parametrize("text", [b" ", b"\\", b'"', b"[", b"a", b"/", b"a:1 ", b"1", b'\\"'])
def test_long_lines_take_no_longer_than_their_length(text: bytes) -> None:
    """Quadratic time would be minutes, which is the time-out of a test."""
    for prefix in (b"", NGINX[:40], NGINX[:52], SQUID[:40]):
        with pytest.raises(LineError):
            parse_line(prefix + text * (64 * 1024 // len(text)), AUTO)
