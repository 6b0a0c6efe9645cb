"""fio: `--output-format=json`, and the latency log of `--write_lat_log` (the file `_lat` or `_clat`).

Source: fio's HOWTO, sections "Interpreting the output" and "Log File Formats"; the log is in ns from fio 3 on. An
operation is a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from plimsoll.foreign.model import (
    QUANTILES,
    ForeignRun,
    Lines,
    Record,
    Transactions,
    json_of,
    number,
    record,
    refuse,
    supported,
)

_DIRECTIONS = ("read", "write", "trim")
_COLUMNS = "time (ms), latency (ns), direction, block size"


class _Percentiles(Record):
    percentile: Mapping[str, float] = Field(default_factory=dict)


class _Direction(Record):
    total_ios: int
    runtime: float
    clat_ns: _Percentiles = _Percentiles()
    lat_ns: _Percentiles = _Percentiles()


class _Output(Record):
    jobs: list[dict[str, Any]]


def parse_json(text: str, file: str) -> ForeignRun:
    """All jobs. Throughput is the sum over jobs and directions of operations / run time. The percentiles of several
    jobs or directions cannot be combined, so they are known only if a single one has operations: those of the total
    latency if fio recorded them (`lat_percentiles=1`), else those of the completion latency."""
    jobs = record(_Output, json_of(text, file), file).jobs
    active = []
    for at, job in enumerate(jobs):
        for name in _DIRECTIONS:
            if name in job:
                found = record(_Direction, job[name], f"{file}: jobs.{at}.{name}")
                active += [found] if found.total_ios > 0 else []
    if not active:
        refuse(file, None, "jobs: no job has completed an operation")
    requests = sum(each.total_ios for each in active)
    errors = sum(int(job.get("total_err", 0) or 0) for job in jobs)
    times = _times(active[0]) if len(active) == 1 else {}
    return ForeignRun(
        requests=requests + errors,
        errors=errors,
        throughput=sum(1000 * each.total_ios / each.runtime for each in active if each.runtime > 0),
        times_ms=supported(times, requests),
        is_summary=True,
    )


def _times(direction: _Direction) -> dict[str, float | None]:
    known = direction.lat_ns.percentile or direction.clat_ns.percentile
    by_share = {round(float(key) / 100, 6): value / 1e6 for key, value in known.items()}
    return {name: by_share.get(q) for name, q in QUANTILES.items()}


def parse_log(lines: Lines, file: str) -> ForeignRun:
    """A line for each operation; its time is that of its completion, in ms since the start."""
    found = Transactions()
    for line, text in lines:
        columns = text.split(",")
        if len(columns) < 4:
            refuse(file, line, f"expected the columns {_COLUMNS}, got {text[:60]!r}")
        ended, took = (number(columns[at], name, file, line) for at, name in ((0, "time"), (1, "latency")))
        found.add((ended - took / 1e6) / 1000, took / 1e6, ok=True)
    return found.run(file)
