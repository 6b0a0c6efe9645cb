"""Quantiles of durations: exact from the values, or within 0.1 % from log buckets that can be merged.

Quantile q of n values is the smallest value with at least q n values at or below it (the inverse of the empirical
distribution, type 1 of Hyndman and Fan 1996): always a value that was measured, and the definition that histograms
share. Rejected: interpolation (numpy's default). It yields values between two modes that do not occur, and the exact
and the bucketed form would differ.

The buckets are read off the bits of the value as a double: 1024 buckets per power of two, so the relative width is at
most 1/1024 and the value reported (the middle of the bucket) is off by at most 0.05 %. Below 1024 ns they are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]

STANDARD = (0.5, 0.9, 0.95, 0.99, 0.999)
MIN_BEYOND = 10
"""A percentile is reported only if at least this number of values lies beyond it."""

MISSING_OF_MEAN = 1e-3
"""No mean is reported if a greater share of the values is missing."""

_BITS = 10
_SHIFT = 52 - _BITS
_OFFSET = 1023 << _BITS
_PER_OCTAVE = 1 << _BITS


def is_large_enough(q: float, samples: float) -> bool:
    """Whether a sample is large enough for quantile q: at least ten values beyond it. p99 needs 1,000."""
    return samples * min(q, 1.0 - q) >= MIN_BEYOND - 1e-9


def rank(q: float, count: int) -> int:
    """0-based position of quantile q (0..1) among `count` (> 0) sorted values."""
    return min(count - 1, max(0, math.ceil(q * count - 1e-9) - 1))


def is_beyond(q: float, count: int, missing: int) -> bool:
    """Whether quantile q of `count` known values and `missing` greater ones is one of the greater ones."""
    return count + missing > 0 and rank(q, count + missing) >= count


def exact_quantiles(values: Int, qs: Sequence[float]) -> list[int]:
    """Quantiles of an unsorted array of at least one value, in one partition. The array is not changed."""
    ranks = [rank(q, values.size) for q in qs]
    ordered = np.partition(values, sorted(set(ranks)))
    return [int(ordered[position]) for position in ranks]


def bucket_of(values: Int) -> Int:
    """Bucket number of each value (ns, >= 0; 0 shares the bucket of 1)."""
    bits: Int = np.maximum(values, 1).astype(np.float64).view(np.int64)
    bits >>= _SHIFT
    bits -= _OFFSET
    return bits


def bucket_edges(number: Int) -> tuple[Int, Int]:
    """Smallest and largest integer value of each bucket."""
    return _lowest(number), _lowest(number + 1) - 1


def _lowest(number: Int) -> Int:
    mantissa = 1.0 + (number & (_PER_OCTAVE - 1)) / _PER_OCTAVE
    edge: Int = np.ceil(np.ldexp(mantissa, number >> _BITS)).astype(np.int64)
    return edge


def histogram_quantiles(
    values: Sequence[float] | NDArray[np.float64] | Int, counts: Sequence[int] | Int, qs: Sequence[float]
) -> list[float] | None:
    """Quantiles of any histogram: `values` represent their buckets, ascending. Merged histograms add their counts.

    None if the histogram is empty.
    """
    cumulative = np.cumsum(np.asarray(counts, dtype=np.int64))
    total = int(cumulative[-1]) if cumulative.size else 0
    if total == 0:
        return None
    indices = np.searchsorted(cumulative, [rank(q, total) + 1 for q in qs])
    return [float(values[int(index)]) for index in indices]


class Buckets:
    """Log-bucketed counts of durations in ns. Grows with the range of the values, at most 0.5 MB."""

    def __init__(self) -> None:
        self.counts: Int = np.zeros(0, dtype=np.int64)
        self.missing = 0
        """Number of values that are not in `counts` and are taken to be greater than all that are."""
        self.least_missing: int | None = None
        """The shortest of the times (ns) that missing values are known to exceed; None: no such time is known."""
        self.failed = 0
        """Number of failures. They are no part of the distribution; a rule counts them as longer than any limit."""
        self.smallest: int | None = None
        self.largest: int | None = None

    def add(self, values: Int, number: Int | None = None) -> None:
        """Counts values (ns, >= 0). `number`: their bucket numbers, if the caller has them."""
        if values.size:
            self._extend_range(int(values.min()), int(values.max()))
            self._add_counts(np.bincount(bucket_of(values) if number is None else number))

    def _extend_range(self, low: int, high: int) -> None:
        self.smallest = low if self.smallest is None else min(self.smallest, low)
        self.largest = high if self.largest is None else max(self.largest, high)

    def _add_counts(self, counts: Int) -> None:
        if counts.size > self.counts.size:
            grown = np.zeros(counts.size, dtype=np.int64)
            grown[: self.counts.size] = self.counts
            self.counts = grown
        self.counts[: counts.size] += counts

    def note_missing(self, at_least: int | None) -> None:
        """Records a time (ns) that missing values are known to exceed; None is ignored."""
        if at_least is not None:
            self.least_missing = at_least if self.least_missing is None else min(self.least_missing, at_least)

    @property
    def bound(self) -> int | None:
        """Lower bound (ns) of a quantile among the missing values: the longest time that was counted, or less if a
        missing value is not known to be as long. None if no value was counted."""
        if self.largest is None or self.least_missing is None:
            return self.largest
        return min(self.largest, self.least_missing)

    def absorb(self, counts: Int, smallest: int, largest: int) -> None:
        """Adds the counts of another histogram; quantiles are then those of both together."""
        self._extend_range(smallest, largest)
        self._add_counts(counts)

    @property
    def total(self) -> int:
        """Number of values that were counted."""
        return int(self.counts.sum())

    def position(self, q: float, *, failed: bool = False) -> int | None:
        """Position of quantile q among the values in ascending order; None if it is among the missing values, or among
        the failures if `failed`."""
        total = self.total
        more = self.missing + (self.failed if failed else 0)
        return None if total == 0 or is_beyond(q, total, more) else rank(q, total + more)

    def locate(self, position: int) -> tuple[int, int]:
        """Bucket that contains the value at a position, and the number of values in the buckets below it."""
        cumulative = np.cumsum(self.counts)
        bucket = int(np.searchsorted(cumulative, position + 1))
        return bucket, int(cumulative[bucket - 1]) if bucket else 0

    def quantile(self, q: float, *, failed: bool = False) -> int | None:
        """Quantile q in ns, within 0.05 %; None if no value was counted, or if it is among the missing values. If
        `failed`, failures count as longer than any value, and a quantile among them is None."""
        position = self.position(q, failed=failed)
        if self.largest is None or self.smallest is None or position is None:
            return None
        bucket, _ = self.locate(position)
        low, high = bucket_edges(np.array([bucket], dtype=np.int64))
        return min(self.largest, max(self.smallest, (int(low[0]) + int(high[0])) // 2))

    def ecdf(self, points: int = 400) -> tuple[list[int], list[float]]:
        """Points of the distribution: value (ns, upper edge of its bucket) and share of values at or below it.

        About half of the points are evenly spaced in share, the others in the logarithm of the share beyond, so that
        the tail can be drawn to the last value. Missing values have no point but count in the total.
        """
        used = np.nonzero(self.counts)[0]
        if used.size == 0 or self.largest is None:
            return [], []
        cumulative = np.cumsum(self.counts[used])
        total = int(cumulative[-1])
        body = np.linspace(0.0, 1.0, points // 2)
        tail = 1.0 - np.logspace(0.0, -math.log10(max(total, 10)), points - points // 2)
        wanted = np.unique(np.concatenate([body, tail]))
        indices = np.unique(np.searchsorted(cumulative, np.maximum(1, np.ceil(wanted * total - 1e-9))))
        indices = indices[indices < used.size]
        upper = np.minimum(bucket_edges(used[indices].astype(np.int64))[1], self.largest)
        return upper.tolist(), (cumulative[indices] / (total + self.missing)).tolist()


@dataclass(frozen=True, slots=True)
class Histogram:
    """The used buckets of a `Buckets`, which are stored and merged over runs. Durations in ns."""

    bucket: tuple[int, ...]
    count: tuple[int, ...]
    smallest: int | None
    largest: int | None
    missing: int = 0
    failed: int = 0
    least_missing: int | None = None

    @staticmethod
    def of(buckets: Buckets) -> Histogram:
        """A copy of the present counts."""
        used = np.nonzero(buckets.counts)[0]
        return Histogram(
            tuple(used.tolist()),
            tuple(buckets.counts[used].tolist()),
            buckets.smallest,
            buckets.largest,
            buckets.missing,
            buckets.failed,
            buckets.least_missing,
        )


class ExactBuckets:
    """Buckets that also keep their values (8 bytes each), and therefore have exact quantiles.

    The bucket of a quantile is known from the counts, so only the values of that bucket are read again: less work than
    a partition, and no second copy of the values.
    """

    def __init__(self) -> None:
        self.buckets = Buckets()
        self.parts: list[Int] = []

    def add(self, values: Int, number: Int | None = None) -> None:
        """Adds values (>= 0, ns), and their bucket numbers if the caller has them. The array is kept, not copied."""
        if values.size:
            self.parts.append(values)
            self.buckets.add(values, number)

    def quantile(self, q: float) -> int | None:
        """Exact quantile q in ns; None without values, or if it is among the missing values."""
        position = self.buckets.position(q)
        if position is None:
            return None
        bucket, below = self.buckets.locate(position)
        low, high = (int(edge[0]) for edge in bucket_edges(np.array([bucket], dtype=np.int64)))
        if bucket == 0:
            low = 0
        if low == high:
            return low
        inside = np.concatenate([part[(part >= low) & (part <= high)] for part in self.parts])
        inside_rank = position - below
        return int(np.partition(inside, inside_rank)[inside_rank])


def merged(parts: Iterable[Histogram]) -> Buckets:
    """The sum of several histograms."""
    out = Buckets()
    for part in parts:
        out.missing += part.missing
        out.failed += part.failed
        out.note_missing(part.least_missing)
        if part.smallest is None or part.largest is None:
            continue
        counts = np.zeros(part.bucket[-1] + 1, dtype=np.int64)
        counts[list(part.bucket)] = part.count
        out.absorb(counts, part.smallest, part.largest)
    return out
