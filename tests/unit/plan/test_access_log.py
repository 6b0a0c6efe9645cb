"""Files of access logs: columns, counts of what is not used, damaged and hostile files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from plimsoll.plan.queries import access_log
from plimsoll.plan.queries.access_line import MAX_LINE, LineFormat
from plimsoll.plan.queries.access_log import AccessLog, read_access_log


def squid(at: float, elapsed_ms: int = 0, path: str = "/a", method: str = "GET", status: int = 200) -> bytes:
    return f"{at:.3f} {elapsed_ms} 10.0.0.1 TCP_MISS/{status:03d} 10 {method} http://h{path} - NONE/- -\n".encode()


def read(path: Path, content: bytes) -> AccessLog:
    path.write_bytes(content)
    return read_access_log(path, LineFormat())


def test_requests_are_in_the_order_of_their_starts(tmp_path: Path) -> None:
    lines = squid(1e9 + 5, 4000, "/slow") + squid(1e9 + 3, 0, "/b") + squid(1e9 + 4, 0, "/slow", "HEAD")
    log = read(tmp_path / "x.log", lines)
    assert [at - 10**18 for at in log.start_ns] == [1_000_000_000, 3_000_000_000, 4_000_000_000]
    assert [log.paths[at] for at in log.object] == [b"/slow", b"/b", b"/slow"]
    assert list(log.is_head) == [0, 0, 1]
    assert (log.hosts, log.clients, log.grain_ns) == ((b"h", b"h"), 1, 10**6)


def test_what_is_not_used_is_counted(tmp_path: Path) -> None:
    lines = [
        squid(1e9), squid(1e9, method="POST"), squid(1e9, status=404), squid(1e9, status=0), b"rubbish\n",
        squid(1e9, -1), b"\n", squid(1e9, path="/" + "x" * 2 * MAX_LINE), squid(1e9, status=304),
    ]  # fmt: skip
    counts = read(tmp_path / "x.log", b"".join(lines)).counts
    assert (counts.lines, counts.used, counts.other_methods, counts.failed) == (9, 2, 1, 2)
    assert counts.malformed == {
        "the line is not in a known format": 2,
        "the duration is negative or longer than 7 days": 1,
        "the line is longer than 65,536 bytes": 1,
    }
    assert counts.first_malformed == 5
    assert counts.remark("x.log") == (
        "x.log: 2 requests in 9 lines; 1 with methods other than GET and HEAD are not used; 2 without a status below "
        "400 are not used; 4 lines cannot be read, the first is line 5 (2: the line is not in a known format, 1: the "
        "duration is negative or longer than 7 days, 1: the line is longer than 65,536 bytes)"
    )


def test_a_truncated_or_damaged_gzip_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(squid(1e9 + at, path=f"/{at * 7919 % 1000}") for at in range(20_000)))
    assert read(tmp_path / "x.gz", packed).counts.stopped == ""
    cut = read(tmp_path / "cut.gz", packed[: len(packed) // 2]).counts
    assert 0 < cut.used < 20_000
    assert cut.stopped == f"the compressed file is truncated or damaged after line {cut.lines:,}"
    broken = bytearray(packed)
    broken[len(packed) // 2 :][:200] = b""
    broken[len(packed) // 2 : len(packed) // 2 + 200] = b"\x55" * 200
    assert "damaged after line" in read(tmp_path / "broken.gz", bytes(broken)).counts.stopped
    assert read(tmp_path / "head.gz", b"\x1f\x8b\x08broken").counts.used == 0


def test_binary_files_have_no_requests(tmp_path: Path) -> None:
    counts = read(tmp_path / "x", bytes(range(256)) * 1000).counts
    assert (counts.used, counts.all_malformed) == (0, counts.lines)
    assert read(tmp_path / "empty", b"").counts.lines == 0
    assert read(tmp_path / "long", b"x" * 10 * MAX_LINE).counts.lines == 1


def test_a_log_beyond_a_limit_is_read_up_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(squid(1e9 + at, path=f"/{at % 10}") for at in range(50))
    monkeypatch.setattr(access_log, "MAX_REQUESTS", 20)
    counts = read(tmp_path / "a.log", content).counts
    assert (counts.lines, counts.used) == (20, 20)
    assert counts.stopped == "reading stopped at line 21: at most 20 requests are used"
    monkeypatch.setattr(access_log, "MAX_TEXT", 40)
    assert "longer than 40 bytes" in read(tmp_path / "b.log", content).counts.stopped
    (tmp_path / "c.log").write_bytes(content)
    found = read_access_log(tmp_path / "c.log", LineFormat(), 3).counts
    assert (found.used, found.stopped) == (3, "reading stopped at line 4: at most 3 paths are used")
