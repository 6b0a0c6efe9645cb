"""pgbench: the log of `-l`, and that of `-l --aggregate-interval`.

Source: PostgreSQL's manual, pgbench, "Per-Transaction Logging" and "Aggregated Logging". Times are in us. With `--rate`
the time of a transaction begins at its planned start, as Plimsoll's response time does.
"""

from __future__ import annotations

from plimsoll.foreign.model import ForeignRun, Lines, Transactions, number, refuse

_FIELDS = "client transaction time script epoch us"
_FAILED = ("failed", "serialization", "deadlock", "skipped")
MIN_COLUMNS = 6


def parse_log(lines: Lines, file: str) -> ForeignRun:
    """A line for each transaction: client, its number, time, script, end in s and us since 1970, then the lag. The time
    of a failed transaction is a word. A skipped one was not sent; it counts as failed."""
    found = Transactions()
    for line, text in lines:
        columns = text.split()
        if len(columns) < MIN_COLUMNS:
            refuse(file, line, f"expected the columns {_FIELDS}, got {text[:60]!r}")
        second, fraction = (number(columns[at], "time", file, line) for at in (4, 5))
        ended = second + fraction / 1e6
        if columns[2] in _FAILED:
            found.add(ended, 0.0, ok=False)
            continue
        took = number(columns[2], "time", file, line)
        found.add(ended - took / 1e6, took / 1000, ok=True)
    return found.run(file)


def parse_aggregated(lines: Lines, file: str) -> ForeignRun:
    """A line for each interval: its start in s, number of transactions, sum and sum of squares of the times, least and
    greatest time, and then counts that depend on the version. No percentile follows from these. The first and the last
    interval are incomplete, so the throughput is that of the others."""
    starts, counts = [], []
    for line, text in lines:
        columns = text.split()
        if len(columns) < MIN_COLUMNS:
            refuse(file, line, f"expected an interval with at least {MIN_COLUMNS} numbers, got {text[:60]!r}")
        starts.append(number(columns[0], "start of the interval", file, line))
        counts.append(round(number(columns[1], "number of transactions", file, line)))
    if len(starts) < 3:
        refuse(
            file,
            None,
            f"has {len(starts)} intervals; at least 3 are needed, because the first and the last are incomplete",
        )
    length = starts[-1] - starts[1]
    if length <= 0:
        refuse(file, len(starts), "the intervals are not in the order of time")
    return ForeignRun(sum(counts), None, sum(counts[1:-1]) / length, is_summary=True)
