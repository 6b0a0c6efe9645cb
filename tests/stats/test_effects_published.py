"""Effects against the worked examples of the literature."""

from __future__ import annotations

import math

import pytest
from tests.stats.reference import table

from plimsoll.analyse.effects.effects import Factorial, factorial
from plimsoll.analyse.results.verdicts import ModelReason


def coefficients(fit: Factorial) -> dict[str, float]:
    return {t.name: t.coefficient for t in fit.terms if t.coefficient is not None}


def percents(fit: Factorial) -> dict[str, float]:
    return {t.name: t.percent for t in fit.terms if t.percent is not None}


def test_jain_17_two_factors() -> None:
    data = table("jain_2p2_mips")
    fit = factorial(data.y, data.factors, levels=data.signs)
    assert fit.mean == pytest.approx(40)
    assert coefficients(fit) == pytest.approx({"A_memory": 20, "B_cache": 10, "A_memory:B_cache": 5})
    assert fit.total_ss == pytest.approx(2100)
    assert percents(fit) == pytest.approx(
        {"A_memory": 100 * 1600 / 2100, "B_cache": 100 * 400 / 2100, "A_memory:B_cache": 100 * 100 / 2100}
    )
    assert fit.error_df == 0
    assert all(t.coefficient_interval is None for t in fit.terms)
    assert ModelReason.NO_ERROR in [r.code for r in fit.reasons]


def test_jain_17_three_factors() -> None:
    data = table("jain_2p3_mips")
    fit = factorial(data.y, data.factors, levels=data.signs)
    a, b, c = "A_memory", "B_cache", "C_procs"
    q = {a: 10, b: 5, c: 20, f"{a}:{b}": 5, f"{a}:{c}": 2, f"{b}:{c}": 3, f"{a}:{b}:{c}": 1}
    assert fit.mean == pytest.approx(40)
    assert coefficients(fit) == pytest.approx(q)
    rounded = [round(percents(fit)[name]) for name in q]
    assert rounded == [18, 4, 71, 4, 1, 2, 0]
    assert sum(percents(fit).values()) == pytest.approx(100)


def test_jain_18_repetitions() -> None:
    """2^2 3 (Jain, example 18.1 to 18.5: the memory and cache study with three repetitions)."""
    y = [15, 18, 12, 45, 48, 51, 25, 28, 19, 75, 75, 81]
    memory = ["low"] * 3 + ["high"] * 3 + ["low"] * 3 + ["high"] * 3
    cache = ["low"] * 6 + ["high"] * 6
    fit = factorial(
        y,
        {"A": memory, "B": cache},
        levels={"A": ["low", "high"], "B": ["low", "high"]},
        confidence=0.90,
    )
    assert fit.mean == pytest.approx(41)
    assert coefficients(fit) == pytest.approx({"A": 21.5, "B": 9.5, "A:B": 5})
    assert fit.error_ss == pytest.approx(102)
    assert fit.error_df == 8
    assert fit.error_sd == pytest.approx(3.57, abs=0.005)
    assert fit.total_ss == pytest.approx(7032)
    assert percents(fit) == pytest.approx({"A": 78.88, "B": 15.4, "A:B": 4.27}, abs=0.01)
    assert fit.residual_percent == pytest.approx(1.45, abs=0.005)
    by_name = {t.name: t.coefficient_interval for t in fit.terms}
    half = 1.86 * 1.03  # t[0.95; 8] s_q of the book
    for name, q in {"A": 21.5, "B": 9.5, "A:B": 5.0}.items():
        interval = by_name[name]
        assert interval is not None
        assert interval.low == pytest.approx(q - half, abs=0.01)
        assert interval.high == pytest.approx(q + half, abs=0.01)
    assert fit.mean_interval is not None
    assert fit.mean_interval.low == pytest.approx(39.08, abs=0.01)
    assert fit.mean_interval.high == pytest.approx(42.91, abs=0.01)


def test_jain_20_one_factor() -> None:
    data = table("jain_onefactor_codesize")
    fit = factorial(data.y, data.factors, confidence=0.90)
    term = fit.terms[0]
    mean = 187.7
    assert fit.mean == pytest.approx(mean, abs=0.05)
    effects = {level.label: level.effect for level in term.levels}
    assert effects == pytest.approx({"R": -13.3, "V": -24.5, "Z": 37.7}, abs=0.05)
    assert sum(y * y for y in data.y) == pytest.approx(633639)
    assert term.sum_of_squares == pytest.approx(10992.13, abs=0.005)
    assert term.percent == pytest.approx(10.4, abs=0.05)
    assert fit.error_ss == pytest.approx(94365.20, abs=0.005)
    assert fit.residual_percent == pytest.approx(89.6, abs=0.05)
    assert fit.error_sd is not None
    assert fit.error_sd**2 == pytest.approx(7863.8, abs=0.05)
    assert term.f == pytest.approx(0.7, abs=0.05)
    difference = next(d for d in fit.differences if (d.first, d.second) == ("R", "V"))
    assert difference.interval is not None
    assert difference.interval.low == pytest.approx(-88.7, abs=0.1)  # the book rounds t and s
    assert difference.interval.high == pytest.approx(111.1, abs=0.1)


def test_jain_20_unequal_sample_sizes() -> None:
    data = table("jain_onefactor_codesize_unequal")
    fit = factorial(data.y, data.factors)
    term = fit.terms[0]
    assert fit.mean == pytest.approx(172.25)
    effects = {level.label: level.effect for level in term.levels}
    assert effects == pytest.approx({"R": 2.15, "V": 13.75, "Z": -21.92}, abs=0.005)
    assert term.sum_of_squares == pytest.approx(2220.38, abs=0.005)
    assert term.percent == pytest.approx(5.37, abs=0.005)
    assert fit.error_ss == pytest.approx(39113.87, abs=0.005)
    assert term.f == pytest.approx(0.26, abs=0.005)


@pytest.mark.parametrize(
    ("name", "f", "r2", "sd", "digits"),
    [
        ("SiRstv", 1.18046237440255, 0.190999039051129, 0.104076068334656, 11),
        ("AtmWtAg", 15.9467335677930, 0.257426544538321, 1.51048314446410e-05, 8),
        ("SmLs01", 21.0, 0.482758620689655, 0.1, 13),
        ("SmLs04", 21.0, 0.482758620689655, 0.1, 9),
    ],
)
def test_nist_strd_anova(name: str, f: float, r2: float, sd: float, digits: int) -> None:
    """Certified values. AtmWtAg and SmLs04 lose digits when the data are stored as doubles, not in the arithmetic."""
    data = table(f"nist_strd_anova_{name}")
    fit = factorial(data.y, data.factors)
    f_value = fit.terms[0].f
    assert f_value is not None and fit.r_squared is not None and fit.error_sd is not None
    assert correct_digits(f_value, f) >= digits
    assert correct_digits(fit.r_squared, r2) >= digits
    assert correct_digits(fit.error_sd, sd) >= digits


def correct_digits(computed: float, certified: float) -> float:
    """NIST's log relative error."""
    return 16.0 if computed == certified else -math.log10(abs(computed - certified) / abs(certified))


def test_nist_eddy_current() -> None:
    data = table("nist_eddy_current_2p3", leave_out=("run_seq",))
    fit = factorial(data.y, data.factors, levels=data.signs)
    x1, x2, x3 = data.factors
    expected = {
        x1: 3.1025,
        x2: -0.8675,
        x3: 0.2125,
        f"{x1}:{x2}": 0.1275,
        f"{x1}:{x3}": 0.2475,
        f"{x2}:{x3}": 0.2975,
        f"{x1}:{x2}:{x3}": 0.1425,
    }
    assert fit.mean == pytest.approx(2.65875)
    assert {n: 2 * q for n, q in coefficients(fit).items()} == pytest.approx(expected)


def test_nist_sonoluminescence_names_what_cannot_be_separated() -> None:
    data = table("nist_sonoluminescence_2p7m3")
    fit = factorial(data.y, data.factors, levels=data.signs)
    effects = {n: 2 * q for n, q in coefficients(fit).items()}
    main = {
        "x1": 66.2125,
        "x2": -78.6125,
        "x3": 63.8125,
        "x4": 3.7125,
        "x5": 7.4875,
        "x6": -9.0375,
        "x7": -78.1125,
    }
    for name, value in main.items():
        assert effects[name] == pytest.approx(value)
    strings = {
        "x1:x2 + x3:x7 + x5:x6": -59.5625,
        "x1:x3 + x2:x7 + x4:x6": 70.0125,
        "x1:x7 + x2:x3 + x4:x5": -63.4625,
    }
    for name, value in strings.items():
        assert effects[name] == pytest.approx(value)
        assert any(name in remark and "not separable" in remark for remark in fit.not_estimable)
    assert "x1:x2" not in effects, "an aliased effect has no name of its own"
    assert fit.error_df == 0
    assert all(level.interval is None for t in fit.terms for level in t.levels)


def test_bhh_bicycle() -> None:
    data = table("bhh_bicycle_2p7m4")
    fit = factorial(data.y, data.factors, levels=data.signs, max_order=1)
    effects = {n: 2 * q for n, q in coefficients(fit).items()}
    expected = {"x1": 3.5, "x2": 12, "x3": 1, "x4": 22.5, "x5": 0.5, "x6": 1, "x7": 2.5}
    assert effects == pytest.approx(expected)
    with_pairs = factorial(data.y, data.factors, levels=data.signs)
    assert with_pairs.terms[0].name == "x1 + x2:x4 + x3:x5 + x6:x7"


def test_montgomery_filtration() -> None:
    data = table("montgomery_filtration_2p4")
    fit = factorial(data.y, data.factors, levels=data.signs)
    effects = {n: 2 * q for n, q in coefficients(fit).items()}
    expected = {"A": 21.625, "B": 3.125, "C": 9.875, "D": 14.625, "A:C": -18.125, "A:D": 16.625}
    assert {n: effects[n] for n in expected} == pytest.approx(expected)
    assert len(fit.terms) == 15
