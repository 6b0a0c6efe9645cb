"""wrk2: its output with `--latency`: a list of percentiles, and an HdrHistogram percentile distribution in ms.

Source: README.md of giltene/wrk2, and its output. These times are corrected: measured from the planned start, as
Plimsoll's response time is. They do not include the first ten seconds, in which wrk2 calibrates itself.
"""

from __future__ import annotations

import re

from plimsoll.foreign.model import QUANTILES, ForeignRun, Lines, number, refuse, supported

_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
HEAD = "Detailed Percentile spectrum"
_RATE = re.compile(r"^Requests/sec:\s+(\S+)")
_LISTED = re.compile(r"^\s*(\d+\.\d+)%\s+([\d.]+)(us|ms|s|m|h)\s*$")
_COUNT = re.compile(r"^#\[Max .*Total count\s*=\s*(\d+)\]")
_TOTAL = re.compile(r"^\s*(\d+) requests in ")
_BAD_STATUS = re.compile(r"^\s*Non-2xx or 3xx responses: (\d+)")
_SOCKET = re.compile(r"^\s*Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


def parse(lines: Lines, file: str) -> ForeignRun:
    """The list contains p50 and p99, the distribution a row for p95. Other rows of the distribution are not at round
    percentiles."""
    rows: list[tuple[float, float]] = []
    rate: float | None = None
    requests, timed, failed, is_inside = None, None, 0, False
    for line, text in lines:
        if HEAD in text:
            is_inside = True
        elif text.startswith("#["):
            is_inside = False
            timed = int(found[1]) if (found := _COUNT.match(text)) else timed
        elif is_inside and text.strip() and "Percentile" not in text:
            columns = text.split()
            if len(columns) < 3:
                refuse(file, line, f"expected value, percentile and count, got {text.strip()[:60]!r}")
            rows.append(
                (number(columns[0], "value", file, line), number(columns[1], "percentile", file, line))
            )
        elif found := _LISTED.match(text):
            rows.append((_MS[found[3]] * number(found[2], "latency", file, line), float(found[1]) / 100))
        elif found := _RATE.match(text):
            rate = number(found[1], "Requests/sec", file, line)
        elif found := _TOTAL.match(text):
            requests = int(found[1])
        elif found := _BAD_STATUS.match(text):
            failed += int(found[1])
        elif found := _SOCKET.match(text):
            failed += sum(map(int, found.groups()))
    if not rows or rate is None or requests is None or timed is None:
        refuse(
            file,
            None,
            "is incomplete: expected the percentile spectrum of wrk2 --latency, and Requests/sec at its end",
        )
    share = min(1.0, failed / requests) if requests else 0.0
    return ForeignRun(
        requests=requests,
        errors=min(failed, requests),
        throughput=rate * (1 - share),
        times_ms=supported({name: _quantile(rows, q) for name, q in QUANTILES.items()}, timed),
        is_summary=True,
    )


def _quantile(rows: list[tuple[float, float]], q: float) -> float | None:
    return next((value for value, share in rows if abs(share - q) < 1e-6), None)
