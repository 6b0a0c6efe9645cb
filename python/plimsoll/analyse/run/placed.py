"""Sums per tester for the figures of hosts and sites, collected block by block, for runs with several agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.run.traffic import Block, within
from plimsoll.analyse.stats.quantiles import bucket_edges, is_large_enough, rank
from plimsoll.analyse.window.transactions import Int, Window

Array = NDArray[np.float64]
_WIDTH = 64 << 10
"""Greater than the number of any bucket of a duration in ns."""
MAX_PAIRS = 1 << 22
MAX_SITES = 1000
"""With more sites the shares of the peak are not computed, because each site needs a series."""


@dataclass(frozen=True, slots=True)
class TesterSums:
    """The sums of the testers of a run in the measured window: every array has one entry per tester.

    `span`: time (ns) for which it was active in the window, 0 for a slot of an open load; `share`: NaN if it has none;
    `first`, `last`: start and end of its activity over the run, ns (last -1: no transactions). `peak_done`,
    `peak_span`: transactions and time (ns) in the peak window, by site (empty: no peak window).
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
    """By host, not by tester: there are fewer hosts, so the buckets are finer in a long run. Otherwise the error of a
    response time less a round trip of 315 ms would exceed the time of the service."""
    peak_done: Array
    peak_span: Array
    site_quanta: Int
    """Transactions over the run, by site (row) and quantum of `quantum_ns`; with more than MAX_SITES sites without
    quanta."""
    quantum_ns: int


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """Histograms of the response times of many members (hosts, testers) in one. `count` response times of `member` lie
    in `bucket`, which joins 2**shift buckets of `stats.quantiles`. The error is at most 0.05 % times 2**shift."""

    member: Int
    bucket: Int
    count: Int
    shift: int = 0

    def quantiles(self, group: Int, groups: int, qs: tuple[float, ...]) -> list[list[float | None]]:
        """Quantiles in ms for each q and group, from the buckets of all members of the group; None if the sample is too
        small. `group`: of each member by number, or -1."""
        of = group[self.member]
        key = of[of >= 0] * _WIDTH + self.bucket[of >= 0]
        keys, position = np.unique(key, return_inverse=True)
        weights = self.count[of >= 0]
        counts = np.bincount(position.reshape(-1), weights=weights, minlength=keys.size).astype(np.int64)
        edges = np.searchsorted(keys, np.arange(groups + 1) * _WIDTH)
        out: list[list[float | None]] = [[None] * groups for _ in qs]
        for number in range(groups):
            inside = slice(int(edges[number]), int(edges[number + 1]))
            cumulative = np.cumsum(counts[inside])
            total = int(cumulative[-1]) if cumulative.size else 0
            for at, q in enumerate(qs):
                if is_large_enough(q, total):
                    index = int(np.searchsorted(cumulative, rank(q, total) + 1))
                    out[at][number] = self._middle_ms(int(keys[inside][index] % _WIDTH))
        return out

    def _middle_ms(self, bucket: int) -> float:
        first = bucket << self.shift
        low, _ = bucket_edges(np.array([first], dtype=np.int64))
        _, high = bucket_edges(np.array([first + (1 << self.shift) - 1], dtype=np.int64))
        return (int(low[0]) + int(high[0])) / 2e6


class _Times:
    """Collects such histograms. Only pairs of member and bucket that occur need memory; if there are more than
    MAX_PAIRS, neighbouring buckets are joined."""

    def __init__(self) -> None:
        self.shift = 0
        self._parts: list[tuple[Int, Int]] = []
        self._pending = 0

    def add(self, member: Int, bucket: Int) -> None:
        keys, counts = np.unique(member * _WIDTH + (bucket >> self.shift), return_counts=True)
        self._parts.append((keys, counts.astype(np.int64)))
        self._pending += keys.size
        if self._pending > MAX_PAIRS:
            self._merge()

    def _merge(self) -> tuple[Int, Int]:
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        keys, counts = _summed(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))
        while keys.size > MAX_PAIRS // 2:
            self.shift += 1
            keys, counts = _summed(keys // _WIDTH * _WIDTH + (keys % _WIDTH >> 1), counts)
        self._parts, self._pending = [(keys, counts)], int(keys.size)
        return keys, counts

    def result(self) -> ResponseTimes:
        keys, counts = self._merge()
        return ResponseTimes(keys // _WIDTH, keys % _WIDTH, counts, self.shift)


def _summed(keys: Int, counts: Int) -> tuple[Int, Int]:
    distinct, position = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(position.reshape(-1), weights=counts).astype(np.int64)


class PlacedSums:
    """Sums over blocks. `site`, `host`: the numbers of the site and the host of each tester."""

    def __init__(self, site: Int, host: Int, window: Window, quantum_ns: int, quanta: int) -> None:
        self.site, self.host, self.window = site, host, window
        self.payload = np.zeros(site.size, dtype=np.int64)
        self.wire = np.zeros(site.size, dtype=np.int64)
        self.times, self.host_times = _Times(), _Times()
        self.quantum, self.quanta = quantum_ns, quanta
        self.sites = int(site.max(initial=-1)) + 1
        self.over_time = np.zeros(self.sites * quanta if self.sites <= MAX_SITES else 0, dtype=np.int64)

    def add(self, block: Block) -> None:
        """Adds a block."""
        rows = block.rows
        tester = rows.tester.astype(np.int64, copy=False)
        if self.over_time.size:
            ended = block.ok
            quantum = np.minimum(np.maximum(rows.end[ended], 0) // self.quantum, self.quanta - 1)
            position = self.site[tester[ended]] * self.quanta + quantum
            self.over_time += np.bincount(position, minlength=self.over_time.size)
        inside = within(rows.end, block.end_span, self.window)
        if inside is False:
            return
        mask = block.ok if inside is True else inside & block.ok
        bucket = block.bucket if inside is True else block.bucket[inside[block.ok]]
        testers = tester[mask]
        n = self.site.size
        self.payload += np.bincount(testers, weights=rows.payload[mask], minlength=n).astype(np.int64)
        wire = rows.sent[mask] + rows.received[mask]
        self.wire += np.bincount(testers, weights=wire, minlength=n).astype(np.int64)
        self.times.add(testers, bucket)
        self.host_times.add(self.host[testers], bucket)

    def site_quanta(self) -> Int:
        """Transactions by site (row) and quantum; without quanta if there are more than MAX_SITES sites."""
        return self.over_time.reshape(self.sites, self.quanta if self.over_time.size else 0)

    def in_peak(self, start: int, end: int, starts: Int, ends: Int) -> tuple[Array, Array]:
        """Transactions and tester-time (ns) of each site between two times (ns). Within a quantum, transactions are
        interpolated linearly. `starts`, `ends`: activity of the testers, ns."""
        if not self.over_time.size or end <= start:
            return np.empty(0), np.empty(0)
        grown = np.zeros((self.sites, self.quanta + 1))
        np.cumsum(self.over_time.reshape(self.sites, -1), axis=1, out=grown[:, 1:])
        at = np.arange(self.quanta + 1) * self.quantum
        done = np.array([np.interp(end, at, row) - np.interp(start, at, row) for row in grown])
        overlap = np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0)
        return done, np.bincount(self.site, weights=overlap, minlength=self.sites).astype(np.float64)
