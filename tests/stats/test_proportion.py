"""Bounds of error rates against published intervals and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.analyse.stats.proportion import clopper_pearson, error_rate, wilson


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_against_newcombe(count: int, total: int, low: float, high: float) -> None:
    """R. Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3."""
    assert wilson(count, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(81, 263, 0.2527, 0.3676), (15, 148, 0.0578, 0.1617), (0, 20, 0.0, 0.1684), (1, 29, 0.0009, 0.1776)],
)
def test_clopper_pearson_against_newcombe(count: int, total: int, low: float, high: float) -> None:
    """The same table, method 5."""
    assert clopper_pearson(count, total) == pytest.approx((low, high), abs=5e-5)


def test_all_and_nothing() -> None:
    assert wilson(10, 10)[1] == 1.0 and wilson(0, 10)[0] == 0.0
    assert clopper_pearson(10, 10)[1] == 1.0 and clopper_pearson(0, 10)[0] == 0.0
    with pytest.raises(ValueError, match="above 0"):
        wilson(0, 0)


def test_runs_that_agree_are_as_good_as_one() -> None:
    rate = error_rate([10, 10, 10], [1000, 1000, 1000])
    assert rate is not None
    assert rate.design_effect == 1
    assert (rate.low, rate.high) == pytest.approx(wilson(30, 3000))


def test_runs_that_differ_widen_the_bound() -> None:
    rate = error_rate([0, 0, 90], [1000, 1000, 1000])
    assert rate is not None and rate.rate == pytest.approx(0.03)
    assert rate.design_effect > 50
    assert rate.high > 2 * wilson(90, 3000)[1]


def test_upper_bound_covers_clustered_errors() -> None:
    """Error probability drawn per run: the bound of independent requests would hold it in about half of the trials."""
    rng = np.random.default_rng(5)
    trials, hits, naive = 300, 0, 0
    for _ in range(trials):
        p = rng.beta(2, 38, 10)
        errors = rng.binomial(1000, p).tolist()
        rate = error_rate(errors, [1000] * 10)
        assert rate is not None
        hits += rate.low <= 0.05 <= rate.high
        low, high = wilson(sum(errors), 10_000)
        naive += low <= 0.05 <= high
    assert hits / trials >= 0.88
    assert naive / trials < 0.5


def test_nothing_ended() -> None:
    assert error_rate([], []) is None
    assert error_rate([0], [0]) is None
