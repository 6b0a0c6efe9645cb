"""Time series of a run including its warm-up: one value per quantum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Series
from plimsoll.analyse.run.traffic import Block
from plimsoll.analyse.stats.quantiles import bucket_edges, rank
from plimsoll.analyse.window.transactions import Int

MAX_QUANTA = 5000
"""No chart shows more, and the memory of the quantiles grows with the number (16 kB per quantum)."""

_COARSER = 4
_PER_OCTAVE = 1024 >> _COARSER
_FIRST = 10 * _PER_OCTAVE  # about 1 us
_LAST = 42 * _PER_OCTAVE - 1  # over an hour
_WIDTH = _LAST - _FIRST + 1


def default_quantum(length_ns: int) -> int:
    """Quantum in ns: 0.1 s for runs below 20 s, else 1 s, or the number of whole seconds for at most 1,200 quanta."""
    if length_ns < 20_000_000_000:
        return 100_000_000
    return max(1, -(-length_ns // 1_200_000_000_000)) * 1_000_000_000


class Timeline:
    """Sums per quantum over [0, length) ns from the start of the run.

    p50 and p95 come from buckets 1.6 % wide (off by at most 0.8 %), from 1 us to an hour: for charts.
    """

    def __init__(self, length_ns: int, quantum_ns: int) -> None:
        self.quantum = max(1, quantum_ns, -(-length_ns // MAX_QUANTA))
        self.n = max(1, -(-length_ns // self.quantum))
        self.done = np.zeros(self.n, dtype=np.int64)
        self.failed = np.zeros(self.n, dtype=np.int64)
        self.planned = np.zeros(self.n, dtype=np.int64)
        self.response = np.zeros(self.n)
        self.buckets = np.zeros(self.n * _WIDTH, dtype=np.int64)
        # Integral of the transactions in progress, by their starts and ends: see `_add_edges`.
        self.edges = np.zeros(self.n + 1, dtype=np.int64)
        self.parts = np.zeros(self.n)

    def add(self, block: Block) -> None:
        """Adds a block."""
        rows = block.rows
        self._add_edges(rows.start, 1)
        self._add_edges(block.left, -1)
        self._add_counts(self.planned, rows.scheduled)
        position = self._index(rows.end if block.all_ok else rows.end[block.ok])
        response, bucket = block.response, block.bucket
        if block.end_span[1] >= self.n * self.quantum:
            inside = position < self.n
            position, response, bucket = position[inside], response[inside], bucket[inside]
        self.done += np.bincount(position, minlength=self.n)
        self.response += np.bincount(position, weights=response, minlength=self.n)
        coarse = bucket >> _COARSER
        np.clip(coarse, _FIRST, _LAST, out=coarse)
        position *= _WIDTH
        coarse += position
        coarse -= _FIRST
        np.add.at(self.buckets, coarse, 1)
        if not block.all_ok:
            self._add_counts(self.failed, rows.end[(rows.end >= 0) & ~block.ok])

    def _index(self, at: Int) -> Int:
        return np.maximum(at, 0) // self.quantum

    def _add_counts(self, into: Int, at: Int) -> None:
        position = self._index(at)
        into += np.bincount(position[position < self.n], minlength=self.n)

    def _add_edges(self, at: Int, sign: int) -> None:
        """A start adds the rest of its own quantum, and a whole quantum to every later one; an end subtracts them."""
        position = np.minimum(self._index(at), self.n)
        rest = (position + 1) * self.quantum - np.maximum(at, 0)
        self.edges += sign * np.bincount(position, minlength=self.n + 1)
        parts = np.bincount(position, weights=rest, minlength=self.n + 1)
        self.parts += sign * parts[: self.n]

    def concurrency(self) -> NDArray[np.float64]:
        """Mean number of transactions in progress, per quantum."""
        before = np.concatenate([[0], np.cumsum(self.edges[: self.n - 1])])
        out: NDArray[np.float64] = np.maximum(before + self.parts / self.quantum, 0.0)
        return out

    def series(self, starts: Int, ends: Int) -> Series:
        """The series. `starts`, `ends`: activity of each tester in ns."""
        seconds = self.quantum / 1e9
        p50, p95 = self._quantiles(0.5), self._quantiles(0.95)
        has_any = self.done > 0
        mean = np.divide(self.response, self.done, out=np.zeros(self.n), where=has_any) / 1e6
        return Series(
            quantum_s=seconds,
            t_s=tuple((np.arange(self.n) * seconds).tolist()),
            throughput_per_s=tuple((self.done / seconds).tolist()),
            errors_per_s=tuple((self.failed / seconds).tolist()),
            concurrency=tuple(self.concurrency().tolist()),
            offered_per_s=tuple((self.planned / seconds).tolist()),
            active_testers=tuple(self._active(starts, ends).tolist()),
            response_ms_mean=tuple(m if on else None for m, on in zip(mean.tolist(), has_any, strict=True)),
            response_ms_p50=p50,
            response_ms_p95=p95,
        )

    def _active(self, starts: Int, ends: Int) -> NDArray[np.float64]:
        counter = Timeline.__new__(Timeline)
        counter.quantum, counter.n = self.quantum, self.n
        counter.edges, counter.parts = np.zeros(self.n + 1, dtype=np.int64), np.zeros(self.n)
        counter._add_edges(starts, 1)
        counter._add_edges(ends, -1)
        return counter.concurrency()

    def _quantiles(self, q: float) -> tuple[float | None, ...]:
        out: list[float | None] = []
        for i in range(self.n):
            total = int(self.done[i])
            if total == 0:
                out.append(None)
                continue
            cumulative = np.cumsum(self.buckets[i * _WIDTH : (i + 1) * _WIDTH])
            bucket = int(np.searchsorted(cumulative, rank(q, total) + 1)) + _FIRST
            low, _ = bucket_edges(np.array([bucket << _COARSER], dtype=np.int64))
            _, high = bucket_edges(np.array([((bucket + 1) << _COARSER) - 1], dtype=np.int64))
            out.append((int(low[0]) + int(high[0])) / 2e6)
        return tuple(out)
