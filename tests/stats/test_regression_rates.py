"""Regressions of data with a known truth: coverage of the intervals, size of the test of lack of fit, false laws."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from plimsoll.analyse.effects import regressions
from plimsoll.analyse.effects.passes import Loop
from plimsoll.analyse.effects.regressions import regress
from plimsoll.analyse.results.load.regression import Coefficient, Form, Regression
from plimsoll.analyse.results.verdicts import RegressionVerdict
from plimsoll.analyse.stats.proportion import clopper_pearson

NUMBERS = (1, 2, 4, 8, 16)
COEFFICIENTS: dict[Form, dict[str, float]] = {
    "linear": {"x": 20.0, "w": 15.0},
    "log-log": {"x": 0.5, "w": -0.3},
}


@dataclass(frozen=True)
class Case:
    """A design and its truth. `w`: numbers of a second factor; `kinds`: levels of a factor without numbers; `block`:
    the repetitions are blocks that differ; `loop`: x is looped, and its passes differ; `missing`: number of lost runs;
    `bend`: the exponent falls by twice this with the logarithm of x."""

    form: Form
    x: tuple[int, ...] = NUMBERS
    w: tuple[int, ...] = (1,)
    kinds: tuple[str, ...] = ("0",)
    repetitions: int = 3
    block: bool = False
    loop: bool = False
    missing: int = 0
    bend: float = 0.0


@dataclass
class Counts:
    """Outcomes over simulated experiments. `own`: intervals of the true form that contain the coefficient; `claimed`:
    those of stated laws of that form."""

    own: list[bool] = field(default_factory=list)
    rejected: list[bool] = field(default_factory=list)
    claimed: list[bool] = field(default_factory=list)
    wrong: list[bool] = field(default_factory=list)
    laws: list[bool] = field(default_factory=list)


def experiment(rng: np.random.Generator, case: Case) -> tuple[Regression, ...]:
    rows = [
        (x, w, kind, r)
        for w in case.w
        for r in range(case.repetitions)
        for kind in case.kinds
        for x in case.x
    ]
    if case.missing:
        kept = rng.choice(len(rows), len(rows) - case.missing, replace=False)
        rows = [rows[at] for at in sorted(kept.tolist())]
    common = {key: rng.normal() for key in sorted({(w, kind, r) for _, w, kind, r in rows})}
    days = rng.normal(size=case.repetitions)
    y = []
    for x, w, kind, r in rows:
        noise = rng.normal() + (days[r] if case.block else 0) + (common[w, kind, r] if case.loop else 0)
        slopes = COEFFICIENTS[case.form]
        if case.form == "linear":
            y.append(100 + slopes["x"] * x + slopes["w"] * w + 30 * (kind == "5") + 10 * noise)
        else:
            bent = slopes["x"] * math.log(x) - case.bend * math.log(x) ** 2
            y.append(math.exp(4 + bent + slopes["w"] * math.log(w) + 0.4 * (kind == "5") + 0.05 * noise))
    labels = {
        "x": [str(row[0]) for row in rows],
        "w": [str(row[1]) for row in rows],
        "kind": [row[2] for row in rows],
    }
    return regress(
        y,
        labels,
        response="y",
        block=[str(row[3]) for row in rows] if case.block else None,
        loop=Loop(["x"], [f"{w} {kind} {r}" for _, w, kind, r in rows]) if case.loop else None,
    )


def simulated(case: Case, experiments: int, seed: int, factors: tuple[str, ...] = ("x",)) -> Counts:
    rng, counts = np.random.default_rng(seed), Counts()
    for _ in range(experiments):
        regression = next(each for each in experiment(rng, case) if each.factors == factors)
        for fit in regression.fits:
            if (fit.form, fit.slopes) == (case.form, "common"):
                counts.own += [_holds(case, each) for each in fit.coefficients if each.factor]
                counts.rejected.append(fit.lack_of_fit.verdict == RegressionVerdict.REJECTED)
        counts.laws.append(regression.verdict == RegressionVerdict.FITS)
        if regression.verdict != RegressionVerdict.FITS:
            continue
        if regression.fit.form == case.form:
            counts.claimed += [_holds(case, each) for each in regression.fit.coefficients if each.factor]
        counts.wrong.append(regression.fit.form != case.form and regression.distinguished)
    return counts


def _holds(case: Case, coefficient: Coefficient) -> bool:
    low, high = coefficient.interval.low, coefficient.interval.high
    assert low is not None and high is not None
    return low <= COEFFICIENTS[case.form][coefficient.factor] <= high


def is_possible(outcomes: list[bool], low: float, high: float) -> bool:
    """Whether a rate between `low` and `high` can be the true one (99.8 %)."""
    ends = clopper_pearson(sum(outcomes), len(outcomes), confidence=0.998)
    return ends[0] <= high and ends[1] >= low


CASES = [
    Case("log-log"),
    Case("linear"),
    Case("log-log", x=(1, 4, 16)),
    Case("log-log", block=True, missing=2),
    Case("linear", block=True, missing=2),
    Case("log-log", kinds=("0", "5")),
    Case("log-log", w=(1, 2, 4), repetitions=3, loop=True),
    Case("linear", w=(1, 2, 4), repetitions=3, loop=True, missing=3),
]


@pytest.fixture(autouse=True)
def _without_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the charts take most of the time of a regression, and none of them is judged here."""
    monkeypatch.setattr(regressions, "LINE_POINTS", 2)


@pytest.mark.parametrize(
    "case", [*CASES[:3], *(pytest.param(case, marks=pytest.mark.long) for case in CASES[3:])]
)
def test_intervals_hold_the_coefficient_and_true_forms_are_rarely_rejected(case: Case) -> None:
    counts = simulated(case, 250, 71)
    assert is_possible(counts.own, 0.94, 0.96), np.mean(counts.own)
    assert is_possible(counts.rejected, 0.04, 0.06), np.mean(counts.rejected)
    assert is_possible(counts.claimed, 0.93, 0.96), np.mean(counts.claimed)
    assert is_possible(counts.wrong, 0.0, 0.04), np.mean(counts.wrong)


@pytest.mark.long
def test_means_of_passes_and_several_factors() -> None:
    looped = Case("log-log", w=(1, 2, 4, 8), repetitions=3, loop=True)
    for counts in (
        simulated(looped, 150, 72, ("w",)),
        simulated(Case("log-log", x=(1, 2, 4), w=(1, 2, 4), repetitions=2), 150, 73, ("x", "w")),
    ):
        assert is_possible(counts.own, 0.94, 0.96), np.mean(counts.own)
        assert is_possible(counts.rejected, 0.04, 0.06), np.mean(counts.rejected)


def test_what_bends_has_rarely_a_law() -> None:
    """From x = 1 to 16 the exponent falls from 0.5 to -0.05; the noise of a run is 5 %."""
    assert is_possible(simulated(Case("log-log", bend=0.1), 100, 74).laws, 0.0, 0.05)
