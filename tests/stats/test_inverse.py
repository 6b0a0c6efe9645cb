"""Where a line reaches a level: against a search on the confidence band of another implementation, and by coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from plimsoll.analyse.stats.inverse import crossing
from plimsoll.analyse.stats.regression import least_squares

X = np.array([10.0, 20.0, 30.0, 10.0, 20.0, 30.0, 40.0])
Y = np.array([104.0, 113.0, 121.5, 102.5, 111.0, 123.0, 130.5])


@pytest.mark.parametrize("level", [90.0, 115.0, 300.0])
def test_the_interval_is_where_the_confidence_band_contains_the_level(level: float) -> None:
    n = X.size
    fit = least_squares(Y, X[:, None], np.full((n, 1), n**-0.5), np.eye(n))
    assert fit is not None

    def end(side: str, x: float) -> float:
        return float(getattr(fit.mean(np.ones(n, bool), np.array([x])), side)) - level

    found = crossing(X, Y, level)
    assert found is not None
    assert found.value == pytest.approx(brentq(lambda x: end("value", x), -1e4, 1e4))
    # The slope is positive: the upper end of the band reaches the level first.
    assert found.low == pytest.approx(brentq(lambda x: end("high", x), -1e4, found.value))
    assert found.high == pytest.approx(brentq(lambda x: end("low", x), found.value, 1e4))


def test_there_is_no_interval_without_a_slope() -> None:
    assert crossing(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 3.0) is None
    assert crossing(np.ones(5), np.arange(5.0), 3.0) is None
    flat = np.array([1.0, 2.0, 3.0, 4.0])
    assert crossing(flat, np.array([5.0, 4.0, 6.0, 5.0]), 9.0) is None


def test_an_exact_line_has_an_exact_crossing() -> None:
    found = crossing(np.array([1.0, 2.0, 3.0]), np.array([10.0, 12.0, 14.0]), 108.0)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((50.0, 50.0, 50.0))


def test_the_interval_covers_the_truth_at_its_level() -> None:
    rng = np.random.default_rng(20061)
    x = np.repeat([10.0, 20.0, 40.0], 2)
    inside = 0
    for _ in range(2000):
        y = 50 + 0.94 * x + rng.normal(0, 1.0, x.size)
        found = crossing(x, y, 512.0)
        inside += found is not None and found.low <= (512 - 50) / 0.94 <= found.high
    assert 0.935 <= inside / 2000 <= 0.965
