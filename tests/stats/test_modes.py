"""Two modes among runs: how often sets of runs with one mode have them, and how often two real modes are found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from plimsoll.compare.estimates import Effect, NoEffect, effect
from plimsoll.compare.metrics import Better, ComparedMetric
from plimsoll.compare.model import Reason, RunValue, Sample, Verdict
from plimsoll.compare.modes import modes_of, two_modes, without_modes
from plimsoll.compare.verdicts import compare

Draw = Callable[[np.random.Generator, int], np.ndarray]
ONE_MODE: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "log-normal": lambda rng, n: rng.lognormal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "logarithms of exponential": lambda rng, n: np.log(rng.exponential(size=n)),
    "uniform": lambda rng, n: rng.uniform(size=n),
}
METRIC = ComparedMetric("throughput", Better.HIGHER)


def found(draw: Draw, runs: int, sets: int) -> float:
    """The share of sets of runs with two modes."""
    rng = np.random.default_rng(31)
    return sum(modes_of(draw(rng, runs).tolist()) is not None for _ in range(sets)) / sets


@pytest.mark.parametrize("runs", [10, 15, 20, 40])
@pytest.mark.parametrize("name", list(ONE_MODE))
def test_runs_with_one_mode_seldom_have_two(name: str, runs: int) -> None:
    # 2,000 sets: the error of a rate of 2 % is 0.3 percentage points.
    assert found(ONE_MODE[name], runs, 2000) <= (0.02 if name != "normal" else 0.01)


@pytest.mark.parametrize(("runs", "least"), [(10, 0.6), (20, 0.9), (40, 0.9)])
def test_two_clear_modes_are_found(runs: int, least: float) -> None:
    """Modes at a distance of ten standard deviations, with 40 % of the runs in the higher one."""
    assert found(lambda rng, n: rng.normal(size=n) + 10 * (rng.random(n) < 0.4), runs, 500) >= least


def side(values: list[float], blocks: bool = False) -> tuple[RunValue, ...]:
    return tuple(RunValue(value, 0, at, f"b{at}" if blocks else None) for at, value in enumerate(values))


TWO = [120.0, 121, 119, 122, 120, 118, 200, 201, 199, 202]
ONE = [120.0, 121, 119, 122, 120, 118, 121, 120, 119, 122]


def test_no_interval_is_claimed_for_the_mean_of_two_modes() -> None:
    sample = Sample(METRIC, {}, side(ONE), side(TWO))
    [one] = compare([sample])
    assert one.verdict is Verdict.UNDECIDED and one.reason is Reason.TWO_MODES and one.interval is None
    assert one.estimate is not None  # the ratio of the means is still shown
    [modes] = two_modes([sample], [math.log(1.03)])
    assert (modes.what, modes.low_runs, modes.high_runs) == ("new", 6, 4)
    assert modes.low == pytest.approx(120, abs=0.1) and modes.high == pytest.approx(200.5, abs=0.1)


def test_the_differences_of_pairs_count_where_there_are_blocks() -> None:
    """Both sides change their mode with the block: the differences have one mode."""
    sample = Sample(METRIC, {}, side(TWO, True), side([1.1 * value for value in TWO], True), same_blocks=True)
    assert isinstance(without_modes(effect(sample), sample, 0.03), Effect)
    mixed = Sample(METRIC, {}, side(ONE, True), side(TWO, True), same_blocks=True)
    refused = without_modes(effect(mixed), mixed, 0.03)
    assert isinstance(refused, NoEffect) and refused.reason is Reason.TWO_MODES
    assert [modes.what for modes in two_modes([mixed], [0.03])] == ["pairs"]


def test_a_gap_below_the_margin_is_no_gap() -> None:
    """A memory of whole pages has few distinct values, whose difference does not matter."""
    pages = [100.0] * 5 + [100.4] * 5
    assert modes_of(pages) is not None and modes_of([math.log(value) for value in pages], 0.03) is None


def test_fewer_than_ten_runs_and_single_outliers_are_no_modes() -> None:
    assert modes_of(TWO[:9]) is None
    assert modes_of([*ONE[:8], 200.0, 201.0]) is None


@pytest.mark.parametrize("blocks", [False, True])
def test_values_without_a_logarithm_have_no_modes(blocks: bool) -> None:
    sample = Sample(METRIC, {}, side([0.0] * 10, blocks), side(TWO, blocks), same_blocks=blocks)
    assert two_modes([sample], [0.03]) == []
    assert compare([sample])[0].reason is Reason.NOT_POSITIVE
