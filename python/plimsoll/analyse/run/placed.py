"""Sums per tester that make figures of hosts and sites: gathered block by block, where a run has several agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.run.traffic import Block, within
from plimsoll.analyse.stats.quantiles import bucket_edges, carries, rank
from plimsoll.analyse.window.transactions import Int, Window

Array = NDArray[np.float64]
_WIDTH = 64 << 10
"""More than the number of any bucket of a duration in ns."""
MAX_VISITED = 1 << 22
MAX_SITES = 1000
"""Of more sites no shares of the peak are given: a series is kept for each."""


@dataclass(frozen=True, slots=True)
class TesterSums:
    """What the testers of a run did in the measured window, one entry per tester in every array.

    `span`: ns that it was active in the window, 0 where it is a slot of an open load; `share` NaN where it has none;
    `first`, `last`: its activity over the run, ns (last -1: it did nothing). `peak_done`, `peak_span`: transactions and
    time (ns) in the peak window, by site (empty: no peak window).
    """

    done: Int
    failed: Int
    payload: Int
    wire: Int
    response: Array
    span: Array
    share: Array
    first: Int
    last: Int
    times: ResponseTimes
    host_times: ResponseTimes
    """By host, not by tester: fewer, and so finer in a long run. What is left of a response time after a round trip of
    315 ms would else be off by more than the service takes."""
    peak_done: Array
    peak_span: Array


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """Histograms of the response times of many members (hosts, testers) in one: how many (`count`) of `member` lie in
    `bucket`, of the buckets of `quantiles`, 2**shift of them together. Off by 0.05 % times that at most."""

    member: Int
    bucket: Int
    count: Int
    shift: int = 0

    def quantiles(self, group: Int, groups: int, qs: tuple[float, ...]) -> list[list[float | None]]:
        """Quantiles in ms for each q and group, by the buckets of all its members together; None where the sample
        cannot carry one. `group`: of each member by number, or -1."""
        of = group[self.member]
        key = of[of >= 0] * _WIDTH + self.bucket[of >= 0]
        met, place = np.unique(key, return_inverse=True)
        weights = self.count[of >= 0]
        counts = np.bincount(place.reshape(-1), weights=weights, minlength=met.size).astype(np.int64)
        edges = np.searchsorted(met, np.arange(groups + 1) * _WIDTH)
        out: list[list[float | None]] = [[None] * groups for _ in qs]
        for number in range(groups):
            inside = slice(int(edges[number]), int(edges[number + 1]))
            cumulative = np.cumsum(counts[inside])
            total = int(cumulative[-1]) if cumulative.size else 0
            for at, q in enumerate(qs):
                if carries(q, total):
                    place_of = int(np.searchsorted(cumulative, rank(q, total) + 1))
                    out[at][number] = self._middle_ms(int(met[inside][place_of] % _WIDTH))
        return out

    def _middle_ms(self, bucket: int) -> float:
        first = bucket << self.shift
        low, _ = bucket_edges(np.array([first], dtype=np.int64))
        _, high = bucket_edges(np.array([first + (1 << self.shift) - 1], dtype=np.int64))
        return (int(low[0]) + int(high[0])) / 2e6


class _Times:
    """Gathers such histograms. Only what was met takes memory; where that is more than MAX_VISITED pairs of member and
    bucket, neighbouring buckets are put together."""

    def __init__(self) -> None:
        self.shift = 0
        self._parts: list[tuple[Int, Int]] = []
        self._pending = 0

    def add(self, member: Int, bucket: Int) -> None:
        keys, counts = np.unique(member * _WIDTH + (bucket >> self.shift), return_counts=True)
        self._parts.append((keys, counts.astype(np.int64)))
        self._pending += keys.size
        if self._pending > MAX_VISITED:
            self._merge()

    def _merge(self) -> tuple[Int, Int]:
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        keys, counts = _together(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))
        while keys.size > MAX_VISITED // 2:
            self.shift += 1
            keys, counts = _together(keys // _WIDTH * _WIDTH + (keys % _WIDTH >> 1), counts)
        self._parts, self._pending = [(keys, counts)], int(keys.size)
        return keys, counts

    def result(self) -> ResponseTimes:
        keys, counts = self._merge()
        return ResponseTimes(keys // _WIDTH, keys % _WIDTH, counts, self.shift)


def _together(keys: Int, counts: Int) -> tuple[Int, Int]:
    met, place = np.unique(keys, return_inverse=True)
    return met, np.bincount(place.reshape(-1), weights=counts).astype(np.int64)


class PlacedSums:
    """`add` blocks; `site`, `host` are the numbers of the site and the host of each tester."""

    def __init__(self, site: Int, host: Int, window: Window, quantum_ns: int, quanta: int) -> None:
        self.site, self.host, self.window = site, host, window
        self.payload = np.zeros(site.size, dtype=np.int64)
        self.wire = np.zeros(site.size, dtype=np.int64)
        self.times, self.host_times = _Times(), _Times()
        self.quantum, self.quanta = quantum_ns, quanta
        self.sites = int(site.max(initial=-1)) + 1
        self.over_time = np.zeros(self.sites * quanta if self.sites <= MAX_SITES else 0, dtype=np.int64)

    def add(self, block: Block) -> None:
        """Takes a block."""
        rows = block.rows
        tester = rows.tester.astype(np.int64, copy=False)
        if self.over_time.size:
            ended = block.ok
            quantum = np.minimum(np.maximum(rows.end[ended], 0) // self.quantum, self.quanta - 1)
            place = self.site[tester[ended]] * self.quanta + quantum
            self.over_time += np.bincount(place, minlength=self.over_time.size)
        inside = within(rows.end, block.end_span, self.window)
        if inside is False:
            return
        mask = block.ok if inside is True else inside & block.ok
        bucket = block.bucket if inside is True else block.bucket[inside[block.ok]]
        mine = tester[mask]
        n = self.site.size
        self.payload += np.bincount(mine, weights=rows.payload[mask], minlength=n).astype(np.int64)
        wire = rows.sent[mask] + rows.received[mask]
        self.wire += np.bincount(mine, weights=wire, minlength=n).astype(np.int64)
        self.times.add(mine, bucket)
        self.host_times.add(self.host[mine], bucket)

    def in_peak(self, start: int, end: int, starts: Int, ends: Int) -> tuple[Array, Array]:
        """Transactions and tester-time (ns) of each site between two times, ns; between the edges of quanta the
        transactions are taken to have come evenly. `starts`, `ends`: activity of the testers."""
        if not self.over_time.size or end <= start:
            return np.empty(0), np.empty(0)
        grown = np.zeros((self.sites, self.quanta + 1))
        np.cumsum(self.over_time.reshape(self.sites, -1), axis=1, out=grown[:, 1:])
        at = np.arange(self.quanta + 1) * self.quantum
        done = np.array([np.interp(end, at, row) - np.interp(start, at, row) for row in grown])
        overlap = np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0)
        return done, np.bincount(self.site, weights=overlap, minlength=self.sites).astype(np.float64)
