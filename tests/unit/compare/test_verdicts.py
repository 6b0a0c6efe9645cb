"""Verdicts and effects of single comparisons."""

from __future__ import annotations

import math

import pytest

from plimsoll.compare.metrics import Better, ComparedMetric, Scale
from plimsoll.compare.model import Comparison, Method, Reason, RunValue, Sample, Verdict
from plimsoll.compare.verdicts import compare

TIME = ComparedMetric("response_p50", Better.LOWER)
RATE = ComparedMetric("throughput", Better.HIGHER)
ERRORS = ComparedMetric("errors", Better.LOWER, Scale.DIFFERENCE, 0.005)


def side(*values: float | None, blocks: str = "", trials: float | None = None) -> tuple[RunValue, ...]:
    names = blocks or " " * len(values)
    return tuple(
        RunValue(value, 0, at, name.strip() or None, trials)
        for at, (value, name) in enumerate(zip(values, names, strict=True))
    )


def one(
    metric: ComparedMetric, old: tuple[RunValue, ...], new: tuple[RunValue, ...], same_blocks: bool = False
) -> Comparison:
    [found] = compare([Sample(metric, {}, old, new, same_blocks)])
    return found


STEADY, DOUBLED = (10.0, 10.1, 9.9), (20.0, 20.2, 19.8)


def test_the_direction_of_the_metric_decides_between_slower_and_faster() -> None:
    for metric, verdict in ((TIME, Verdict.SLOWER), (RATE, Verdict.FASTER)):
        assert one(metric, side(*STEADY), side(*DOUBLED)).verdict is verdict
    assert one(RATE, side(*DOUBLED), side(*STEADY)).verdict is Verdict.SLOWER
    found = one(TIME, side(*STEADY), side(*DOUBLED))
    assert found.estimate == pytest.approx(2.0) and found.interval is not None and found.corrected is not None
    assert found.interval.low > 1.03 and found.adjusted_p is not None and found.adjusted_p < 0.05
    assert found.old == pytest.approx(math.prod(STEADY) ** (1 / 3))


def test_a_significant_change_within_the_margin_is_the_same() -> None:
    found = one(TIME, side(100.0, 100.1, 99.9, 100.0), side(101.0, 101.1, 100.9, 101.0))
    assert found.interval is not None and found.interval.low > 1.0
    assert found.verdict is Verdict.SAME and found.adjusted_p == 1.0


def test_a_wide_interval_is_undecided_and_states_the_runs_that_are_needed() -> None:
    found = one(TIME, side(10.0, 11.0, 9.0, 10.5), side(10.4, 11.3, 9.2, 10.6))
    assert (found.verdict, found.reason) == (Verdict.UNDECIDED, Reason.WIDE)
    assert found.runs_needed is not None and 50 < found.runs_needed < 500


def test_one_run_of_a_side_has_a_ratio_and_no_interval() -> None:
    found = one(TIME, side(10.0), side(*DOUBLED))
    assert (found.verdict, found.reason, found.interval) == (Verdict.UNDECIDED, Reason.ONE_RUN, None)
    assert found.estimate == pytest.approx(2.0, rel=0.01) and found.method is Method.NONE


def test_a_run_without_a_value_makes_the_comparison_undecided() -> None:
    found = one(TIME, side(*STEADY), side(20.0, 20.1, None, 20.2))
    assert (found.verdict, found.reason) == (Verdict.UNDECIDED, Reason.UNKNOWN)
    assert found.new_runs == 4 and found.estimate is not None and found.interval is None
    assert one(TIME, side(*STEADY), side(None, None)).estimate is None
    assert compare([Sample(TIME, {}, side(None, None), side(None, None))]) == ()


def test_a_value_of_0_has_no_ratio() -> None:
    found = one(RATE, side(*STEADY), side(0.0, 1.0, 1.0))
    assert (found.verdict, found.reason, found.estimate) == (Verdict.UNDECIDED, Reason.NOT_POSITIVE, None)


def test_pairs_remove_what_the_runs_of_a_block_have_in_common() -> None:
    old, new = (10.0, 20.0, 40.0, 80.0), (11.0, 22.1, 44.0, 87.9)
    paired = one(TIME, side(*old, blocks="abcd"), side(*new, blocks="abcd"), same_blocks=True)
    assert (paired.method, paired.pairs, paired.verdict) == (Method.PAIRED, 4, Verdict.SLOWER)
    apart = one(TIME, side(*old, blocks="abcd"), side(*new, blocks="abcd"))
    assert (apart.method, apart.pairs, apart.verdict) == (Method.WELCH, 0, Verdict.UNDECIDED)
    other = one(TIME, side(*old, blocks="abcd"), side(*new, blocks="efgh"), same_blocks=True)
    assert other.method is Method.WELCH
    some = one(TIME, side(*old, blocks="abcd"), side(*new, blocks="abce"), same_blocks=True)
    assert (some.method, some.pairs) == (Method.PAIRED, 3)


def test_errors_are_compared_by_their_difference_with_an_absolute_margin() -> None:
    found = one(ERRORS, side(0.0, 0.0, 0.0, trials=5000), side(0.02, 0.021, 0.019, trials=5000))
    assert found.verdict is Verdict.SLOWER and found.estimate == pytest.approx(0.02) and found.margin == 0.005


@pytest.mark.parametrize(("trials", "verdict"), [(20, Verdict.UNDECIDED), (5000, Verdict.SAME)])
def test_few_transactions_without_an_error_prove_nothing(trials: float, verdict: Verdict) -> None:
    assert (
        one(ERRORS, side(0.0, 0.0, 0.0, trials=trials), side(0.0, 0.0, 0.0, trials=trials)).verdict is verdict
    )


def test_values_without_scatter_have_an_interval_of_width_0() -> None:
    assert one(TIME, side(5.0, 5.0), side(5.0, 5.0)).verdict is Verdict.SAME
    assert one(TIME, side(5.0, 5.0), side(6.0, 6.0)).verdict is Verdict.SLOWER


def test_more_comparisons_need_a_greater_change() -> None:
    changed = Sample(TIME, {}, side(10.0, 10.1, 9.9), side(10.8, 10.75, 10.95))
    equal = Sample(RATE, {}, side(10.0, 12.0, 11.0), side(12.0, 10.0, 11.0))
    assert compare([changed])[0].verdict is Verdict.SLOWER
    many = compare([changed, *[equal] * 200])[0]
    assert many.verdict is Verdict.UNDECIDED and many.corrected is not None
    assert many.corrected.level == pytest.approx(1 - 0.05 / 201)
