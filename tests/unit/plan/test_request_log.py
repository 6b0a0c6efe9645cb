"""Frontier queries from logs: formats, times, damaged lines, limits."""

from __future__ import annotations

import base64
import gzip
import zlib
from pathlib import Path

import pytest

from plimsoll.plan.queries import request_log
from plimsoll.plan.queries.request_log import read_request_log, time_of, unpack_query

WORKED = (
    "eNoLdvVxdQ5R8PQPiw-29HN21QGxQv1CPH10AhwjffwdXRTcgvx9FdwMDAwM44GSwQrhHq5BrgrOHo5.fq4.8Z4utuYApg4TCg__"
)
"""As the public client packs it; with `-` and `_` and `.` of the protocol's alphabet."""
WORKED_SQL = "SELECT IOV_SINCE,IOV_UNTIL,PAYLOAD FROM F0001_IOVS WHERE CHANNEL_ID=7"


def packed(sql: str) -> str:
    text = base64.b64encode(zlib.compress(sql.encode(), 9)).decode()
    return text.translate(str.maketrans("+/=", ".-_"))


def url(*queries: str, tail: str = "") -> str:
    groups = "&".join(
        f"type=frontier_request:1:DEFAULT&encoding=BLOBzip5&p1={packed(query)}" for query in queries
    )
    return f"http://h:8000/F/Frontier/{groups}{tail}"


def native(end_s: float, took_ms: int, *queries: str) -> str:
    return f"{end_s:.3f} {took_ms:6d} 10.0.0.1 TCP_MISS/200 900 GET {url(*queries)} - HIER_DIRECT/h text/xml"


def written(directory: Path, *lines: str, name: str = "access.log") -> Path:
    path = directory / name
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def test_the_example_of_the_protocol_is_unpacked() -> None:
    assert unpack_query(WORKED.encode()) == WORKED_SQL
    assert unpack_query(packed(WORKED_SQL + "\n").encode()) == WORKED_SQL
    assert unpack_query(WORKED.replace(".", "%2E").encode()) == WORKED_SQL


@pytest.mark.parametrize(
    ("p1", "message"),
    [
        ("!!", "not base64"),
        ("AAAA", "not zlib"),
        (packed("x" * 300_000), "more than 262,144 bytes"),
        (packed("SELECT 1")[:8], "p1 is truncated"),
        (packed(" \n"), "is empty"),
        ("", "p1 is truncated"),
    ],
)
def test_invalid_queries_are_rejected_with_the_reason(p1: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack_query(p1.encode())


@pytest.mark.parametrize(
    ("line", "second"),
    [
        ("1300000000.250    250 10.0.0.1 TCP_HIT/200 9 GET http://h/ - - -", 1_300_000_000.0),
        ('10.0.0.1 - - [13/Mar/2011:08:06:40 +0100] "GET http://h/ HTTP/1.0" 200 9', 1_300_000_000.0),
        ('10.0.0.1 - - [13/Mar/2011:00:06:40 -0700] "GET http://h/ HTTP/1.0" 200 9', 1_300_000_000.0),
        (
            "Lab 03/13/11 07:06:40.500 UTC +0000 id=7 servlet_version:3.42 start threads:1 query ",
            1_300_000_000.5,
        ),
        ("type=frontier_request:1", None),
        ("1300000000", None),
        ('- [31/Feb/2011:08:06:40 +0100] "GET', None),
        ('- [13/Mrz/2011:08:06:40 +0100] "GET', None),
    ],
)
def test_times_of_all_formats_are_parsed(line: str, second: float | None) -> None:
    assert time_of(line.encode()) == (None if second is None else round(second * 1e9))


@pytest.mark.parametrize("name", ["access.log", "access.log.gz"])
def test_a_log_of_a_cache_is_read_in_the_order_of_starts(tmp_path: Path, name: str) -> None:
    log = read_request_log(
        written(
            tmp_path,
            # The request of the second line ended first, and started after that of the first line.
            native(1_300_000_002.0, 1_500, "SELECT 1"),
            native(1_300_000_001.9, 100, "SELECT 2"),
            native(1_300_000_003.0, 0, "SELECT 1", "SELECT 3"),
            "1300000003.000 1 10.0.0.1 TCP_MISS/200 9 GET http://h/index.html - - -",
            f"1300000004.000 1 10.0.0.1 TCP_MISS/200 9 GET {url('SELECT 4')[:90]} - - -",
            "1300000004.000 1 10.0.0.1 TCP_MISS/200 9 GET http://h/Frontier/type=frontier_request:1 - - -",
            name=name,
        )
    )
    assert dict(zip(log.queries, log.counts, strict=True)) == {"SELECT 1": 2, "SELECT 2": 1, "SELECT 3": 1}
    assert [log.queries[index] for index in log.order] == ["SELECT 1", "SELECT 2", "SELECT 1", "SELECT 3"]
    assert log.at_ns == (0, 1_300_000_000, 2_500_000_000, 2_500_000_000)
    assert (log.lines, log.other, log.bad, log.left_out) == (6, 1, 2, 0)
    remark = log.remark("access.log")
    assert "access.log: 4 requests of 3 queries in 6 lines" in remark
    assert "1 line contains no Frontier request; 2 requests cannot be read (line 5: p1 is " in remark


def test_a_log_of_the_servlet_is_read(tmp_path: Path) -> None:
    head = "Lab 03/13/11 07:06:4{}.000 UTC +0000 id=7 "
    path = url("SELECT 1", tail="&ttl=short")[len("http://h:8000/F/Frontier") :]
    log = read_request_log(
        written(
            tmp_path,
            head.format(0)
            + f"servlet_version:3.42 start threads:1 query {path} raddr 10.0.0.1 frontier-id: x",
            head.format(0) + "SQL [SELECT 1]",
            head.format(2)
            + f"servlet_version:3.42 start threads:1 query {path} raddr 10.0.0.1 frontier-id: x",
        )
    )
    assert (log.queries, log.counts, log.at_ns) == (("SELECT 1",), (2,), (0, 2_000_000_000))


def test_without_times_the_order_is_that_of_the_lines(tmp_path: Path) -> None:
    log = read_request_log(written(tmp_path, url("SELECT 2"), native(5e9, 0, "SELECT 1")))
    assert [log.queries[index] for index in log.order] == ["SELECT 2", "SELECT 1"]
    assert log.at_ns is None


def test_the_limits_of_a_log_are_applied_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "MAX_QUERIES", 3)
    monkeypatch.setattr(request_log, "MAX_REQUESTS", 8)
    lines = [url(f"SELECT {number % 5}") for number in range(20)]
    log = read_request_log(written(tmp_path, *lines, "x" * 1_000_000))
    assert log.queries == ("SELECT 0", "SELECT 1", "SELECT 2")
    assert log.counts == (4, 4, 4)
    assert len(log.order) == 8
    assert log.left_out == 8 + 4
    assert "12 requests are left out" in log.remark("x")


def test_a_log_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = written(tmp_path, url("SELECT 1"))
    first = read_request_log(path)
    assert read_request_log(path) is first
    written(tmp_path, url("SELECT 1"), url("SELECT 2"))
    assert len(read_request_log(path).queries) == 2
