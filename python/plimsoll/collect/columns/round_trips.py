"""The least round trip of the connections of each tester to each endpoint, from the readings of TCP_INFO."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from plimsoll.collect.columns.parquet import Names, numbered, numbers, row_groups
from plimsoll.collect.hosts import TCP_RTT

Int = NDArray[np.int64]
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """`least`: the least round trip (ns) by tester (row) and endpoint (column); UNKNOWN: there is no reading. Later
    testers have none. `endpoints`: their names, by number."""

    endpoints: tuple[str, ...]
    least: Int

    def of(self, tester: NDArray[np.integer], endpoint: NDArray[np.integer]) -> Int:
        """The round trip of each transaction, ns; UNKNOWN without a reading."""
        known = (tester < self.least.shape[0]) & (endpoint < self.least.shape[1])
        out: Int = np.full(tester.size, UNKNOWN, dtype=np.int64)
        out[known] = self.least[tester[known], endpoint[known]]
        return out


def read_route_round_trips(metrics: Path, transactions: Path, min_ns: int = 0) -> RoundTrips | None:
    """The round trips of a run; None if no connection has a reading, or if fewer than a tenth of the readings reach
    `min_ns`: not the median, because a run may have more near testers than far ones. Raises DamagedResults.

    The rows of `metrics` have no endpoint. It is that of the transaction with the same tester and start.
    """
    tester, start, value = _readings(metrics)
    if tester.size == 0 or np.count_nonzero(np.rint(value * 1e9) >= min_ns) < value.size / 10:
        return None
    names, endpoint = _endpoints(transactions, tester, start)
    least: Int = np.full((int(tester.max()) + 1, len(names)), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, (tester, endpoint), np.rint(value * 1e9).astype(np.int64))
    least[least == np.iinfo(np.int64).max] = UNKNOWN
    return RoundTrips(tuple(names), least)


def _readings(path: Path) -> tuple[Int, Int, NDArray[np.float64]]:
    """Tester, start and round trip (s) of each reading of the whole run."""
    testers, starts, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    columns = ("tester", "start", "metric", "value")
    for table in row_groups(path, "plimsoll.metrics", columns) if path.exists() else ():
        texts, number = numbered(table, "metric")
        if TCP_RTT not in texts:
            continue
        value = numbers(table, "value")
        selected = (number == texts.index(TCP_RTT)) & np.isfinite(value) & (value >= 0)
        testers.append(numbers(table, "tester")[selected].astype(np.int64))
        starts.append(numbers(table, "start")[selected].astype(np.int64))
        values.append(value[selected])
    return np.concatenate(testers), np.concatenate(starts), np.concatenate(values)


def _endpoints(path: Path, tester: Int, start: Int) -> tuple[list[str], Int]:
    """The names of the endpoints of a run, and the number of the endpoint of each reading. A file without this column
    has one endpoint without name."""
    if "endpoint" not in pq.ParquetFile(path).schema_arrow.names:
        return [""], np.zeros(tester.size, dtype=np.int64)
    names = Names()
    for table in row_groups(path, "plimsoll.transactions", ("endpoint",)):
        numbered(table, "endpoint", names)
    if len(names.texts) < 2:
        return names.texts or [""], np.zeros(tester.size, dtype=np.int64)
    found: dict[tuple[int, int], int] = {}
    for table in row_groups(path, "plimsoll.transactions", ("tester", "start", "endpoint")):
        _, number = numbered(table, "endpoint", names)
        starts = numbers(table, "start")
        for at in np.flatnonzero(np.isin(starts, start)).tolist():
            found[int(table.column("tester")[at].as_py()), int(starts[at])] = int(number[at])
    numbers_of = [found.get(key, 0) for key in zip(tester.tolist(), start.tolist(), strict=True)]
    return names.texts, np.array(numbers_of, dtype=np.int64)
