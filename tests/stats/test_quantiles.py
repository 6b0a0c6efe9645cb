"""Quantiles: exact ones against a sort, buckets against exact ones and against HdrHistogram."""

from __future__ import annotations

import math

import numpy as np
import pytest

from plimsoll.analyse.stats.quantiles import (
    Buckets,
    ExactBuckets,
    Histogram,
    bucket_edges,
    bucket_of,
    exact_quantiles,
    histogram_quantiles,
    is_large_enough,
    merged,
)

QS = [0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]


def definition(values: list[int], q: float) -> int:
    """Smallest value with at least q n values at or below it."""
    return sorted(values)[max(0, math.ceil(q * len(values) - 1e-9) - 1)]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101, 5000])
def test_exact_quantiles_by_definition(n: int) -> None:
    values = np.random.default_rng(n).lognormal(14, 2, n).astype(np.int64)
    expected = [definition(values.tolist(), q) for q in QS]
    assert exact_quantiles(values, QS) == expected
    store = ExactBuckets()
    for part in np.array_split(values, 4):
        store.add(part)
    assert [store.quantile(q) for q in QS] == expected


def test_exact_with_ties_and_zeros() -> None:
    values = [0] * 50 + [1] * 10 + [7] * 100 + [10**12]
    store = ExactBuckets()
    store.add(np.array(values, dtype=np.int64))
    assert [store.quantile(q) for q in QS] == [definition(values, q) for q in QS]


def test_buckets_are_within_a_thousandth() -> None:
    values = np.random.default_rng(4).lognormal(15, 2, 100_000).astype(np.int64)
    buckets = Buckets()
    buckets.add(values)
    for q, exact in zip(QS, exact_quantiles(values, QS), strict=True):
        quantile = buckets.quantile(q)
        assert quantile is not None
        assert abs(quantile - exact) <= 0.0005 * exact + 1


def test_bucket_edges_hold_every_value() -> None:
    """All powers of two and their neighbours, up to the largest stamp."""
    powers = np.array([1 << k for k in range(62)], dtype=np.int64)
    values = np.unique(np.concatenate([powers, powers + 1, np.maximum(powers - 1, 1), powers * 3 // 2]))
    low, high = bucket_edges(bucket_of(values))
    double = (
        values < 2**53
    )  # beyond, a double cannot hold the value itself; no duration is that long (104 days)
    assert np.all((low <= values)[double] & (values <= high)[double])
    assert np.all((high - low)[double] <= values[double] / 1024)


def test_merging_is_the_same_as_counting_together() -> None:
    values = np.random.default_rng(2).exponential(1e7, 30_000).astype(np.int64)
    together = Buckets()
    together.add(values)
    parts = []
    for part in np.array_split(values, 7):
        counted_together = Buckets()
        counted_together.add(part)
        parts.append(Histogram.of(counted_together))
    parts.append(Histogram.of(Buckets()))
    whole = merged(parts)
    assert np.array_equal(whole.counts, together.counts)
    assert [whole.quantile(q) for q in QS] == [together.quantile(q) for q in QS]


def test_agrees_with_hdr_histogram() -> None:
    hdrh = pytest.importorskip("hdrh.histogram")
    values = np.random.default_rng(9).lognormal(15, 1, 20_000).astype(np.int64)
    reference = hdrh.HdrHistogram(1, 10**11, 3)
    for value in values.tolist():
        reference.record_value(value)
    buckets = Buckets()
    buckets.add(values)
    for q in (0.5, 0.9, 0.99, 0.999):
        assert buckets.quantile(q) == pytest.approx(reference.get_value_at_percentile(100 * q), rel=2e-3)


def test_histogram_of_any_buckets() -> None:
    assert histogram_quantiles([1.0, 2.0, 5.0], [10, 80, 10], [0.05, 0.5, 0.9, 0.91]) == [1.0, 2.0, 2.0, 5.0]
    assert histogram_quantiles([1.0], [0], [0.5]) is None
    assert histogram_quantiles([], [], [0.5]) is None


def test_ecdf_reaches_the_last_value() -> None:
    values = np.random.default_rng(6).lognormal(14, 1, 50_000).astype(np.int64)
    buckets = Buckets()
    buckets.add(values)
    at, share = buckets.ecdf()
    assert at[-1] == values.max() and share[-1] == 1.0
    assert at == sorted(at) and share == sorted(share)
    assert sum(s > 0.999 for s in share) >= 20, "the tail is drawn"
    for value, s in zip(at[::50], share[::50], strict=True):
        assert s == pytest.approx(float(np.mean(values <= value)), abs=1e-12)


def test_an_empty_store() -> None:
    assert Buckets().quantile(0.5) is None
    assert ExactBuckets().quantile(0.5) is None
    assert Buckets().ecdf() == ([], [])


@pytest.mark.parametrize(
    ("q", "n", "given"), [(0.5, 20, True), (0.5, 19, False), (0.99, 1000, True), (0.99, 999, False)]
)
def test_a_percentile_needs_ten_values_beyond_it(q: float, n: int, given: bool) -> None:
    assert is_large_enough(q, n) is given
