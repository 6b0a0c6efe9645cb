"""The general linear model behind the effects, against statsmodels and against data made with known effects."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from plimsoll.analyse.effects.effects import UnsuitableData, factorial
from plimsoll.analyse.results.verdicts import ModelReason

A = ["a1", "a2", "a3"]
B = ["b1", "b2", "b3", "b4"]


def crossed(repetitions: int) -> tuple[list[str], list[str]]:
    rows = [(a, b) for a in A for b in B for _ in range(repetitions)]
    return [a for a, _ in rows], [b for _, b in rows]


def statsmodels_anova(y: Any, a: list[str], b: list[str], typ: int, formula: str) -> dict[str, float]:
    """Sums of squares by statsmodels, sum contrasts."""
    pandas = pytest.importorskip("pandas")
    smf = pytest.importorskip("statsmodels.formula.api")
    anova = pytest.importorskip("statsmodels.stats.anova")
    frame = pandas.DataFrame({"y": y, "a": a, "b": b})
    squares = anova.anova_lm(smf.ols(formula, frame).fit(), typ=typ)["sum_sq"].to_dict()
    return {str(key): float(value) for key, value in squares.items()}


@pytest.mark.parametrize("ss_type", ["II", "III"])
def test_unbalanced_agrees_with_statsmodels(ss_type: Any) -> None:
    a, b = crossed(3)
    rng = np.random.default_rng(20061)
    keep = sorted(rng.choice(len(a), size=29, replace=False).tolist())
    a, b = [a[i] for i in keep], [b[i] for i in keep]
    y = rng.normal(10, 1, len(a)) + np.array([A.index(x) for x in a]) * 2 + np.array([B.index(x) for x in b])
    fit = factorial(y, {"a": a, "b": b}, ss_type=ss_type)
    formula = "y ~ C(a, Sum) * C(b, Sum)"
    expected = statsmodels_anova(y, a, b, 2 if ss_type == "II" else 3, formula)
    assert fit.sum_of_squares == f"type {ss_type}"
    squares = {t.name: t.sum_of_squares for t in fit.terms}
    assert squares["a"] == pytest.approx(expected["C(a, Sum)"])
    assert squares["b"] == pytest.approx(expected["C(b, Sum)"])
    assert squares["a:b"] == pytest.approx(expected["C(a, Sum):C(b, Sum)"])
    assert fit.error_ss == pytest.approx(expected["Residual"])
    assert all(t.percent is None for t in fit.terms), "shares that do not add up are no allocation"
    assert ModelReason.NO_ALLOCATION in [r.code for r in fit.reasons]


def test_unbalanced_coefficients_and_errors_agree_with_statsmodels() -> None:
    pandas = pytest.importorskip("pandas")
    smf = pytest.importorskip("statsmodels.formula.api")
    a, b = crossed(2)
    a, b = a[:-3], b[:-3]
    rng = np.random.default_rng(7)
    a += ["a3", "a3"]
    b += ["b3", "b4"]
    y = rng.normal(5, 1, len(a))
    fit = factorial(y, {"a": a, "b": b})
    frame = pandas.DataFrame({"y": y, "a": a, "b": b})
    reference = smf.ols("y ~ C(a, Sum) * C(b, Sum)", frame).fit()
    effects = {level.label: level for t in fit.terms if t.name == "a" for level in t.levels}
    for label in ("a1", "a2"):
        interval = effects[label].interval
        low, high = reference.conf_int().loc[f"C(a, Sum)[S.{label}]"]
        assert interval is not None
        assert effects[label].effect == pytest.approx(reference.params[f"C(a, Sum)[S.{label}]"])
        assert (interval.low, interval.high) == pytest.approx((low, high))
    assert sum(level.effect for level in effects.values()) == pytest.approx(0, abs=1e-12)


def test_balanced_effects_are_recovered_and_add_up() -> None:
    a, b = crossed(4)
    shift_a, shift_b = {"a1": -3.0, "a2": 1.0, "a3": 2.0}, {"b1": -1.0, "b2": 0.0, "b3": 0.5, "b4": 0.5}
    rng = np.random.default_rng(1)
    y = [20 + shift_a[i] + shift_b[j] + e for i, j, e in zip(a, b, rng.normal(0, 0.01, len(a)), strict=True)]
    fit = factorial(y, {"a": a, "b": b})
    assert fit.sum_of_squares == "orthogonal"
    for term, shifts in (("a", shift_a), ("b", shift_b)):
        effects = {level.label: level.effect for t in fit.terms if t.name == term for level in t.levels}
        assert effects == pytest.approx(shifts, abs=0.02)
    shares = sum(t.percent or 0.0 for t in fit.terms) + (fit.residual_percent or 0.0)
    assert shares == pytest.approx(100)
    assert fit.error_df == len(A) * len(B) * 3
    assert np.array(fit.fitted) + np.array(fit.residuals) == pytest.approx(np.array(y))


def test_log_scale_gives_ratios() -> None:
    a, b = crossed(2)
    factor_a, factor_b = {"a1": 0.5, "a2": 1.0, "a3": 2.0}, {"b1": 0.25, "b2": 1.0, "b3": 1.0, "b4": 4.0}
    wobble = [1.01 if i % 2 else 1 / 1.01 for i in range(len(a))]
    y = [100 * factor_a[i] * factor_b[j] * w for i, j, w in zip(a, b, wobble, strict=True)]
    fit = factorial(y, {"a": a, "b": b}, scale="log")
    assert fit.mean == pytest.approx(100)
    levels = {level.label: level for t in fit.terms for level in t.levels}
    assert levels["a3"].effect == pytest.approx(2)
    assert levels["b1"].effect == pytest.approx(0.25)
    assert levels["a1, b1"].effect == pytest.approx(1), "what multiplies has no interaction on this scale"
    interval = levels["a3"].interval
    assert interval is not None and interval.low is not None and interval.high is not None
    assert interval.low < 2 < interval.high
    assert interval.low * interval.high == pytest.approx(4), "symmetric as a ratio"


def test_blocks_take_their_share_and_leave_the_effects() -> None:
    a, b = crossed(2)
    day = ["mon", "tue"] * (len(a) // 2)
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 0.1, len(a))
    y = [A.index(i) + 50 * (d == "tue") + e for i, d, e in zip(a, day, noise, strict=True)]
    fit = factorial(y, {"a": a, "b": b}, block=day)
    assert fit.block_percent is not None and fit.block_percent > 90
    assert fit.error_df == len(a) - len(A) * len(B) - 1
    effects = {level.label: level.effect for t in fit.terms if t.name == "a" for level in t.levels}
    assert effects == pytest.approx({"a1": -1, "a2": 0, "a3": 1}, abs=0.1)


def test_a_factor_that_is_its_own_block_is_named() -> None:
    a, b = crossed(2)
    fit = factorial([float(i) for i in range(len(a))], {"a": a, "b": b}, block=a)
    assert "a: the same as block" in fit.not_estimable
    assert "a" not in {t.name for t in fit.terms}


def test_two_factors_that_always_go_together_are_not_split() -> None:
    """statsmodels fits this by pinv and gives each half of the effect."""
    a = ["low", "high"] * 4
    y = [1.0, 3.0, 1.1, 3.1, 0.9, 2.9, 1.0, 3.0]
    fit = factorial(y, {"a": a, "twin": a})
    assert [t.name for t in fit.terms] == ["a + twin"]
    assert fit.terms[0].coefficient == pytest.approx(1.0)
    assert any("not separable" in remark for remark in fit.not_estimable)


def test_a_missing_cell_costs_the_interaction_a_degree_of_freedom() -> None:
    a, b = crossed(2)
    keep = [i for i, pair in enumerate(zip(a, b, strict=True)) if pair != ("a3", "b4")]
    a, b = [a[i] for i in keep], [b[i] for i in keep]
    rng = np.random.default_rng(3)
    fit = factorial(rng.normal(1, 1, len(a)), {"a": a, "b": b})
    assert "a:b: only 5 of its 6 degrees of freedom can be separated from other terms" in fit.not_estimable
    interaction = next(t for t in fit.terms if t.name == "a:b")
    assert interaction.df == 5
    assert interaction.levels == ()
    assert {t.name for t in fit.terms if t.levels} == {"a", "b"}


def test_directions_that_interactions_share_belong_to_none_of_them() -> None:
    """2x2x2 without the combinations (b1, c1): a:b and a:c overlap, whatever the order of the factors."""
    rows = [
        (a, b, c)
        for a, b, c in product(("a0", "a1"), ("b0", "b1", "b2"), ("c0", "c1", "c2"))
        if (b, c) in {("b0", "c0"), ("b0", "c1"), ("b1", "c0"), ("b2", "c2")}
    ] * 2
    rng = np.random.default_rng(8)
    y = rng.normal(10, 1, len(rows))
    columns = dict(zip("abc", zip(*rows, strict=True), strict=True))
    fits = [factorial(y, {name: columns[name] for name in order}) for order in ("abc", "acb", "bca", "cba")]
    lines = [
        {
            frozenset(frozenset(part.factors) for part in term.parts): (
                term.df,
                round(term.sum_of_squares, 9),
            )
            for term in fit.terms
        }
        for fit in fits
    ]
    assert all(line == lines[0] for line in lines)
    shared = [term for term in fits[0].terms if len(term.parts) > 1]
    assert shared and all(not term.levels for term in shared)


def test_a_nested_factor_is_estimated_where_it_applies() -> None:
    """access methods: zip only exists for two of three methods."""
    method, zip_level, y = [], [], []
    for m in ("frontier", "squid", "direct"):
        for z in ("0", "5") if m != "direct" else (None,):
            for repetition in range(3):
                method.append(m)
                zip_level.append(z)
                base = {"frontier": 10.0, "squid": 20.0, "direct": 5.0}[m]
                y.append(base + {"0": -1.0, "5": 1.0, None: 0.0}[z] + 0.01 * (repetition - 1))
    fit = factorial(y, {"method": method, "zip": zip_level})
    names = {t.name: t for t in fit.terms}
    assert set(names) == {"method", "zip", "method:zip"}
    assert {level.label: level.effect for level in names["zip"].levels} == pytest.approx({"0": -1, "5": 1})
    assert names["method:zip"].df == 1
    effects = {level.label: level.effect for level in names["method"].levels}
    assert effects["squid"] - effects["frontier"] == pytest.approx(10)
    assert effects["frontier"] - effects["direct"] == pytest.approx(5)
    assert fit.error_df == 10


def test_one_repetition_of_a_general_design_has_no_interval() -> None:
    a, b = crossed(1)
    fit = factorial([float(i * i) for i in range(len(a))], {"a": a, "b": b})
    assert fit.error_df == 0
    assert fit.error_sd is None
    assert fit.mean_interval is None
    assert all(t.p_value is None and t.f is None for t in fit.terms)
    assert sum(t.percent or 0 for t in fit.terms) == pytest.approx(100)
    additive = factorial([float(i * i) for i in range(len(a))], {"a": a, "b": b}, max_order=1)
    assert additive.error_df == 6, (
        "Jain 21.1: the residual of the additive model stands for the error when asked"
    )


def test_equal_responses() -> None:
    fit = factorial([3.0] * 8, {"a": ["x", "y"] * 4})
    assert fit.terms[0].coefficient == pytest.approx(0)
    assert fit.residual_percent is None
    assert ModelReason.NO_VARIATION in [r.code for r in fit.reasons]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: factorial([1.0], {"a": ["x"]}), "at least two runs"),
        (lambda: factorial([1.0, 2.0], {"a": ["x"]}), "'a' has 1 values for 2 runs"),
        (lambda: factorial([1.0, math.nan], {"a": ["x", "y"]}), "not finite"),
        (lambda: factorial([1.0, 0.0], {"a": ["x", "y"]}, scale="log"), "above 0"),
        (lambda: factorial([1.0, 2.0], {"a": ["x", "x"]}), "no factor has two levels"),
    ],
)
def test_unsuitable_data_are_refused_with_the_reason(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UnsuitableData, match=message):
        call()


@pytest.mark.long
def test_a_large_design_is_fitted_without_its_highest_orders() -> None:
    rng = np.random.default_rng(11)
    names = "abcdefgh"
    factors = {n: [str(v) for v in rng.integers(0, 3, 800)] for n in names}
    fit = factorial(rng.normal(0, 1, 800), factors, max_order=2)
    assert len(fit.terms) == 8 + 28
    assert fit.lack_of_fit_df > 0 and fit.error_df > 0
    assert fit.error_sd == pytest.approx(1, abs=0.4)


def test_rounding_is_no_effect() -> None:
    """B has none: neither its sum of squares nor its effects are 1e-16, with intervals that exclude 0."""
    fit = factorial([0.1, 0.3, 0.1, 0.3, 0.1, 0.3, 0.1, 0.3], {"A": list("lhlhlhlh"), "B": list("llhhllhh")})
    b = next(term for term in fit.terms if term.name == "B")
    assert b.sum_of_squares == 0.0 and [level.effect for level in b.levels] == [0.0, 0.0]
