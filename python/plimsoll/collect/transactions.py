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
    """A chunk of transactions, in any order: one entry per transaction in every array.

    Stamps are int64 ns from the start of the run on the run's clock; `end` is -1 for one that was still in progress
    when the run ended. `outcome` is a position in OUTCOMES; `code`, `workload`, `tester` are numbers in the lists of
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
    """Number in the names of the run; None: not read, as no workload has several."""

    def __len__(self) -> int:
        return int(self.start.size)

    def blocks(self, rows: int) -> Iterator[Transactions]:
        """The maximum number of rows of a view, small enough for the cache of a core."""
        for at in range(0, len(self), rows):
            yield self._at(slice(at, at + rows))

    def take(self, mask: NDArray[np.bool_]) -> Transactions:
        """The rows where the mask is set."""
        return self._at(mask)

    def _at(self, rows: slice | NDArray[np.bool_]) -> Transactions:
        columns: list[Any] = [getattr(self, each.name) for each in fields(self)]
        cut: list[Any] = [None if column is None else column[rows] for column in columns]
        return Transactions(*cut)
