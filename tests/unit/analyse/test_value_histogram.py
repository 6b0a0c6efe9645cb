"""Histograms of values of any unit and sign, against the values themselves."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.analyse.stats.quantiles import rank
from plimsoll.analyse.stats.value_histogram import MAX_DISTINCT, ValueHistogram, merged_values

QS = (0.001, 0.05, 0.5, 0.9, 0.99)


def test_few_distinct_values_are_exact() -> None:
    values = np.array([3.0, -1.5, 0.0, 3.0, 7.25, np.nan, np.inf])
    found = ValueHistogram.of(values)
    assert found is not None
    assert (found.values, found.counts) == ((-1.5, 0.0, 3.0, 7.25), (1, 1, 2, 1))
    assert [found.quantile(q) for q in (0.2, 0.5, 0.8, 0.99)] == [-1.5, 3.0, 3.0, 7.25]
    assert ValueHistogram.of(np.array([np.nan])) is None and merged_values([]) is None


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e15])
def test_many_values_of_both_signs_are_within_a_thousandth(scale: float) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(0.5, 1.0, 50_000) * scale
    found = ValueHistogram.of(values)
    assert found is not None and len(found.values) < 30_000 and found.total == values.size
    assert list(found.values) == sorted(found.values)
    ordered = np.sort(values)
    for q in QS:
        assert found.quantile(q) == pytest.approx(ordered[rank(q, values.size)], rel=1e-3)
    assert (found.smallest, found.largest) == (ordered[0], ordered[-1])


def test_merged_histograms_are_those_of_all_values_together() -> None:
    rng = np.random.default_rng(8)
    parts = [rng.lognormal(1, 1, size) for size in (10, MAX_DISTINCT + 1, 20_000)]
    merged = merged_values(found for part in parts if (found := ValueHistogram.of(part)) is not None)
    ordered = np.sort(np.concatenate(parts))
    assert merged is not None and merged.total == ordered.size
    for q in QS:
        assert merged.quantile(q) == pytest.approx(ordered[rank(q, ordered.size)], rel=1e-3)
