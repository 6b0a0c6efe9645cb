"""Controls of a comparison: equal systems, the order of a pair, and metrics that the change cannot affect."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from scipy import stats

from plimsoll.compare.controls import control_of, drifts, is_control_different, order_effect
from plimsoll.compare.metrics import GENERATOR, Better, ComparedMetric
from plimsoll.compare.model import Drift, Reason, RunValue, Sample, Verdict
from plimsoll.compare.verdicts import compare

P50 = ComparedMetric("response_p50", Better.LOWER)
OLD = (10.0, 10.2, 9.9, 10.1, 10.0, 9.8)


def side(values: Sequence[float], places: Sequence[int]) -> tuple[RunValue, ...]:
    """One run in each block; `places`: its place in the block, from 0."""
    return tuple(
        RunValue(value, 0, 3 * block + place, f"repetition {block}")
        for block, (value, place) in enumerate(zip(values, places, strict=True))
    )


def sample(
    old: Sequence[float],
    new: Sequence[float],
    control: Sequence[float] | None = None,
    metric: ComparedMetric = P50,
) -> Sample:
    """Pairs with the old run first in every second block; the control is always last."""
    first = [block % 2 for block in range(len(old))]
    sides = side(old, first), side(new, [1 - place for place in first])
    equal = None
    if control is not None:
        equal = Sample(metric, {}, sides[0], side(control, [2] * len(old)), True)
    return Sample(metric, {}, *sides, True, equal)


def scaled(values: Sequence[float], *factors: float) -> list[float]:
    return [value * factors[at % len(factors)] for at, value in enumerate(values)]


def test_the_control_is_the_old_level_against_itself() -> None:
    control = control_of(sample(OLD, scaled(OLD, 1.1), scaled(OLD, 1.01, 0.99)))
    assert control is not None and control.pairs == 6
    assert control.estimate == pytest.approx(math.sqrt(1.01 * 0.99))
    theirs = stats.ttest_1samp([math.log(1.01), math.log(0.99)] * 3, 0).confidence_interval(0.95)
    assert (control.interval.low, control.interval.high) == pytest.approx(
        (math.exp(theirs.low), math.exp(theirs.high))
    )
    assert control_of(sample(OLD, OLD)) is None


def test_a_change_is_undecided_if_equal_systems_differ_by_as_much() -> None:
    slower = scaled(OLD, 1.20, 1.201)
    (found,) = compare([sample(OLD, slower, scaled(OLD, 1.01, 0.99))])
    assert found.verdict is Verdict.SLOWER and not is_control_different(found)
    for factors in ((1.25, 1.251), (0.8, 0.801), (1.4, 1.0)):
        (found,) = compare([sample(OLD, slower, scaled(OLD, *factors))])
        assert (found.verdict, found.reason) == (Verdict.UNDECIDED, Reason.CONTROL), factors
        assert is_control_different(found) is (factors[1] != 1.0)
    # "Same" needs no control: equal systems differ by less than the margin.
    (found,) = compare([sample(OLD, scaled(OLD, 1.001, 1.0), scaled(OLD, 1.01, 1.0))])
    assert found.verdict is Verdict.SAME


def test_the_order_effect_is_that_of_the_later_run() -> None:
    # Whichever runs second takes 4 % longer; the new one takes 10 % longer.
    old, new = scaled(OLD, 1.0, 1.04), scaled(OLD, 1.1 * 1.04, 1.1)
    new[0] *= 1.001
    found = order_effect(sample(old, new))
    assert found is not None and found.estimate == pytest.approx(1.04, rel=1e-3)
    assert found.interval.low < 1.04 < found.interval.high
    (compared,) = compare([sample(old, new)])
    assert compared.estimate == pytest.approx(1.1, rel=1e-3) and compared.order == found


def test_an_order_effect_needs_two_pairs_of_each_order() -> None:
    assert order_effect(sample(OLD[:3], scaled(OLD[:3], 1.1, 1.2, 1.0))) is None
    assert order_effect(sample(OLD[:4], scaled(OLD[:4], 1.1, 1.2, 1.0, 1.3))) is not None
    assert order_effect(sample(OLD, OLD)) is None, "no scatter, so no interval"
    unblocked = Sample(P50, {}, side(OLD, [0] * 6), side(OLD, [1] * 6))
    assert order_effect(unblocked) is None
    assert order_effect(sample(OLD, [0.0, *OLD[1:]])) is None


def generator(per_transaction: float, per_second: float) -> list[Drift]:
    found = [
        sample(OLD, scaled(OLD, factor * 1.001, factor), metric=metric)
        for metric, factor in zip(GENERATOR, (per_transaction, per_second), strict=True)
    ]
    return drifts(found, [], 0.03)


@pytest.mark.parametrize(
    ("per_transaction", "per_second", "moved"),
    [
        (1.10, 1.08, True),
        (0.90, 0.92, True),
        (1.10, 0.95, False),  # fewer transactions share the part per second
        (1.10, 1.01, False),
        (1.0, 1.0, False),
    ],
)
def test_the_generator_moved_if_both_of_its_costs_did(
    per_transaction: float, per_second: float, moved: bool
) -> None:
    assert [one.has_moved for one in generator(per_transaction, per_second)] == [moved, moved]


def test_a_change_is_undecided_where_a_control_metric_moved() -> None:
    moved = generator(1.1, 1.1)
    slower = sample(OLD, scaled(OLD, 1.20, 1.201))
    (found,) = compare([slower], 0.03, moved)
    assert (found.verdict, found.reason) == (Verdict.UNDECIDED, Reason.DRIFT)
    other = Sample(P50, {"testers": "8"}, slower.old, slower.new, True)
    (found,) = compare([other], 0.03, moved)
    assert found.verdict is Verdict.SLOWER, "it moved in another cell"
    (found,) = compare([sample(OLD, OLD)], 0.03, moved)
    assert found.verdict is Verdict.SAME


def test_a_named_metric_moves_alone_and_one_without_values_does_not() -> None:
    named = ComparedMetric("response_p50@workload.reference", Better.LOWER)
    for factor, moved in ((1.05, True), (1.01, False)):
        (found,) = drifts([], [sample(OLD, scaled(OLD, factor, factor * 1.001), metric=named)], 0.03)
        assert found.has_moved is moved
    (noisy,) = drifts([], [sample(OLD, scaled(OLD, 1.3, 0.85), metric=named)], 0.03)
    assert not noisy.has_moved and noisy.interval is not None
    unknown = Sample(named, {}, (RunValue(None, 0, 0),), (RunValue(None, 0, 1),))
    (found,) = drifts([], [unknown], 0.03)
    assert not found.has_moved and found.interval is None
