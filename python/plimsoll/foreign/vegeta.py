"""vegeta: `vegeta encode -to json` and `-to csv`, and `vegeta report -type json`.

Source: README.md of tsenart/vegeta, version 12 (section `encode`), and its own output. Times are in ns. A request is
successful if its error is empty and its status is from 200 to 399, the rule of vegeta's report.
"""

from __future__ import annotations

import csv
from datetime import datetime

from pydantic import Field

from plimsoll.foreign.model import (
    ForeignRun,
    Lines,
    Record,
    Transactions,
    json_line,
    json_of,
    number,
    record,
    refuse,
    supported,
)

_NS = 1e-9
_CSV_COLUMNS = 12
"""timestamp, code, latency, bytes out, bytes in, error, body, attack, sequence, method, URL, headers. No head."""


class _Result(Record):
    code: int
    timestamp: datetime
    latency: int
    error: str = ""


class _Latencies(Record):
    p50: int = Field(alias="50th")
    p95: int = Field(alias="95th")
    p99: int = Field(alias="99th")


class _Report(Record):
    latencies: _Latencies
    requests: int
    throughput: float
    success: float


def parse_json(lines: Lines, file: str) -> ForeignRun:
    """A JSON object for each request."""
    found = Transactions()
    for line, text in lines:
        if text:
            one = record(_Result, json_line(text, file, line), file, line)
            found.add(
                one.timestamp.timestamp(),
                one.latency / 1e6,
                ok=_is_successful(one.code, one.error),
            )
    return found.run(file)


def parse_csv(lines: Lines, file: str) -> ForeignRun:
    """A row for each request, without a head."""
    found = Transactions()
    for line, text in lines:
        if not text:
            continue
        row = next(csv.reader([text]))
        if len(row) < _CSV_COLUMNS:
            refuse(file, line, f"expected {_CSV_COLUMNS} columns of vegeta encode -to csv, got {len(row)}")
        start, code, took = (
            number(row[at], name, file, line) for at, name in enumerate(("timestamp", "code", "latency"))
        )
        found.add(start * _NS, took / 1e6, ok=_is_successful(int(code), row[5]))
    return found.run(file)


def parse_report(text: str, file: str) -> ForeignRun:
    """The report. Its percentiles are those of all requests, its throughput that of the successful ones."""
    report = record(_Report, json_of(text, file), file)
    took = report.latencies
    times = {"response_p50": took.p50 / 1e6, "response_p95": took.p95 / 1e6, "response_p99": took.p99 / 1e6}
    return ForeignRun(
        requests=report.requests,
        errors=round((1 - report.success) * report.requests),
        throughput=report.throughput,
        times_ms=supported(times, report.requests),
        is_summary=True,
    )


def _is_successful(code: int, error: str) -> bool:
    return not error and 200 <= code < 400
