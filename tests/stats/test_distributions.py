"""The distributions compared with scipy.stats, which the lab does not import, and with printed tables."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from plimsoll.analyse.stats.distributions import (
    beta_quantile,
    f_tail,
    noncentral_t_tail,
    normal_quantile,
    t_quantile,
    t_tail,
)

DEGREES = (1, 2, 3, 7.5, 30, 1e4)


@pytest.mark.parametrize("p", [1e-6, 0.025, 0.3, 0.5, 0.9, 0.975, 0.9995])
def test_quantiles(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(float(stats.norm.ppf(p)), rel=1e-10, abs=1e-12)
    for df in DEGREES:
        assert t_quantile(p, df) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-8, abs=1e-10)
    for a, b in ((1, 20), (7, 1), (0.5, 0.5), (300, 9_700)):
        assert beta_quantile(p, a, b) == pytest.approx(float(stats.beta.ppf(p, a, b)), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("x", [0.0, 0.2, 1.0, 2.5, 12.0])
def test_tails(x: float) -> None:
    for df in DEGREES:
        assert t_tail(x, df) == pytest.approx(float(stats.t.sf(x, df)), rel=1e-9)
        assert f_tail(x, 3, df) == pytest.approx(float(stats.f.sf(x, 3, df)), rel=1e-9)


@pytest.mark.parametrize("noncentrality", [0.0, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("t", [0.0, 2.0, 6.0, 25.0])
def test_noncentral_tails(t: float, noncentrality: float) -> None:
    for df in (1, 2, 3, 5, 9, 40):
        expected = float(stats.nct.sf(t, df, noncentrality))
        assert noncentral_t_tail(t, df, noncentrality) == pytest.approx(expected, abs=1e-4)
    # Too large for scipy, which returns NaN or 0.
    for large in (54.0, 1e3, 1e6):
        assert noncentral_t_tail(5.0, 9, large) == pytest.approx(1.0, abs=1e-4)


def test_printed_tables() -> None:
    """Jain (1991), tables A.2, A.4 and A.8, to the printed digits."""
    assert round(normal_quantile(0.975), 3) == 1.960
    assert round(t_quantile(0.95, 9), 3) == 1.833
    assert round(t_quantile(0.975, 1), 3) == 12.706
    assert round(f_tail(6.39, 4, 4), 3) == 0.05


def test_no_degrees_of_freedom_have_no_quantile() -> None:
    assert math.isnan(t_quantile(0.975, 0))
