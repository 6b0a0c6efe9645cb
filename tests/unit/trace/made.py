"""A small profile and its pictures in the form of the engine, for tests of the page."""

from __future__ import annotations

import json
from typing import Any

from plimsoll.trace.pictures import Pictures
from plimsoll.trace.pictures import read as read_pictures
from plimsoll.trace.profile import ProfileDocument, read

HOSTILE = (
    "/data/</script><img src=x onerror=alert(1)>.root",
    "/data/\"quoted\" 'names' & <b>bold</b>",
    "/data/line\\x0abreak\\x09tab",
    "/data/\u202egnp.exe",
    "/data/\\xff\\xfe not UTF-8 \u2028 \u2029",
    "/data/{{ 7 * 7 }} ${7*7} <!-- ]]>",
)
"""Names as they come from outside, in the engine's spelling: control characters and what is no UTF-8 as \\xNN."""


def times(seconds: float, *, corrected: bool = True) -> dict[str, float | None]:
    """A time of which a fifth was tracing."""
    parts = (0.7, 0.8, 0.9) if corrected else (None, None, None)
    low, best, high = (None if part is None else seconds * part for part in parts)
    return {"recorded_s": seconds, "low_s": low, "corrected_s": best, "high_s": high}


def spread(values: list[float], unit: float = 1.0) -> dict[str, Any]:
    """How values are spread."""
    mean = sum(values) / len(values)
    low = unit
    while low * 2 <= max(values):
        low *= 2
    bins = [{"from": low, "to": low * 2, "count": len(values)}]
    return {
        "count": len(values),
        "mean": mean,
        "sd": 0.0,
        "min": min(values),
        "max": max(values),
        "histogram": bins,
    }


def io(reads: int, writes: int, size: int = 4096, *, corrected: bool = True) -> dict[str, Any]:
    """Requests of one size; each takes 10 us."""

    def side(requests: int) -> dict[str, Any] | None:
        if not requests:
            return None
        return {
            "size": spread([float(size)] * requests),
            "duration_s": spread([1e-5] * requests, 1e-9),
            "speed": spread([size / 1e-5] * requests),
            "small": 0,
            "small_s": 0.0,
        }  # fmt: skip

    return {
        "opens": 1, "reads": reads, "read_bytes": reads * size, "unique_read_bytes": reads * size // 2,
        "reread_bytes": reads * size // 2, "short_reads": 0, "end_reads": 1 if reads else 0, "writes": writes,
        "write_bytes": writes * size, "unique_write_bytes": writes * size, "overwritten_bytes": 0, "approximate": False,
        "seeks": reads, "useless_seeks": reads // 2, "still_seeks": 0, "sequential_share": 0.25 if reads else None,
        "consecutive_share": None, "descending_share": 0.5 if reads else None, "unknown_offsets": 0, "modify_writes": 0,
        "direct": 0, "unaligned_direct": 0, "syncs": 0, "read_s": reads * 1e-5, "write_s": writes * 1e-5,
        "read_time": times(reads * 1e-5, corrected=corrected), "write_time": times(writes * 1e-5, corrected=corrected),
        "sync_time": times(0.0, corrected=corrected), "metadata_time": times(1e-4, corrected=corrected),
        "run_share": 0.1,
        "read": side(reads), "write": side(writes), "metadata": {"openat": 1, "close": 1},
        "failed": [{"call": "openat", "error": "ENOENT", "count": 2}], "maps": 0, "mapped_bytes": 0,
    }  # fmt: skip


def file(path: str, reads: int = 0, writes: int = 0, **changed: Any) -> dict[str, Any]:
    """A file of the profile."""
    return {
        "path": path, "other_names": [], "kind": "file", "incarnations": 1, **io(reads, writes), "size": 10_000_000,
        "open_s": 1.5, "first_s": 0.1, "last_s": 1.9, "threads": 1, "process_count": 1, "processes": [0],
        "executable": False, "timeline": [[0, 2, 4096, 0], [3, 1, 0, 4096]], **changed,
    }  # fmt: skip


def document(*files: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A profile as JSON: a run of 2 s that a copy of `cp` made."""
    listed = list(files) or [file("/data/a.root", reads=40), file("/data/b.out", writes=8)]
    work = {"calls": 60, "failed_calls": 2, "read_bytes": 163840, "write_bytes": 32768, "calls_time": times(0.5),
            "waiting_time": times(0.1), "cpu_s": None}  # fmt: skip
    thread = {"id": 0, "tid": 4711, "start_s": 0.0, "end_s": 2.0, **work}
    return {
        "format": "plimsoll.profile/1",
        "source": {
            "recorder": "strace", "recorder_version": "strace -- version 6.1", "options": ["-f", "-ttt"],
            "command": ["/usr/bin/cp", "a file", "b"], "attached": False, "host": ["tern", "6.1.0", "x86_64"],
            "zero_unix_ns": 1_795_000_000_000_000_000, "resolution_s": 1e-6, "has_durations": True,
            "calibration": {"call_ns": [35e3, 30e3, 42e3], "duration_ns": [9e3, 8e3, 11e3], "calls": 20000},
            "status": 0, "elapsed_s": 2.1,
        },
        "chosen": {"file": None, "from_s": None, "to_s": None},
        "time": {"start_s": 0.0, "end_s": 2.0, "wall": times(2.0), "calls": times(0.5), "waiting": times(0.1),
                 "tracing_share": 0.2, "traced_call_s": [3e-05, 2.5e-05, 4e-05], "interval_only": False},
        "totals": {"calls": 60, "failed_calls": 2, "files": len(listed), "processes": 2, "threads": 2, **io(40, 8),
                   "elsewhere": {"reads": 0, "read_bytes": 0, "writes": 1, "write_bytes": 12}},
        "files": listed,
        "processes": [
            {"pid": 4711, "parent": None, "program": "/usr/bin/cp", "executes": 1, "start_s": 0.0, "end_s": 2.0, **work,
             "threads": [thread]},
            {"pid": 4712, "parent": 0, "program": "/usr/bin/true", "executes": 1, "start_s": 1.0, "end_s": 1.5, **work,
             "threads": [{**thread, "id": 1, "tid": 4712}]},
        ],
        "calls": [
            {"name": "read", "effect": "read", "count": 40, "errors": {}, "bytes": 163840, "time": times(4e-4),
             "mean_s": 1e-5, "p50_s": 1e-5, "p99_s": 1e-5, "max_s": 2e-5},
            {"name": "openat", "effect": "open", "count": 4, "errors": {"ENOENT": 2}, "bytes": 0, "time": times(1e-4),
             "mean_s": 1e-5, "p50_s": 1e-5, "p99_s": 1e-5, "max_s": 2e-5},
        ],
        "missing": [{"path": "/etc/none", "count": 2}],
        "timeline": {"start_s": 0.0, "bin_s": 0.5, "reads": [20, 10, 10, 0], "read_bytes": [81920, 40960, 40960, 0],
                     "writes": [0, 0, 0, 8], "write_bytes": [0, 0, 0, 32768], "metadata": [4, 0, 0, 2],
                     "other": [1, 0, 0, 0]},
        "bursts": [{"of": "bytes", "from_s": 0.0, "to_s": 0.5, "amount": 81920, "share": 0.5, "times_mean": 2.0}],
        "unparsed": {"whole": True, "lines": 60, "odd_lines": 0, "cut_lines": 0, "examples": [], "unknown_calls": 0,
                     "halves": 0, "endless": 0},
        "blind_spots": [{"kind": "mapped", "file": "/lib/libc.so.6", "count": 1, "bytes": 2000,
                         "text": "2 kB of libc mapped"}],
        "findings": [{"kind": "useless-seeks", "file": "/data/a.root", "numbers": {},
                      "text": "50 % of 40 seeks are useless"}],
        **changed,
    }  # fmt: skip


def profile_document(*files: dict[str, Any], **changed: Any) -> ProfileDocument:
    """It, read."""
    return read(json.dumps(document(*files, **changed)))


def picture(path: str, requests: int, *, every_write: int = 5) -> dict[str, Any]:
    """Requests all over a file, one every 10 ms; each `every_write`-th writes."""
    points = [
        [at * 10_000_000, 20_000, at * 37 % requests * 4096, 4096, int(at % every_write == 0), 0, 4096, 0]
        for at in range(requests)
    ]
    return {"path": path, "requests": requests, "points": points, "density": None}


def binned(path: str, requests: int) -> dict[str, Any]:
    """A diagonal of bins that were read, and a row of bins that were written."""
    density = {
        "start_ns": 0, "column_ns": 50_000_000, "columns": 40, "start_byte": 0, "row_bytes": 262_144, "rows": 40,
        "reads": [[at, at, requests // 40, 9000] for at in range(40)], "writes": [[at, 5, 3, 100] for at in range(40)],
    }  # fmt: skip
    return {"path": path, "requests": requests, "points": [], "density": density}


def pictures(*files: dict[str, Any]) -> Pictures:
    """Pictures of these files."""
    counts = {
        "format": "plimsoll.pictures/1",
        "requests": sum(picture_fields["requests"] for picture_fields in files),
        "unknown_offsets": 0,
    }
    return read_pictures(json.dumps({**counts, "files": list(files)}))
