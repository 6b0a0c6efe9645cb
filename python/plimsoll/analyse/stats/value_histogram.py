"""Histograms of values of any unit and sign, which can be merged over runs.

Up to MAX_DISTINCT distinct values are kept as they are. More are collected in buckets that are read off the bits of the
value as a double, 1024 per power of two, as those of durations (`quantiles`). A bucket is represented by the mean of
its values, so a quantile is within 0.1 % of a value that was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.quantiles import histogram_quantiles

Array = NDArray[np.float64]
Int = NDArray[np.int64]

MAX_DISTINCT: Final = 4096
_SHIFT: Final = 52 - 10


@dataclass(frozen=True, slots=True)
class ValueHistogram:
    """`values`: ascending; `counts`: how often each occurs. At least one value."""

    values: tuple[float, ...]
    counts: tuple[int, ...]
    smallest: float
    largest: float

    @staticmethod
    def of(values: Array) -> ValueHistogram | None:
        """The histogram of the finite values; None if there is none."""
        known = values[np.isfinite(values)]
        return _histogram(known, np.ones(known.size, dtype=np.int64))

    @property
    def total(self) -> int:
        """Number of values."""
        return sum(self.counts)

    def quantile(self, q: float) -> float:
        """Quantile q (0..1): the smallest value with at least q n values at or below it."""
        found = histogram_quantiles(self.values, self.counts, [q])
        assert found is not None  # there is at least one value
        return min(self.largest, max(self.smallest, found[0]))


def merged_values(parts: Iterable[ValueHistogram]) -> ValueHistogram | None:
    """The sum of several histograms; None without any."""
    known = list(parts)
    if not known:
        return None
    whole = _histogram(
        np.concatenate([part.values for part in known]),
        np.concatenate([np.array(part.counts, dtype=np.int64) for part in known]),
    )
    assert whole is not None
    ends = min(part.smallest for part in known), max(part.largest for part in known)
    return ValueHistogram(whole.values, whole.counts, *ends)


def _histogram(values: Array, counts: Int) -> ValueHistogram | None:
    if values.size == 0:
        return None
    distinct, position = np.unique(values, return_inverse=True)
    if distinct.size > MAX_DISTINCT:
        keys, position = np.unique(_bucket(values), return_inverse=True)
        size = keys.size
    else:
        size = distinct.size
    total = np.bincount(position.reshape(-1), weights=counts, minlength=size)
    if size < distinct.size:
        distinct = np.bincount(position.reshape(-1), weights=values * counts, minlength=size) / total
    return ValueHistogram(
        tuple(distinct.tolist()),
        tuple(total.astype(np.int64).tolist()),
        float(values.min()),
        float(values.max()),
    )


def _bucket(values: Array) -> Int:
    """The number of the bucket of each value, in the order of the values."""
    bits: Int = np.abs(values).view(np.int64) >> _SHIFT
    out: Int = np.where(values < 0, -bits - 1, bits)
    return out
