"""Tests of groups and lines compared with scipy.stats, which the lab does not import."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.stats.reference import table

from plimsoll.analyse.stats.anova import equal_means_p, equal_spreads_p, slope_and_p

SIZES = ((3, 3), (3, 4, 9), (2, 2, 2, 2), (40, 3), (1, 5))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shift", [0.0, 1.0, 30.0])
def test_groups(sizes: tuple[int, ...], shift: float) -> None:
    random = np.random.default_rng(len(sizes))
    groups = [random.normal(shift * at, 1.0 + at, size) for at, size in enumerate(sizes)]
    assert equal_means_p(groups) == pytest.approx(float(stats.f_oneway(*groups).pvalue), rel=1e-8)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal deviations in each group: 0 / 0
        expected = float(stats.levene(*groups, center="median").pvalue)
    assert equal_spreads_p(groups) == pytest.approx(expected, rel=1e-8, nan_ok=True)


def test_groups_without_variance() -> None:
    equal, other = np.full(3, 5.0), np.full(3, 6.0)
    assert math.isnan(equal_means_p([equal, equal]))
    assert equal_means_p([equal, other]) == 0.0
    assert math.isnan(equal_spreads_p([equal, other]))
    assert math.isnan(equal_means_p([np.ones(1), np.zeros(1)]))


@pytest.mark.parametrize("size", [3, 6, 40])
@pytest.mark.parametrize("rise", [0.0, 0.3, -5.0])
def test_lines(size: int, rise: float) -> None:
    y = np.random.default_rng(size).normal(0.0, 1.0, size) + rise * np.arange(size)
    slope, p = slope_and_p(y)
    expected = stats.linregress(np.arange(size), y)
    assert slope == pytest.approx(float(expected.slope), rel=1e-10, abs=1e-13)
    assert p == pytest.approx(float(expected.pvalue), rel=1e-7)


@pytest.mark.parametrize(
    ("name", "f", "df", "error_df"),
    [
        ("SiRstv", 1.18046237440255, 4, 20),
        ("AtmWtAg", 15.9467335677930, 1, 46),
        ("SmLs01", 21.0, 8, 180),
        ("SmLs04", 21.0, 8, 180),
    ],
)
def test_certified_analyses_of_variance(name: str, f: float, df: int, error_df: int) -> None:
    """NIST Statistical Reference Datasets."""
    data = table(f"nist_strd_anova_{name}")
    (labels,) = data.factors.values()
    groups = [
        np.array([y for y, label in zip(data.y, labels, strict=True) if label == each])
        for each in dict.fromkeys(labels)
    ]
    assert equal_means_p(groups) == pytest.approx(float(stats.f.sf(f, df, error_df)), rel=1e-6)
