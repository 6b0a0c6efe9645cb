"""Verdicts of comparisons against the truth: how often "slower", "faster" and "same" are false, and how often a
slowdown is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.stats.compare_truths import METRICS, Truth, simulated

from plimsoll.analyse.stats.proportion import clopper_pearson
from plimsoll.compare.estimates import Effect, effect
from plimsoll.compare.metrics import ComparedMetric
from plimsoll.compare.model import Method, RunValue, Sample, Verdict
from plimsoll.compare.verdicts import compare, corrected_levels

LONG = pytest.mark.long
CHANGED = (Verdict.SLOWER, Verdict.FASTER)
EQUAL = [Truth(runs, cells) for runs in (6, 10) for cells in (1, 4)] + [Truth(6, 2, blocks=0.05)]
AT_MARGIN = [
    replace(truth, slowdown=0.03, more_errors=0.005, spread=spread)
    for truth in EQUAL
    for spread in (None, 0.01)
]


def any_changed(truth: Truth, experiments: int, margin: float = 0.03) -> float:
    """The share of the experiments with any verdict of slower or faster."""
    rng = np.random.default_rng(20)
    found = sum(
        any(one.verdict in CHANGED for one in simulated(rng, truth, margin)) for _ in range(experiments)
    )
    return found / experiments


def shares(truth: Truth, experiments: int, verdict: Verdict, metric: str = "") -> float:
    """The share of the comparisons (of a metric) with a verdict."""
    rng = np.random.default_rng(21)
    found = [
        one.verdict is verdict
        for _ in range(experiments)
        for one in simulated(rng, truth)
        if metric in ("", one.metric)
    ]
    return sum(found) / len(found)


@pytest.mark.parametrize(
    ("truth", "experiments"),
    [
        (EQUAL[0], 250),
        (EQUAL[4], 250),
        *(pytest.param(truth, 1000, marks=LONG) for truth in EQUAL),
        pytest.param(Truth(20, 1), 300, marks=LONG),  # percentiles from the bootstrap
    ],
)
def test_equal_systems_are_seldom_slower_or_faster(truth: Truth, experiments: int) -> None:
    # With a margin of 1 %, most metrics scatter by more than the margin.
    for margin in (0.03, 0.01):
        assert any_changed(truth, experiments, margin) <= 0.05


@pytest.mark.parametrize(
    ("truth", "experiments"),
    [(AT_MARGIN[0], 250), *(pytest.param(truth, 1000, marks=LONG) for truth in AT_MARGIN)],
)
def test_a_change_of_the_margin_is_seldom_called_same_and_seldom_more(truth: Truth, experiments: int) -> None:
    rng = np.random.default_rng(22)
    verdicts = [[one.verdict for one in simulated(rng, truth)] for _ in range(experiments)]
    # The true rate is 5 % for each metric; the metrics of an experiment are correlated, so its share counts once.
    same = np.array([found.count(Verdict.SAME) / len(found) for found in verdicts])
    assert same.mean() - 2.6 * same.std() / np.sqrt(experiments) <= 0.05, same.mean()
    changed = sum(any(verdict in CHANGED for verdict in found) for found in verdicts)
    assert clopper_pearson(changed, experiments)[0] <= 0.05, changed / experiments
    # "Faster" is wrong by twice the margin. Holm's correction of the one-sided tests bounds it by 2.5 %.
    assert sum(Verdict.FASTER in found for found in verdicts) <= 0.025 * experiments


POWER = {
    # standard deviation of a run, runs of a side: found at 5, 8, 10 %, in percent (docs/methods.md)
    (0.01, 6): (46, 100, 100),
    (0.01, 10): (89, 100, 100),
    (0.02, 6): (7, 71, 96),
    (0.02, 10): (20, 99, 100),
    (0.03, 6): (2, 25, 61),
    (0.03, 10): (8, 67, 98),
}
SLOWER = ("throughput", "response_p50", "response_p95", "response_p99")


def power(spread: float, runs: int, slowdown: float, experiments: int) -> float:
    """How often a slowdown of throughput and response times is found in the median response time."""
    truth = Truth(runs, slowdown=slowdown, spread=spread, only=SLOWER)
    return shares(truth, experiments, Verdict.SLOWER, "response_p50")


@LONG
@pytest.mark.parametrize(("spread", "runs"), list(POWER))
def test_slowdowns_are_found_as_often_as_documented(spread: float, runs: int) -> None:
    for slowdown, documented in zip((0.05, 0.08, 0.10), POWER[spread, runs], strict=True):
        assert 100 * power(spread, runs, slowdown, 1000) == pytest.approx(documented, abs=5)


def test_a_large_slowdown_is_found() -> None:
    assert power(0.01, 6, 0.08, 100) >= 0.95


def values(*numbers: float, blocks: bool = False) -> tuple[RunValue, ...]:
    return tuple(RunValue(n, 0, at, f"b{at}" if blocks else None) for at, n in enumerate(numbers))


OLD, NEW = (10.0, 11.0, 10.4, 9.8, 10.9, 10.1), (11.2, 12.5, 11.1, 10.9, 12.4, 11.0)


def test_the_welch_interval_is_that_of_scipy() -> None:
    found = effect(Sample(METRICS[0], {}, values(*OLD), values(*NEW)))
    assert isinstance(found, Effect) and found.method is Method.WELCH
    theirs = stats.ttest_ind(np.log(NEW), np.log(OLD), equal_var=False)
    low, high = theirs.confidence_interval(0.95)
    assert found.ends(0.95) == pytest.approx((low, high)) and found.df == pytest.approx(theirs.df)
    assert found.p_beyond(0.0) == pytest.approx(theirs.pvalue)


def test_the_paired_interval_is_that_of_scipy() -> None:
    found = effect(Sample(METRICS[0], {}, values(*OLD, blocks=True), values(*NEW, blocks=True), True))
    assert isinstance(found, Effect) and (found.method, found.pairs) == (Method.PAIRED, 6)
    theirs = stats.ttest_rel(np.log(NEW), np.log(OLD))
    assert found.ends(0.90) == pytest.approx(tuple(theirs.confidence_interval(0.90)))


@pytest.mark.long
def test_runs_needed_make_equal_systems_the_same_in_four_of_five_cases() -> None:
    rng = np.random.default_rng(3)
    metric: ComparedMetric = METRICS[1]
    drawn = np.exp(rng.normal(0, 0.04, (2, 6)))
    [first] = compare([Sample(metric, {}, values(*drawn[0]), values(*drawn[1]))])
    assert first.runs_needed is not None
    spread = np.log(drawn).std(axis=1, ddof=1)
    same = 0
    for _ in range(400):
        noise = np.exp(rng.normal(0, 1, (2, first.runs_needed)) * spread[:, None])
        [one] = compare([Sample(metric, {}, values(*noise[0]), values(*noise[1]))])
        same += one.verdict is Verdict.SAME
    assert 0.74 <= same / 400 <= 0.88


def test_levels_after_holm_are_those_of_the_step_at_which_it_stops() -> None:
    # .001 <= .05 / 4 and .015 <= .05 / 3 are rejected, .03 > .05 / 2 is not, so .04 is not either.
    assert corrected_levels([0.04, 0.001, None, 0.03, 0.015]) == pytest.approx(
        [1 - 0.05 / 2, 1 - 0.05 / 4, 0.95, 1 - 0.05 / 2, 1 - 0.05 / 3]
    )
