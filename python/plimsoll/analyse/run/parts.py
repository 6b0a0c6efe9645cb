"""Separate sums of one window by workload and by operation of a mix. Only blocks with several parts are divided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.run.traffic import Block, WindowSum
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.analyse.window.transactions import Int, Transactions

OPERATIONS = 1 << 16
"""More than the number of operation names that a run can have."""

Numbers = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class PartKey:
    """A workload, or one operation of it (None: all). `first`: the first transactions of connections or testers, of all
    workloads."""

    workload: str
    operation: str | None = None
    first: str = ""


OfParts = Mapping[PartKey, Mapping[str, Histogram]]
"""The histograms of the parts of a run, by metric."""


class Parts:
    """`number`: returns the part of each row. `make`: creates the sum of a new part, by its number."""

    def __init__(self, number: Callable[[Transactions], Numbers], make: Callable[[int], WindowSum]) -> None:
        self._number, self._make = number, make
        self._sums: dict[int, WindowSum] = {}

    def add(self, block: Block, until: Int | None) -> None:
        """Adds a block; `until` as for `Block.of`."""
        numbers = self._number(block.rows)
        parts = np.unique(numbers).tolist()
        for part in parts:
            if part not in self._sums:
                self._sums[part] = self._make(part)
            part_block = block if len(parts) == 1 else Block.of(block.rows.take(numbers == part), until)
            self._sums[part].add(part_block)

    def get(self, part: int) -> WindowSum | None:
        """The sum of a part; None if no row belongs to it."""
        return self._sums.get(part)

    def __iter__(self) -> Iterator[tuple[int, WindowSum]]:
        return iter(sorted(self._sums.items()))


def by_workload(rows: Transactions) -> Numbers:
    """The number of the workload of each row."""
    return rows.workload


def by_operation(rows: Transactions) -> Numbers:
    """Workload and operation of each row in one number, because workloads may have operations of the same name."""
    operation = np.zeros(len(rows), dtype=np.int64) if rows.operation is None else rows.operation
    numbers: Numbers = rows.workload.astype(np.int64) * OPERATIONS + operation
    return numbers


def histograms(total: WindowSum) -> dict[str, Histogram]:
    """The histograms of a window by metric, which are merged over the runs of a cell."""
    total.close()
    times = {
        "response": total.response,
        "request": total.request,
        "lateness": total.lateness,
        **{name: value for name, value in total.answers.items() if value.moments.count},
        **({"response_less_rtt": total.less_rtt} if total.less_rtt.moments.count else {}),
    }
    return {name: Histogram.of(durations.buckets) for name, durations in times.items()}


def by_part(parts: OfParts) -> dict[str, Histogram]:
    """The histograms of parts by the names that metrics of parts have (`response@operation.search@peak`). An operation
    that several workloads have is left out: its name does not identify it."""
    operations = [key.operation for key in parts if key.operation is not None]
    out = {}
    for key, own in parts.items():
        if key.operation is not None and operations.count(key.operation) > 1:
            continue
        kind, name = ("first", key.first) if key.first else ("workload", key.workload)
        if key.operation is not None:
            kind, name = "operation", key.operation
        for metric, histogram in own.items():
            base, at, window = metric.partition("@")
            out[f"{base}@{kind}.{name}{at}{window}"] = histogram
    return out
