"""Transactions that read or wrote versioned objects, with their metrics `object` and `version`, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.collect.columns.parquet import numbered, numbers, row_groups
from plimsoll.collect.columns.transactions import Int

OBJECT, VERSION = "object", "version"
"""Names of the two metrics. Their means are meaningless, so they are not named metrics of the run."""
READ, WRITE, READ_REPLICA = "read", "write", "read-replica"
REPLICA: Final = "replica"
CACHES: Final = ("none", "miss", "hit", "revalidated", REPLICA)
"""Reports of a cache on the path, by number; REPLICA: the answer came from a replica instead."""
UNKNOWN: Final = -1
"""Object or version of a transaction that reported none."""
_COLUMNS: Final = ("tester", "start", "end", "workload", "operation", "outcome", "cache")

Does = Mapping[str, Mapping[str, str]]
"""READ, WRITE or READ_REPLICA, by workload and operation: `versions` of run.json."""


@dataclass(frozen=True, slots=True)
class VersionedTransactions:
    """Reads and writes of objects that have versions, in any order: every array has one entry per transaction.

    `start`, `end` in ns from the start of the run; `end` is -1 if the transaction was in progress when the run ended.
    `workload` is an index of `workloads`, `cache` of CACHES. `object`, `version`: UNKNOWN if the transaction reported
    none.
    """

    start: Int
    end: Int
    ok: NDArray[np.bool_]
    writes: NDArray[np.bool_]
    workload: Int
    cache: Int
    object: Int
    version: Int
    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of one metric. Tester and start identify the transaction of each value."""

    tester: Int
    start: Int
    value: Int


def read_versioned(transactions: Path, metrics: Path, does: Does) -> VersionedTransactions:
    """The transactions of the operations that read or write versions. Raises DamagedResults."""
    chunks = list(_transactions(transactions, does))
    columns = {
        name: np.concatenate([chunk[name] for chunk in chunks] or [np.empty(0, dtype=np.int64)])
        for name in ("tester", "start", "end", "ok", "writes", "workload", "cache")
    }
    objects, versions = _metrics(metrics)
    of = _values_of_transactions(columns["tester"], columns["start"], objects, versions)
    return VersionedTransactions(
        start=columns["start"],
        end=columns["end"],
        ok=columns["ok"].astype(np.bool_),
        writes=columns["writes"].astype(np.bool_),
        workload=columns["workload"],
        cache=columns["cache"],
        object=of[0],
        version=of[1],
        workloads=tuple(does),
    )


def _transactions(path: Path, does: Does) -> Iterator[dict[str, NDArray[Any]]]:
    positions = {name: position for position, name in enumerate(does)}
    for table in row_groups(path, "plimsoll.transactions", _COLUMNS):
        workloads, workload = numbered(table, "workload")
        operations, operation = numbered(table, "operation")
        role = np.array(
            [[_role(does, name, kind) for kind in operations] or [0] for name in workloads] or [[0]]
        )[workload, operation]
        kept = role != 0
        start = numbers(table, "start").astype(np.int64)[kept]
        end = numbers(table, "end").astype(np.int64)[kept]
        outcomes, outcome = numbered(table, "outcome")
        caches, cache = numbered(table, "cache")
        known = np.array([CACHES.index(text) if text in CACHES else 0 for text in caches] or [0])
        succeeded = np.array([text == "ok" for text in outcomes] or [False])
        yield {
            "tester": numbers(table, "tester").astype(np.int64)[kept],
            "start": start,
            "end": np.where(end < 0, np.int64(-1), start + end),
            "ok": succeeded[outcome[kept]] & (end >= 0),
            "writes": role[kept] == 2,
            "workload": np.array([positions.get(name, 0) for name in workloads] or [0])[workload[kept]],
            "cache": np.where(role[kept] == 3, CACHES.index(REPLICA), known[cache[kept]]),
        }


def _role(does: Does, workload: str, operation: str) -> int:
    return {READ: 1, WRITE: 2, READ_REPLICA: 3}.get(does.get(workload, {}).get(operation, ""), 0)


def _metrics(path: Path) -> tuple[_Values, _Values]:
    parts: dict[str, list[_Values]] = {OBJECT: [], VERSION: []}
    for table in row_groups(path, "plimsoll.metrics", ("tester", "start", "metric", "value")):
        names, metric = numbered(table, "metric")
        tester, start, value = (numbers(table, name) for name in ("tester", "start", "value"))
        for name, series in parts.items():
            selected = np.array([text == name for text in names] or [False])[metric] & np.isfinite(value)
            whole = np.rint(value[selected]).astype(
                np.int64
            )  # a double holds microseconds exactly until 2255
            series.append(_Values(tester[selected].astype(np.int64), start[selected].astype(np.int64), whole))
    objects, versions = (
        _Values(
            *(
                np.concatenate([getattr(part, field) for part in series] or [np.empty(0, dtype=np.int64)])
                for field in ("tester", "start", "value")
            )
        )
        for series in parts.values()
    )
    return objects, versions


def _values_of_transactions(tester: Int, start: Int, *metrics: _Values) -> list[Int]:
    """For each metric, the value for each transaction, found by tester and start; UNKNOWN if there is none."""
    starts = np.concatenate([start, *(metric.start for metric in metrics)])
    testers = np.concatenate([tester, *(metric.tester for metric in metrics)])
    # Ranks instead of times: the product of a rank and the number of testers fits into 64 bits.
    rank = np.unique(starts, return_inverse=True)[1].reshape(-1).astype(np.int64)
    key = rank * (int(testers.max(initial=0)) + 1) + testers
    edges = np.cumsum([start.size, *(metric.start.size for metric in metrics)])
    return [
        _lookup(key[: start.size], key[edges[at] : edges[at + 1]], metric.value)
        for at, metric in enumerate(metrics)
    ]


def _lookup(wanted: Int, keys: Int, values: Int) -> Int:
    if keys.size == 0:
        return np.full(wanted.size, UNKNOWN, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    position = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
    found_values: Int = np.where(keys[order][position] == wanted, values[order][position], np.int64(UNKNOWN))
    return found_values
