"""The columns of transactions that the statistics read, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Codes = NDArray[np.integer]

OK = 0
OUTCOMES = ("ok", "wrong", "error", "timeout", "refused", "cancelled")
"""Outcome words by their number."""
TIMEOUT, CANCELLED = OUTCOMES.index("timeout"), OUTCOMES.index("cancelled")
NOT_HAPPENED = -1


@dataclass(frozen=True, slots=True)
class Transactions:
    """A chunk of transactions, in any order: every array has one entry per transaction.

    Stamps are int64 ns from the start of the run on the run's clock; `end` is -1 if the transaction was in progress
    when the run ended. `outcome` is an index of OUTCOMES; `code`, `workload`, `tester` are indices of the lists of
    names of the run (tester: over all agents, from 0). Sizes are int64 bytes, `items` a count.
    """

    scheduled: Int
    start: Int
    end: Int
    outcome: NDArray[np.uint8]
    code: Codes
    tester: Codes
    workload: Codes
    items: Int
    payload: Int
    sent: Int
    received: Int
    operation: Codes | None = None
    """Index of the operation names of the run; None: not read, because no workload has several operations."""
    first_byte: Int | None = None
    """From `start`, ns; -1: no byte of the answer was read. None: not known."""
    connected: Int | None = None
    """From `start`, ns; -1: no connection was opened. None: not read."""
    round_trip: Int | None = None
    """The least round trip of the tester's connections to the endpoint, ns; -1: not measured. None: not read."""

    def __len__(self) -> int:
        return int(self.start.size)

    def blocks(self, rows: int) -> Iterator[Transactions]:
        """Yields views of at most this number of rows, so that a view fits into the cache of a core."""
        for at in range(0, len(self), rows):
            yield self._rows_at(slice(at, at + rows))

    def take(self, mask: NDArray[np.bool_]) -> Transactions:
        """The rows for which the mask is True."""
        return self._rows_at(mask)

    def _rows_at(self, rows: slice | NDArray[np.bool_]) -> Transactions:
        columns: list[Any] = [getattr(self, field.name) for field in fields(self)]
        cut: list[Any] = [None if column is None else column[rows] for column in columns]
        return Transactions(*cut)
