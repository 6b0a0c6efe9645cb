"""Paired designs with a control against the truth: false verdicts, the power that `plan` predicts, and comparisons
after "repeat until tight"."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.stats.compare_truths import Truth, simulated

from plimsoll.analyse.design.repetitions.power import change_shown_by_pairs, half_width, power_of_pairs
from plimsoll.analyse.stats.proportion import clopper_pearson
from plimsoll.compare.estimates import Effect, effect
from plimsoll.compare.metrics import Better, ComparedMetric
from plimsoll.compare.model import Reason, RunValue, Sample, Verdict
from plimsoll.compare.verdicts import compare

LONG = pytest.mark.long
CHANGED = (Verdict.SLOWER, Verdict.FASTER)
P50 = "response_p50"
SLOWER = ("throughput", P50, "response_p95", "response_p99")
PAIRED = Truth(6, blocks=0.05, control=True)
EQUAL = [
    replace(PAIRED, runs=runs, cells=cells, order=order)
    for runs in (6, 10)
    for cells in (1, 3)
    for order in (0.0, 0.02)
]
COMPARISONS = 9
"""Metrics of one cell with one service."""


def any_changed(truth: Truth, experiments: int, margin: float) -> float:
    rng = np.random.default_rng(30)
    found = sum(
        any(one.verdict in CHANGED for one in simulated(rng, truth, margin)) for _ in range(experiments)
    )
    return found / experiments


@pytest.mark.parametrize(
    ("truth", "experiments"),
    [(EQUAL[0], 200), (EQUAL[1], 200), *(pytest.param(truth, 1000, marks=LONG) for truth in EQUAL)],
)
@pytest.mark.parametrize("margin", [0.03, 0.01])
def test_equal_builds_are_seldom_slower_or_faster(truth: Truth, experiments: int, margin: float) -> None:
    assert any_changed(truth, experiments, margin) <= 0.05


def power(truth: Truth, margin: float, experiments: int) -> float:
    """How often the median response time is found to be slower."""
    rng = np.random.default_rng(31)
    found = 0
    for _ in range(experiments):
        (p50,) = (one for one in simulated(rng, truth, margin) if one.metric == P50)
        found += p50.verdict is Verdict.SLOWER
    return found / experiments


def predicted(truth: Truth, margin: float) -> float:
    assert truth.spread is not None
    return power_of_pairs(math.sqrt(2) * truth.spread, truth.runs, truth.slowdown, margin, COMPARISONS)


INJECTED = [(0.01, change) for change in (0.03, 0.05, 0.10)] + [
    (0.03, change) for change in (0.05, 0.08, 0.10)
]


@LONG
@pytest.mark.parametrize(("margin", "slowdown"), INJECTED)
@pytest.mark.parametrize(
    ("spread", "pairs"), [(0.003, 6), (0.007, 6), (0.007, 10), (0.015, 6), (0.015, 10), (0.03, 10)]
)
def test_slowdowns_are_found_with_the_power_that_plan_predicts(
    margin: float, slowdown: float, spread: float, pairs: int
) -> None:
    truth = replace(PAIRED, runs=pairs, slowdown=slowdown, spread=spread)
    alone, wanted = replace(truth, only=(P50,)), predicted(truth, margin)
    assert power(alone, margin, 1000) == pytest.approx(wanted, abs=0.05)
    # If throughput and all response times are worse, Holm's correction is less strict for each.
    assert power(replace(truth, only=SLOWER), margin, 500) >= wanted - 0.05


def test_the_change_of_80_percent_power_is_found_in_four_of_five_experiments() -> None:
    change = change_shown_by_pairs(math.sqrt(2) * 0.01, 6, 0.03, COMPARISONS)
    truth = replace(PAIRED, slowdown=change, spread=0.01, only=(P50,))
    assert predicted(truth, 0.03) == pytest.approx(0.80, abs=1e-3)
    assert power(truth, 0.03, 200) == pytest.approx(0.80, abs=0.10)


def test_the_power_is_that_of_the_noncentral_t() -> None:
    critical = stats.t.ppf(1 - 0.025 / 9, 5)
    noncentrality = (math.log(1.08) - math.log(1.03)) * math.sqrt(6) / 0.02
    expected = stats.nct.sf(critical, 5, noncentrality)
    assert power_of_pairs(0.02, 6, 0.08, 0.03, 9) == pytest.approx(expected, abs=1e-4)
    assert power_of_pairs(0.0, 6, 0.031, 0.03, 9) == 1.0 and power_of_pairs(0.0, 6, 0.03, 0.03, 9) == 0.0


def test_unstable_equal_builds_make_changes_undecided() -> None:
    # The old level alternates between two states, the new one is always 20 % slower than the first.
    metric = ComparedMetric(P50, Better.LOWER)

    def runs(values: list[float], place: int) -> tuple[RunValue, ...]:
        return tuple(RunValue(value, 0, 3 * at + place, f"block {at}") for at, value in enumerate(values))

    old = runs([10.0, 10.1, 9.9, 10.0, 10.1, 10.0], 0)
    control = runs([12.5, 10.0, 12.6, 10.1, 12.4, 10.0], 1)
    new = runs([12.0, 12.1, 11.9, 12.0, 12.1, 12.0], 2)
    (found,) = compare([Sample(metric, {}, old, new, True, Sample(metric, {}, old, control, True))])
    assert (found.verdict, found.reason) == (Verdict.UNDECIDED, Reason.CONTROL)


def after_until_tight(rng: np.random.Generator, sd: float, blocks: float, shift: float) -> Effect:
    """The effect in a pair of cells that were repeated, in common blocks, until both are known to 5 %."""
    values = rng.normal(0, sd, (2, 20)) + rng.normal(0, blocks, 20) + np.array([[0.0], [shift]])
    for n in range(5, 21):
        widths = [half_width(float(cell[:n].std(ddof=1)), n) for cell in values]
        if max(widths) <= 0.05:
            break
    old, new = (
        tuple(RunValue(math.exp(value), 0, 2 * at + side, f"block {at}") for at, value in enumerate(cell[:n]))
        for side, cell in enumerate(values)
    )
    found = effect(Sample(ComparedMetric(P50, Better.LOWER), {}, old, new, True))
    assert isinstance(found, Effect)
    return found


@pytest.mark.parametrize(
    ("sd", "blocks", "experiments"),
    [
        (0.05, 0.02, 1000),
        *(pytest.param(sd, blocks, 5000, marks=LONG) for sd in (0.02, 0.05, 0.08) for blocks in (0.0, 0.05)),
    ],
)
def test_a_pair_that_was_repeated_until_it_is_tight_keeps_its_coverage(
    sd: float, blocks: float, experiments: int
) -> None:
    rng, covered, same, margin = np.random.default_rng(32), 0, 0, math.log1p(0.03)
    for _ in range(experiments):
        found = after_until_tight(rng, sd, blocks, margin)
        low, high = found.ends(0.95)
        covered += low <= margin <= high
        low, high = found.ends(0.90)
        same += -margin < low and high < margin
    # The true coverage is 93.8 % or more (docs/methods.md).
    assert clopper_pearson(covered, experiments)[1] >= 0.938
    assert clopper_pearson(same, experiments)[0] <= 0.05
