"""How many requests the testers sent in a run, by workload and endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.collect.columns.parquet import numbered, numbers
from plimsoll.collect.results import RunFiles
from plimsoll.errors import DamagedResults

_KEYS: Final = ("workload", "endpoint", "outcome", "cache")
COLUMNS: Final = (*_KEYS, "attempt", "payload", "received")
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
            for (workload, endpoint, *_), more in _grouped(table):
                found.setdefault((workload, endpoint), RequestCounts()).add(more)
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


def _grouped(table: pa.Table) -> Iterator[tuple[tuple[str, ...], RequestCounts]]:
    """The counts of the rows with the same texts in `_KEYS`, and these texts.

    Not `Table.group_by` of pyarrow: it imports pandas where pandas is installed, 0.3 s of processor time.
    """
    texts, codes = zip(*(numbered(table, key) for key in _KEYS), strict=True)
    shape = tuple(max(1, len(names)) for names in texts)
    groups, group, count = np.unique(
        np.ravel_multi_index(codes, shape), return_inverse=True, return_counts=True
    )
    sums = np.zeros((3, count.size), dtype=np.int64)
    for total, column in zip(sums, ("attempt", "payload", "received"), strict=True):
        np.add.at(total, group, numbers(table, column))
    for at, row in enumerate(zip(*np.unravel_index(groups, shape), strict=True)):
        key = tuple(names[number] for names, number in zip(texts, row, strict=True))
        number, repeats, payload, received = (int(value) for value in (count[at], *sums[:, at]))
        yield key, _counts(key, number, RequestCounts(repeats=repeats, payload=payload, received=received))


def _counts(key: tuple[str, ...], number: int, sums: RequestCounts) -> RequestCounts:
    _, _, outcome, cache = key
    name = _FIELDS.get(outcome, "open")
    setattr(sums, name, number)
    if name == "ok" and cache == "hit":
        sums.hits = number
    return sums
