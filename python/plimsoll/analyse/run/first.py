"""The first transaction of each connection and of each tester, over the whole run including the warm-up, in which most
persistent connections are opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from plimsoll.analyse.run.traffic import Block, WindowSum
from plimsoll.analyse.window.transactions import Int, Transactions
from plimsoll.plan.model.cell import FIRST_OF_CONNECTION, FIRST_OF_TESTER

COMPACT = 64
"""Number of blocks after which only the first transactions of the testers are kept."""


class FirstSums:
    """`wanted`: some of FIRST_OF_CONNECTION and FIRST_OF_TESTER; `make`: creates the sum of one."""

    def __init__(self, wanted: Sequence[str], make: Callable[[], WindowSum]) -> None:
        self._connections = make() if FIRST_OF_CONNECTION in wanted else None
        self._make = make
        self._has_testers = FIRST_OF_TESTER in wanted
        self._candidates: list[Transactions] = []

    def add(self, block: Block, until: Int | None) -> None:
        """Adds a block of transactions, in any order; `until` as for `Block.of`."""
        rows = block.rows
        if self._connections is not None and rows.connected is not None:
            opened = rows.connected >= 0
            if opened.any():
                self._connections.add(Block.of(rows.take(opened), until))
        if self._has_testers and len(rows):
            self._candidates.append(_first_of_testers(rows))
            if len(self._candidates) > COMPACT:
                self._candidates = [_first_of_testers(_joined(self._candidates))]

    def sums(self, until: Int | None) -> dict[str, WindowSum]:
        """The sum of each kind that was wanted; more blocks may be added afterwards."""
        out = {}
        if self._connections is not None:
            out[FIRST_OF_CONNECTION] = self._connections
        if self._has_testers:
            out[FIRST_OF_TESTER] = total = self._make()
            if self._candidates:
                self._candidates = [_first_of_testers(_joined(self._candidates))]
                total.add(Block.of(self._candidates[0], until))
        return out


def _first_of_testers(rows: Transactions) -> Transactions:
    """The transaction of each tester that started first."""
    order = np.lexsort((rows.start, rows.tester))
    testers = rows.tester[order]
    is_first = np.ones(testers.size, dtype=np.bool_)
    is_first[1:] = testers[1:] != testers[:-1]
    mask = np.zeros(len(rows), dtype=np.bool_)
    mask[order[is_first]] = True
    return rows.take(mask)


def _joined(parts: Sequence[Transactions]) -> Transactions:
    columns = [[getattr(part, field.name) for part in parts] for field in fields(Transactions)]
    joined: list[Any] = [None if column[0] is None else np.concatenate(column) for column in columns]
    return Transactions(*joined)
