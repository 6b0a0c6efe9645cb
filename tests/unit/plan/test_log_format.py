"""Format strings of nginx and Apache: which are read, and what their lines contain.

The lines of nginx were written by nginx 1.22 with these formats; those of Apache follow the examples of its
documentation of mod_log_config.
"""

from __future__ import annotations

import random
import time

import pytest
from tests.unit.plan.helpers import edited, problems

from plimsoll.plan.queries.access_line import AccessRecord, LineError, LineFormat
from plimsoll.plan.queries.log_fields import FormatError
from plimsoll.plan.queries.log_format import line_format, line_parser

AT_NS = 1_795_621_742 * 10**9
"""2026-11-25 15:49:02 UTC."""
MS = 10**6
NGINX = '$remote_addr [$time_local] "$request" $status $body_bytes_sent'
COMBINED = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i"'


def record(text: str, line: str) -> AccessRecord:
    return line_parser(line_format(text))(line.encode())


@pytest.mark.parametrize(
    ("text", "line", "start_ns", "grain_ns", "duration_ns"),
    [
        # nginx writes the time of the end, so that the start is the time less the duration.
        (NGINX, '192.0.2.7 [25/Nov/2026:16:49:02 +0100] "GET /a?b HTTP/1.1" 200 512', AT_NS, 10**9, None),
        (
            '$msec $request_time $remote_addr "$request" $status $body_bytes_sent',
            '1795621742.345 0.145 192.0.2.7 "GET /a?b HTTP/1.1" 200 512',
            AT_NS + 200 * MS, MS, 145 * MS,
        ),
        (
            '$remote_addr $request_method $host $request_uri $status $bytes_sent $msec $request_time '
            '$upstream_addr $upstream_response_time',
            "192.0.2.7 GET Site.example /a?b 200 512 1795621742.345 0.145 10.0.0.1:80, 10.0.0.2:80 0.100, 0.044",
            AT_NS + 200 * MS, MS, 145 * MS,
        ),
        (
            "$remote_addr|$time_iso8601|$request_method|$uri$is_args$args|$status|$body_bytes_sent|$request_time",
            "192.0.2.7|2026-11-25T16:49:02+01:00|GET|/a?b|200|512|1.500",
            AT_NS - 1500 * MS, 10**9, 1500 * MS,
        ),
        (
            'log_format json escape=json \'{"at":"$msec","ip":"$remote_addr","req":"$request",\'\n'
            '  \'"agent":"$http_user_agent","status":"$status","size":"$body_bytes_sent"}\';',
            '{"at":"1795621742.345","ip":"192.0.2.7","req":"GET /a?b HTTP/1.1","agent":"a \\"b\\" {c}","status":"200",'
            '"size":"512"}',
            AT_NS + 345 * MS, MS, None,
        ),
        # Apache writes the time of the start, unless it is `end:`.
        (COMBINED + " %D",
         '192.0.2.7 - a b [25/Nov/2026:16:49:02 +0100] "GET /a?b HTTP/1.1" 200 512 "-" "x \\"y" 145000',
         AT_NS, 10**9, 145 * MS),
        ('%{usec}t %D %h "%r" %>s %B', '1795621742345678 145000 192.0.2.7 "GET /a?b HTTP/1.1" 200 512',
         AT_NS + 345_678_000, 1000, 145 * MS),
        ('%{end:usec}t %D %h "%r" %s %O', '1795621742345678 145000 192.0.2.7 "GET /a?b HTTP/1.1" 200 512',
         AT_NS + 200_678_000, 1000, 145 * MS),
        ('%{end:msec}t %{ms}T %a %m %U%q %>s %b', "1795621742345 145 192.0.2.7 GET /a?b 200 512",
         AT_NS + 200 * MS, MS, 145 * MS),
        ('%a %{%d/%b/%Y %T}t.%{usec_frac}t "%r" %>s %B %T',
         '192.0.2.7 25/Nov/2026 15:49:02.345678 "GET /a?b HTTP/1.1" 200 512 3',
         AT_NS + 345_678_000, 1000, 3 * 10**9),
        ('%a %{%F %T %z}t "%r" %400,501s %B', '192.0.2.7 2026-11-25 16:49:02 +0100 "GET /a?b HTTP/1.1" 200 512',
         AT_NS, 10**9, None),
    ],
)  # fmt: skip
def test_times_and_requests_of_custom_formats(
    text: str, line: str, start_ns: int, grain_ns: int, duration_ns: int | None
) -> None:
    found = record(text, line)
    assert (found.start_ns, found.grain_ns, found.duration_ns) == (start_ns, grain_ns, duration_ns)
    assert (found.client, found.method, found.path, found.status) == (b"192.0.2.7", b"GET", b"/a?b", 200)
    assert found.size == 512


def test_the_host_is_that_of_the_header_or_of_the_server() -> None:
    line = '192.0.2.7 [25/Nov/2026:16:49:02 +0100] "GET /a HTTP/1.1" 200 512 Site.Example www'
    assert record(f"{NGINX} $http_host $server_name", line).host == b"site.example"
    assert record(f"{NGINX} $http_host $server_name", line.replace("Site.Example", "-")).host == b""
    line = line.replace('"GET /a', '"GET http://x.org/a')
    assert record(f"{NGINX} $http_host $server_name", line).host == b"x.org"
    apache = 'v.example 192.0.2.7 [25/Nov/2026:16:49:02 +0100] "GET / HTTP/1.0" 200 -'
    assert record('%v %h %t "%r" %>s %b', apache).host == b"v.example"


def test_missing_values_are_a_dash() -> None:
    found = record('$remote_addr [$time_local] "$request" $status $bytes_sent $request_time',
                   '192.0.2.7 [25/Nov/2026:16:49:02 +0100] "HEAD / HTTP/1.1" - - -')  # fmt: skip
    assert (found.status, found.size, found.duration_ns, found.start_ns) == (0, None, None, AT_NS)


def test_escapes_and_forged_fields_stay_in_their_field() -> None:
    form = '"$request" $remote_user [$time_local] $status "$http_user_agent" $msec'
    line = (
        r'"GET /\x22%20200 HTTP/1.1" some user [25/Nov/2026:16:49:02 +0100] 404 "x\x22 1.000" 1795621742.345'
    )
    found = record(form, line)
    assert (found.path, found.status, found.start_ns) == (b'/"%20200', 404, AT_NS + 345 * MS)
    apache = r'192.0.2.7 - - [25/Nov/2026:16:49:02 +0100] "GET /a\" 500 1 \" HTTP/1.1" 200 5 "-" "\\"'
    with pytest.raises(LineError, match="the request is not METHOD PATH PROTOCOL"):
        record(COMBINED, apache)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ngnix", "expected one of auto, nginx, apache, squid, trafficserver, or a format string"),
        ("", "expected one of"),
        ("$remote_addr $msec $status", "the format has no request"),
        ("$remote_addr $request $status", "the format has no time"),
        ("$msec $request", "the format has no status"),
        ("$msec$remote_addr$request $status", "nothing separates $request from the field before it"),
        ("%h %r %>s %{%c}t", "%c of a time cannot be read"),
        ("%h %r %>s %{%H:%M}t", "a time needs year, month, day, hour, minute and second"),
        (
            'LogFormat "%a %{%T}t %{%F}t %r %>s" timed',
            "a time needs year, month, day, hour, minute and second",
        ),
        ("%h %r %>s %{min}T %t", "%{min}T: expected %{s}T, %{ms}T or %{us}T"),
        ("%h %r %>s %t %", "a directive is malformed near '%'"),
        ("%h %r %>s %t %1", "a directive is malformed near '%1'"),
        ("%{sec}t %{end:msec_frac}t %r %s", "one part of the time is that of the begin"),
        ("log_format x '$msec", "the directive log_format cannot be read"),
        ("$msec\x07 $request $status", "the format contains a control character"),
        ("$a " * 81 + "$msec $request $status", "84 fields; at most 80 are supported"),
        ("$msec $request $status" + " " * 4000, "4,022 characters; at most 4,000"),
    ],
)
def test_formats_that_cannot_be_used_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(FormatError) as caught:
        line_format(text)
    assert reason in str(caught.value)


def test_names_have_a_unit_of_the_duration_and_format_strings_have_none() -> None:
    assert line_format("nginx", "s") == LineFormat("nginx", "s")
    with pytest.raises(FormatError, match="a format string contains the duration itself"):
        line_format(NGINX, "s")


def test_a_line_takes_time_in_proportion_to_its_length() -> None:
    """A pattern that backtracks would need minutes."""
    parse = line_parser(
        line_format('$remote_addr $remote_user [$time_local] "$request" "$http_a" "$http_b" $status')
    )
    begin = time.process_time()
    for line in (b"a " * 32_000, b'"' * 64_000, b"\\" * 63_999, b'1 [25/Nov/2026:16:49:02 +0100] "' * 2_000):
        with pytest.raises(LineError):
            parse(line)
    assert time.process_time() - begin < 5


def test_damaged_lines_are_records_or_errors() -> None:
    draw = random.Random(5)
    parse = line_parser(line_format(NGINX))
    whole = b'192.0.2.7 [25/Nov/2026:16:49:02 +0100] "GET /a?b HTTP/1.1" 200 512'
    for _ in range(5000):
        line = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            line[draw.randrange(len(line))] = draw.randrange(256)
        try:
            found = parse(bytes(line))
        except LineError:
            continue
        assert found.path.startswith(b"/") and found.path.isascii()


def test_the_experiment_file_names_a_format_that_cannot_be_used() -> None:
    text = edited(
        "  target: web\n", "  target: web\n  http: {from_log: {file: a.log, format: '$msec $status'}}\n"
    )
    (message,) = problems(text)
    assert message.startswith(
        "x.yaml:8: workload.http.from_log.format: the format has no request: expected $request"
    )
