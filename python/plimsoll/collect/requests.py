"""How many requests the testers sent in a run, by workload and endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.collect.results import RunFiles
from plimsoll.errors import DamagedResults

COLUMNS: Final = ("workload", "endpoint", "outcome", "cache", "attempt", "payload", "received")
_FIELDS: Final = {"ok": "ok", "wrong": "wrong", "refused": "refused"}
"""Outcomes that show whether the request arrived, with their fields. The others leave it open."""


@dataclass(slots=True)
class RequestCounts:
    """Transactions of a whole run by what is known of their requests. `ok`, `wrong`: with a complete response;
    `refused`: without a connection; `open`: failed, timed out, or still in progress at the end; `hits`: those of `ok`
    that a cache reported to have answered; `repeats`: further tries within the transactions; `payload`, `received`:
    bytes of all transactions, -1 if they are not known."""

    ok: int = 0
    wrong: int = 0
    refused: int = 0
    open: int = 0
    hits: int = 0
    repeats: int = 0
    payload: int = 0
    received: int = 0

    def add(self, other: RequestCounts) -> None:
        """Adds the counts of others."""
        for field in fields(RequestCounts):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def read_requests(run: RunFiles) -> Mapping[tuple[str, str], RequestCounts] | None:
    """The counts by workload and endpoint; None if single transactions were not kept. Raises DamagedResults."""
    if run.transactions is None:
        return None
    found: dict[tuple[str, str], RequestCounts] = {}
    try:
        file = pq.ParquetFile(run.transactions, memory_map=True)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=list(COLUMNS), use_threads=False)
            for row in _grouped(table):
                counts = found.setdefault((row["workload"], row["endpoint"]), RequestCounts())
                counts.add(_of_row(row))
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DamagedResults(f"{run.transactions} cannot be read: {error}") from error
    return found


def whole_requests(run: RunFiles) -> RequestCounts:
    """The counts of all transactions together, from the counters of the engine. These contain no repeats, refusals and
    received bytes, and any of the responses may be a hit."""
    summary = run.summary or {}
    counters = summary["counters"]
    return RequestCounts(
        ok=counters["succeeded"],
        hits=counters["succeeded"],
        open=counters["failed"] + summary["in_flight"],
        payload=counters["payload"],
        received=-1,
    )


def _grouped(table: Any) -> list[dict[str, Any]]:
    keys = ["workload", "endpoint", "outcome", "cache"]
    rows: list[dict[str, Any]] = (
        table.group_by(keys, use_threads=False)
        .aggregate([("attempt", "sum"), ("attempt", "count"), ("payload", "sum"), ("received", "sum")])
        .to_pylist()
    )
    return rows


def _of_row(row: Mapping[str, Any]) -> RequestCounts:
    number = int(row["attempt_count"])
    counts = RequestCounts(
        repeats=int(row["attempt_sum"] or 0),
        payload=int(row["payload_sum"]),
        received=int(row["received_sum"]),
    )
    name = _FIELDS.get(row["outcome"], "open")
    setattr(counts, name, number)
    if name == "ok" and row["cache"] == "hit":
        counts.hits = number
    return counts
