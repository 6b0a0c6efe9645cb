"""Designs with a loop, whose passes differ: how often a nonexistent effect is detected."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from plimsoll.analyse.effects.effects import Factorial
from plimsoll.analyse.effects.fits import fit_table
from plimsoll.analyse.effects.passes import Loop
from plimsoll.analyse.results.verdicts import ModelReason
from plimsoll.analyse.stats.proportion import clopper_pearson, wilson

SIZES, TESTERS = ("small", "large"), ("1", "2", "4", "8")
LEVELS = {"size": SIZES, "testers": TESTERS}
RUNS_OF = [(size, testers) for size in SIZES for testers in TESTERS]
EXPERIMENTS = 120


def measured(
    rng: np.random.Generator, passes: int, instance: float, effect: float = 0.0
) -> NDArray[np.float64]:
    """By size, pass and testers. The passes differ by `instance` times the deviation of a run."""
    whole = rng.normal(0, instance, (2, passes, 1)) + rng.normal(0, 1, (2, passes, 4))
    shift: NDArray[np.float64] = whole + np.array([-effect / 2, effect / 2])[:, None, None]
    return shift + 100


def fitted(y: NDArray[np.float64], *, with_loop: bool = True, missing: int | None = None) -> Factorial:
    rows = [
        (size, testers, f"{size} {number}", float(y[a, number, b]))
        for a, size in enumerate(SIZES)
        for number in range(y.shape[1])
        for b, testers in enumerate(TESTERS)
    ]
    if missing is not None:
        del rows[missing]
    factors = {"size": [row[0] for row in rows], "testers": [row[1] for row in rows]}
    loop = Loop(["testers"], [row[2] for row in rows]) if with_loop else None
    return fit_table([row[3] for row in rows], factors, levels=LEVELS, loop=loop)


def p_of(fit: Factorial, name: str) -> float | None:
    return next(term.p_value for term in fit.terms if term.name == name)


@pytest.mark.parametrize(("passes", "instance"), [*product((2, 3, 5), (0.5, 2.0)), (3, 0.0), (3, 1.0)])
def test_no_effect_is_rarely_found_between_passes(passes: int, instance: float) -> None:
    rng = np.random.default_rng(61)
    false = {"size": 0, "testers": 0, "size:testers": 0}
    for _ in range(EXPERIMENTS):
        fit = fitted(measured(rng, passes, instance))
        for name in false:
            p = p_of(fit, name)
            assert p is not None
            false[name] += p < 0.05
    for name, count in false.items():
        assert clopper_pearson(count, EXPERIMENTS, confidence=0.98)[0] <= 0.05, f"{name}: {count}"


def test_runs_as_replicates_would_find_it_often() -> None:
    rng = np.random.default_rng(62)
    p_values = [p_of(fitted(measured(rng, 3, 2.0), with_loop=False), "size") for _ in range(EXPERIMENTS)]
    assert np.mean([p is not None and p < 0.05 for p in p_values]) > 0.2


@pytest.mark.long
@pytest.mark.parametrize("is_whole", [True, False])
def test_the_interval_of_an_effect_holds_it(is_whole: bool) -> None:
    rng, held = np.random.default_rng(63), 0
    for _ in range(EXPERIMENTS):
        missing = None if is_whole else int(rng.integers(24))
        fit = fitted(measured(rng, 3, 1.0, effect=4.0), missing=missing)
        size = next(term for term in fit.terms if term.name == "size")
        interval = size.levels[1].interval
        assert interval is not None and interval.low is not None and interval.high is not None
        held += interval.low <= 2.0 <= interval.high
    assert wilson(held, EXPERIMENTS, confidence=0.98)[1] >= 0.95, held


def test_one_pass_has_no_error_between_passes() -> None:
    fit = fitted(measured(np.random.default_rng(64), 1, 1.0))
    assert p_of(fit, "size") is None
    assert all(level.interval is None for term in fit.terms if term.name == "size" for level in term.levels)
    note = next(reason for reason in fit.reasons if reason.code == ModelReason.BY_PASS)
    assert note.values["df"] == 0


def test_shares_are_those_of_all_runs() -> None:
    y = measured(np.random.default_rng(65), 3, 1.0, effect=4.0)
    with_loop, without = fitted(y), fitted(y, with_loop=False)
    assert [term.percent for term in with_loop.terms] == pytest.approx(
        [term.percent for term in without.terms]
    )
    assert [term.name for term in with_loop.terms] == [term.name for term in without.terms]
    effects = [[level.effect for level in term.levels] for term in without.terms]
    for term, expected in zip(with_loop.terms, effects, strict=True):
        assert [level.effect for level in term.levels] == pytest.approx(expected)
