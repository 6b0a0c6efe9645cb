"""Sums of a run in bins of a few milliseconds, from which outages and recoveries are computed in bounded memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.run.traffic import NEVER, Block, within
from plimsoll.analyse.window.quantum import MIN_QUANTUM_RATIO
from plimsoll.analyse.window.transactions import Int, Window

BIN_NS = 10_000_000
MAX_BINS = 500_000
ERROR_BINS = 10
"""Failures are counted in longer bins than successes: this number of bins each."""


class SuccessBins:
    """Successes, failures and response times by the time of their end, from the run's zero to `length_ns`.

    `first`, `last`: end of the first and last success of each bin (ns; NEVER and -1 without one), so gaps between
    successes in different bins are exact. `limit_ns`: the response time up to which a start of the window `measured`
    counts as available. `bound_ns`: maximum error of any time.
    """

    def __init__(self, length_ns: int, measured: Window, limit_ns: int, bound_ns: int = 0) -> None:
        self.bin_ns = max(BIN_NS, MIN_QUANTUM_RATIO * bound_ns, -(-length_ns // MAX_BINS))
        self.n = max(1, -(-length_ns // self.bin_ns))
        self._measured = measured
        self._limit = limit_ns
        self.done = np.zeros(self.n, dtype=np.int64)
        self.failed = np.zeros(self.n, dtype=np.int64)
        self.response = np.zeros(self.n)
        self.first: Int = np.full(self.n, NEVER, dtype=np.int64)
        self.last: Int = np.full(self.n, -1, dtype=np.int64)
        self.errors: Counter[tuple[int, int, int]] = Counter()
        """Number of failures by bin (in units of ERROR_BINS), outcome and code."""
        self.planned = self.in_time = 0

    def add(self, block: Block) -> None:
        """Adds a block."""
        rows = block.rows
        end = rows.end[block.ok]
        position = end // self.bin_ns
        inside = (position >= 0) & (position < self.n)
        end, position, response = end[inside], position[inside], block.response[inside]
        self.done += np.bincount(position, minlength=self.n)
        self.response += np.bincount(position, weights=response, minlength=self.n)
        np.minimum.at(self.first, position, end)
        np.maximum.at(self.last, position, end)
        if not block.all_ok:
            self._add_failures(block)
        planned = within(rows.scheduled, block.scheduled_span, self._measured)
        mask = np.broadcast_to(np.asarray(planned), (len(rows),))
        self.planned += int(np.count_nonzero(mask))
        self.in_time += int(np.count_nonzero(mask[block.ok] & (block.response <= self._limit)))

    def _add_failures(self, block: Block) -> None:
        rows = block.rows
        failed = ~block.ok & (rows.end >= 0)
        position = rows.end[failed] // self.bin_ns
        inside = position < self.n
        position = position[inside]
        self.failed += np.bincount(position, minlength=self.n)
        keys = np.stack(
            [
                position // ERROR_BINS,
                rows.outcome[failed][inside].astype(np.int64),
                rows.code[failed][inside].astype(np.int64),
            ],
            axis=1,
        )
        for key, count in zip(*np.unique(keys, axis=0, return_counts=True), strict=True):
            at, outcome, code = key.tolist()
            self.errors[at, outcome, code] += int(count)

    def errors_between(self, start_ns: int, end_ns: int) -> Counter[tuple[int, int]]:
        """Number of failures by outcome and code, from the bin of `start_ns` to that of `end_ns`."""
        width = self.bin_ns * ERROR_BINS
        kinds: Counter[tuple[int, int]] = Counter()
        for (at, outcome, code), count in self.errors.items():
            if start_ns // width <= at <= end_ns // width:
                kinds[outcome, code] += count
        return kinds

    def gaps(self, start_ns: int, end_ns: int) -> NDArray[np.int64]:
        """The gaps between successes that ended in [start, end): an array of begin and end of each, ns. Successes of
        one bin count as one, from its first to its last."""
        part = slice(start_ns // self.bin_ns, -(-end_ns // self.bin_ns))
        has_any = self.done[part] > 0
        first, last = self.first[part][has_any], self.last[part][has_any]
        return np.stack([last[:-1], first[1:]], axis=1)
