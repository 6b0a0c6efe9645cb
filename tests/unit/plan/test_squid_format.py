"""Format strings of Squid. The lines were written by Squid 5.7 with these formats; an origin took 120 ms to answer."""

from __future__ import annotations

import pytest

from plimsoll.plan.queries.access_line import AccessRecord, LineError
from plimsoll.plan.queries.log_fields import FormatError
from plimsoll.plan.queries.log_format import line_format, line_parser

S, MS, US = 10**9, 10**6, 10**3
AT_NS = 1_795_797_572 * S
"""2026-11-27 16:39:32 UTC."""
NATIVE = "%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %Sh/%<a %<pt %dt"
COMBINED = '%>a %[ui %[un [%tl] "%rm %ru HTTP/%rv" %>Hs %<st "%{Referer}>h" "%{User-Agent}>h" %Ss:%Sh'
PARTS = "%tS|%.6tu|%tr|%-16>a|%>Hs|%http::>rm|%>rd|%>rp|%<st|%{%Y-%m-%dT%H:%M:%S%z}tl|%09ts"
LINES = {
    NATIVE: (
        "1795797572.706    123 127.0.0.1 TCP_MISS/200 548 GET http://other.example/a%20b?c=1&d=%22 "
        "FIRSTUP_PARENT/127.0.0.1 121 -",
        "1795797572.717      0 127.0.0.1 TCP_MEM_HIT/200 254 HEAD http://127.0.0.1:39128/ HIER_NONE/- - -",
    ),
    COMBINED: (
        '127.0.0.1 - - [27/Nov/2026:16:39:32 +0000] "GET http://other.example/a%20b?c=1&d=%22 HTTP/1.1" 200 548 "-" '
        '"a \\"b\\" [c]" TCP_MISS:FIRSTUP_PARENT',
        '127.0.0.1 - - [27/Nov/2026:16:39:32 +0000] "HEAD http://127.0.0.1:39128/ HTTP/1.1" 200 254 "-" '
        '"curl/7.88.1" TCP_MEM_HIT:HIER_NONE',
    ),
    PARTS: (
        "1795797572.582|706247|123|127.0.0.1       |200|GET|other.example|/a%20b?c=1&d=%22|548|"
        "2026-11-27T16:39:32+0000|1795797572",
        "1795797572.717|717373|0|127.0.0.1       |200|HEAD|127.0.0.1|/|254|2026-11-27T16:39:32+0000|1795797572",
    ),
}  # fmt: skip


def record(text: str, line: str) -> AccessRecord:
    return line_parser(line_format(text))(line.encode())


@pytest.mark.parametrize(
    ("text", "start_ns", "grain_ns", "duration_ns"),
    [
        # The time is that of the end.
        (NATIVE, AT_NS + (706 - 123) * MS, MS, 123 * MS),
        (f"logformat timed  {NATIVE}", AT_NS + (706 - 123) * MS, MS, 123 * MS),
        (COMBINED, AT_NS, S, None),
        (PARTS, AT_NS + 706_247 * US - 123 * MS, MS, 123 * MS),
    ],
)
def test_a_line_of_squid_is_a_request(
    text: str, start_ns: int, grain_ns: int, duration_ns: int | None
) -> None:
    first, second = LINES[text.removeprefix("logformat timed  ")]
    found = record(text, first)
    assert (found.start_ns, found.grain_ns, found.duration_ns) == (start_ns, grain_ns, duration_ns)
    assert (found.client, found.method, found.status, found.size) == (b"127.0.0.1", b"GET", 200, 548)
    assert (found.host, found.path) == (b"other.example", b"/a%20b?c=1&d=%22")
    head = record(text, second)
    assert (head.method, head.path, head.size) == (b"HEAD", b"/", 254)


def test_the_time_of_the_start_is_used_as_it_is() -> None:
    found = record(
        "%tS %.6tu %tr %>a %03>Hs %<st %rm %ru", "1795797572.582 706247 123 192.0.2.7 200 548 GET /a"
    )
    assert (found.start_ns, found.grain_ns, found.duration_ns) == (AT_NS + 582 * MS, MS, 123 * MS)


def test_the_native_format_is_read_as_by_its_name() -> None:
    for line in LINES[NATIVE]:
        assert record(NATIVE, line) == record("squid", line)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("%6tr %>a %>Hs %rm %ru", "has no time.*%ts.%03tu"),
        ("%03tu %>a %>Hs %rm %ru", "has no time"),
        ("%ts.%03tu %>a %>Hs %rm", "has no request.*%rm and %ru"),
        ("%ts.%03tu %>a %>Hs %ru", "has no request"),
        ("%ts.%03tu %>a %rm %ru", "has no status.*%>Hs"),
        ("%ts %.7tu %>a %>Hs %rm %ru", "precision of 1 to 6"),
        ("%{%H:%M}tl %>a %>Hs %rm %ru", "a time needs year"),
        ("%ts %>a%rm %>Hs %ru", "nothing separates %rm"),
        ("%ts %>a %>Hs %rm %ru %?", "malformed near '%\\?'"),
    ],
)
def test_a_format_without_what_is_needed_is_refused(text: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        line_format(text)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1795797572.706 123 127.0.0.1 TCP_MISS/200 548 GET",
        "1795797572.706 abc 127.0.0.1 TCP_MISS/200 548 GET /a HIER_NONE/- - -",
        "1795797572.706 -1 127.0.0.1 TCP_MISS/200 548 GET /a HIER_NONE/- - -",
        "1795797572.706 123 127.0.0.1 TCP_MISS/200 548 get /a HIER_NONE/- - -",
    ],
)
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(LineError):
        record(NATIVE, line)


def test_codes_that_are_not_used_and_literal_signs_are_skipped() -> None:
    text = "100%% %ts %note{a} %ssl::>sni %>a %>Hs %<st %rm %ru %external_acl{x}"
    found = record(text, "100% 1795797572 - - 192.0.2.7 200 548 GET /a -")
    assert (found.client, found.path, found.grain_ns) == (b"192.0.2.7", b"/a", S)
