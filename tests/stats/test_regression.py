"""Regressions against NIST's certified answer, statsmodels, and data made with known coefficients."""

from __future__ import annotations

import csv
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from plimsoll.analyse.effects.passes import Loop
from plimsoll.analyse.effects.regressions import numeric_levels, regress
from plimsoll.analyse.results.load.regression import Regression, RegressionFit
from plimsoll.analyse.results.verdicts import RegressionVerdict, UntestedReason

NORRIS = Path(__file__).parent / "data" / "nist_strd_norris.csv"
SIZES = ("1kB", "2kB", "4kB", "8kB", "16kB")


def norris() -> tuple[list[float], list[str]]:
    with NORRIS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [float(row["y"]) for row in rows], [row["x"] for row in rows]


def fit_of(regression: Regression, form: str, slopes: str = "common") -> RegressionFit:
    return next(fit for fit in regression.fits if (fit.form, fit.slopes) == (form, slopes))


def slopes_of(fit: RegressionFit) -> dict[str, float]:
    return {each.factor: each.interval.mean for each in fit.coefficients if each.factor}


def test_norris_has_the_certified_answer() -> None:
    y, x = norris()
    (regression,) = regress(y, {"x": x}, response="y")
    fit = fit_of(regression, "linear")
    constant, slope = fit.coefficients
    assert constant.interval.mean == pytest.approx(-0.262323073774029, rel=1e-10)
    assert slope.interval.mean == pytest.approx(1.00211681802045, rel=1e-13)
    assert fit.residual_sd == pytest.approx(0.884796396144373, rel=1e-11)
    assert fit.residual_df == 34
    assert fit.r_squared == pytest.approx(0.999993745883712, rel=1e-14)
    t = 2.0322445093177173  # 0.975 quantile at 34 degrees of freedom
    for coefficient, error in ((constant, 0.232818234301152), (slope, 0.000429796848199937)):
        interval = coefficient.interval
        assert interval.low == pytest.approx(interval.mean - t * error, rel=1e-10)
        assert interval.high == pytest.approx(interval.mean + t * error, rel=1e-10)


def test_a_far_origin_and_other_units_change_no_digit_that_counts() -> None:
    y, x = norris()
    (regression,) = regress(
        [value * 1e-6 + 1e3 for value in y], {"x": [f"{float(v) + 1e6}" for v in x]}, response="y"
    )
    fit = fit_of(regression, "linear")
    assert slopes_of(fit)["x"] == pytest.approx(1.00211681802045e-6, rel=1e-6)
    assert fit.residual_sd == pytest.approx(0.884796396144373e-6, rel=1e-6)


def unbalanced(seed: int) -> tuple[list[float], dict[str, list[str]], list[str]]:
    """A design with a missing cell and blocks that differ."""
    rows = [(s, z, d) for d, s, z in product(("mon", "tue", "wed"), SIZES, ("0", "5"))]
    rng = np.random.default_rng(seed)
    rows = [rows[i] for i in sorted(rng.choice(len(rows), 25, replace=False).tolist())]
    level = {"mon": 0.0, "tue": 0.2, "wed": -0.1}
    y = [
        100 * float(s[:-2]) ** 0.5 * (1 + (z == "5")) * math.exp(level[d] + rng.normal(0, 0.05))
        for s, z, d in rows
    ]
    return y, {"size": [row[0] for row in rows], "zip": [row[1] for row in rows]}, [row[2] for row in rows]


@pytest.mark.parametrize(("form", "slopes"), [*product(("linear", "log-log"), ("common", "own"))])
def test_other_factors_and_blocks_agree_with_statsmodels(form: str, slopes: str) -> None:
    pandas = pytest.importorskip("pandas")
    smf = pytest.importorskip("statsmodels.formula.api")
    anova = pytest.importorskip("statsmodels.stats.anova")
    y, factors, day = unbalanced(3)
    (regression,) = regress(y, factors, response="y", block=day)
    fit = fit_of(regression, form, slopes)
    x = np.array([float(label[:-2]) * 1000 for label in factors["size"]])
    is_log = form == "log-log"
    frame = pandas.DataFrame(
        {"y": np.log(y) if is_log else y, "x": np.log(x) if is_log else x, "day": day, **factors}
    )
    reference = smf.ols(f"y ~ C(zip) + C(day) + {'x' if slopes == 'common' else 'C(zip):x'}", frame).fit()
    whole = smf.ols("y ~ C(zip):C(size) + C(day)", frame).fit()
    names = ["x"] if slopes == "common" else ["C(zip)[0]:x", "C(zip)[5]:x"]
    found = [each for each in fit.coefficients if each.factor]
    for name, coefficient in zip(names, found, strict=True):
        low, high = reference.conf_int().loc[name]
        interval = coefficient.interval
        assert interval.mean == pytest.approx(reference.params[name])
        assert (interval.low, interval.high) == pytest.approx((low, high))
        assert coefficient.p_value == pytest.approx(reference.pvalues[name], rel=1e-6)
    lack = anova.anova_lm(reference, whole).iloc[1]
    assert fit.lack_of_fit.f == pytest.approx(lack["F"])
    assert fit.lack_of_fit.p_value == pytest.approx(lack["Pr(>F)"])
    assert (fit.lack_of_fit.df, fit.lack_of_fit.error_df) == (lack["df_diff"], whole.df_resid)
    assert fit.residual_sd == pytest.approx(math.sqrt(reference.mse_resid))
    nothing = smf.ols("y ~ C(zip) + C(day)", frame).fit()
    assert fit.r_squared == pytest.approx(1 - reference.ssr / nothing.ssr)


def test_the_band_of_a_line_agrees_with_statsmodels() -> None:
    pandas = pytest.importorskip("pandas")
    smf = pytest.importorskip("statsmodels.formula.api")
    y, x = norris()
    (regression,) = regress(y, {"x": x}, response="y")
    (line,) = regression.lines
    frame = pandas.DataFrame({"y": y, "x": [float(value) for value in x]})
    points = pandas.DataFrame({"x": [point.x for point in line.points]})
    expected = smf.ols("y ~ x", frame).fit().get_prediction(points).summary_frame()
    assert [point.mean for point in line.points] == pytest.approx(list(expected["mean"]))
    assert [point.low for point in line.points] == pytest.approx(list(expected["mean_ci_lower"]))
    assert [point.high for point in line.points] == pytest.approx(list(expected["mean_ci_upper"]))


def power(rng: np.random.Generator, sd: float = 0.02) -> tuple[list[float], dict[str, list[str]]]:
    rows = [(s, z) for s in SIZES for z in ("0", "5") for _ in range(3)]
    y = [50 * float(s[:-2]) ** -0.5 * (1 + (z == "5")) * math.exp(rng.normal(0, sd)) for s, z in rows]
    return y, {"size": [row[0] for row in rows], "zip": [row[1] for row in rows]}


def test_a_power_is_found_and_a_straight_line_rejected() -> None:
    y, factors = power(np.random.default_rng(1))
    (regression,) = regress(y, factors, response="throughput_per_s")
    assert (regression.factors, regression.others, regression.units) == (("size",), ("zip",), {"size": "B"})
    assert (regression.fit.form, regression.fit.slopes) == ("log-log", "common")
    assert regression.verdict == RegressionVerdict.FITS and regression.distinguished
    assert fit_of(regression, "linear").lack_of_fit.verdict == RegressionVerdict.REJECTED
    assert slopes_of(regression.fit)["size"] == pytest.approx(-0.5, abs=0.01)
    assert [line.combination for line in regression.lines] == [{"zip": "0"}, {"zip": "5"}]
    low, high = (line.points[0].mean for line in regression.lines)
    assert [low, high] == pytest.approx([50, 100], rel=0.03)


def test_own_coefficients_if_common_ones_do_not_fit() -> None:
    rng = np.random.default_rng(2)
    rows = [(s, z) for z in ("5", "0") for s in SIZES for _ in range(3)]
    y = [float(s[:-2]) ** (0.5 if z == "5" else 1.0) * math.exp(rng.normal(0, 0.02)) for s, z in rows]
    factors = {"size": [row[0] for row in rows], "zip": [row[1] for row in rows]}
    (regression,) = regress(y, factors, response="y", levels={"size": SIZES, "zip": ("0", "5")})
    assert (regression.fit.form, regression.fit.slopes) == ("log-log", "own")
    found = {c.combination["zip"]: c.interval.mean for c in regression.fit.coefficients if c.factor}
    assert found == {"0": pytest.approx(1.0, abs=0.02), "5": pytest.approx(0.5, abs=0.02)}
    assert list(found) == ["0", "5"], "in the order of the levels"


def test_several_factors_are_fitted_alone_and_together() -> None:
    rng = np.random.default_rng(3)
    rows = [(s, t) for s in SIZES for t in ("1", "2", "4") for _ in range(2)]
    y = [float(s[:-2]) ** 0.5 * float(t) ** 0.9 * math.exp(rng.normal(0, 0.01)) for s, t in rows]
    found = regress(y, {"size": [r[0] for r in rows], "testers": [r[1] for r in rows]}, response="y")
    assert [each.factors for each in found] == [("size",), ("testers",), ("size", "testers")]
    together = found[-1]
    assert together.lines == () and together.verdict == RegressionVerdict.FITS
    assert slopes_of(together.fit) == {
        "size": pytest.approx(0.5, abs=0.01),
        "testers": pytest.approx(0.9, abs=0.02),
    }
    assert (together.fit.lack_of_fit.df, together.fit.lack_of_fit.error_df) == (12, 15)


def test_what_bends_has_no_law() -> None:
    rng = np.random.default_rng(4)
    sizes = [s for s in SIZES for _ in range(3)]
    y = [100 * (1 - math.exp(-float(s[:-2]))) * math.exp(rng.normal(0, 0.005)) for s in sizes]
    (regression,) = regress(y, {"size": sizes}, response="y")
    assert regression.verdict == RegressionVerdict.REJECTED
    assert all(fit.lack_of_fit.verdict == RegressionVerdict.REJECTED for fit in regression.fits)


@pytest.mark.parametrize(
    ("sizes", "y", "reason"),
    [
        (["1", "2", "4", "8"], [1.0, 2.1, 3.9, 8.2], UntestedReason.NO_REPETITION),
        (["1", "2", "4", "8"] * 2, [1.0, 2.0, 4.0, 8.0] * 2, UntestedReason.NO_VARIATION),
    ],
)
def test_without_repetitions_or_variation_nothing_is_tested(
    sizes: list[str], y: list[float], reason: UntestedReason
) -> None:
    (regression,) = regress(y, {"size": sizes}, response="y")
    test = fit_of(regression, "linear").lack_of_fit
    assert (test.verdict, test.p_value, test.reason) == (RegressionVerdict.NOT_TESTED, None, reason)


def test_as_many_coefficients_as_cells_cannot_be_tested() -> None:
    rows = [("1", "2"), ("2", "1"), ("4", "4")] * 2
    y = [1.0, 2.0, 3.0, 1.1, 2.1, 3.1]
    found = regress(y, {"a": [r[0] for r in rows], "b": [r[1] for r in rows]}, response="y")
    (together,) = found
    assert together.factors == ("a", "b"), "the combinations determine each factor: none can be separated"
    assert together.fit.lack_of_fit.reason == UntestedReason.NO_FREEDOM


def test_equal_repetitions_that_bend_are_rejected() -> None:
    (regression,) = regress([1.0, 2.0, 2.5] * 2, {"a": ["1", "2", "4"] * 2}, response="y")
    test = fit_of(regression, "linear").lack_of_fit
    assert (test.verdict, test.f, test.p_value) == (RegressionVerdict.REJECTED, None, 0.0)


def test_zero_and_negative_numbers_have_no_logarithm() -> None:
    (regression,) = regress([1.0, 2.0, 3.0, 1.1, 2.1, 3.2], {"think": ["0", "1s", "2s"] * 2}, response="y")
    assert [fit.form for fit in regression.fits] == ["linear"]
    (regression,) = regress([-1.0, 2.0, 3.0, -1.1, 2.1, 3.2], {"think": ["1s", "2s", "3s"] * 2}, response="y")
    assert [fit.form for fit in regression.fits] == ["linear"]


@pytest.mark.parametrize("labels", [["1", "2"], ["a", "b", "c"], ["1s", "1kB", "2kB"], ["1", "1", "x"]])
def test_levels_that_are_not_three_numbers_have_no_regression(labels: list[str]) -> None:
    assert regress([float(at) for at in range(3 * len(labels))], {"a": labels * 3}, response="y") == ()


def test_the_numbers_of_levels_have_a_unit() -> None:
    levels = numeric_levels(["0", "10ms", "1s"])
    assert levels is not None and levels.unit == "s"
    assert levels.numbers == {"0": 0.0, "10ms": pytest.approx(0.01), "1s": 1.0}
    assert numeric_levels(["1", "1kB"]) is None


def test_a_nested_factor_is_fitted_where_it_applies() -> None:
    rows = [("on", s) for s in SIZES for _ in range(2)] + [("off", None)] * 3
    y = [2 * float(s[:-2]) + 0.01 * at if s else 500.0 for at, (_, s) in enumerate(rows)]
    (regression,) = regress(y, {"way": [r[0] for r in rows], "size": [r[1] for r in rows]}, response="y")
    assert regression.values == 10 and regression.others == ()
    assert slopes_of(fit_of(regression, "linear"))["size"] == pytest.approx(0.002, rel=0.01)


def test_with_a_loop_each_factor_is_compared_in_its_stratum() -> None:
    rng = np.random.default_rng(5)
    rows = [(w, n, s) for w in ("1", "2", "4", "8") for n in range(3) for s in SIZES]
    common = {(w, n): rng.normal(0, 0.3) for w in ("1", "2", "4", "8") for n in range(3)}
    y = [float(s[:-2]) ** 0.5 / float(w) * math.exp(common[w, n] + rng.normal(0, 0.01)) for w, n, s in rows]
    factors = {"way": [r[0] for r in rows], "size": [r[2] for r in rows]}
    loop = Loop(["size"], [f"{w} {n}" for w, n, _ in rows])
    within, between = regress(y, factors, response="y", loop=loop)
    assert (within.factors, within.stratum, within.values) == (("size",), "within passes", 60)
    assert (between.factors, between.stratum, between.values) == (("way",), "between passes", 12)
    assert within.fit.residual_sd < 0.02 < 0.1 < fit_of(between, "log-log").residual_sd
    lack = within.fit.lack_of_fit
    assert (lack.df, lack.error_df) == (15, 32), "cells beyond the slope; 60 runs - 20 cells - 8 passes"
