"""Bins of a planned load, transactions that never started, and rules over the bins."""

from __future__ import annotations

import pytest
from tests.unit.analyse.made import histogram, run

from plimsoll.analyse.design.capacity.ramp import failure_verdict, ramp
from plimsoll.analyse.results.verdicts import BinOutcome, RampVerdict
from plimsoll.analyse.window.load_profile import Piece, Profile, load_bins, never_started, rising
from plimsoll.analyse.window.transactions import Window
from plimsoll.plan.metrics.rules import parse_rule

S = 10**9
UP = Profile("rate", (Piece(0, 10 * S, 0.0, 100.0),))


def test_equal_steps_of_a_ramp_and_one_part_for_each_steady_stage() -> None:
    assert [(bin_.first, bin_.last) for bin_ in load_bins(UP, Window(0, 10 * S))] == [
        (10.0 * step, 10.0 * step + 10) for step in range(10)
    ]
    steps = Profile("testers", (Piece(0, S, 1, 1), Piece(S, 2 * S, 4, 4), Piece(2 * S, 3 * S, 2, 2)))
    assert [bin_.first for bin_ in load_bins(steps, Window(0, 3 * S))] == [1, 4, 2]


def test_the_warm_up_is_cut_off() -> None:
    bins = load_bins(UP, Window(5 * S, 10 * S))
    assert (bins[0].start, bins[0].first, bins[-1].last) == (5 * S, 50.0, 100.0)
    assert len(bins) == 10


def test_a_steady_load_has_no_parts() -> None:
    assert load_bins(Profile("rate", (Piece(0, S, 5, 5), Piece(S, 2 * S, 5, 5))), Window(0, 2 * S)) == ()
    assert load_bins(UP, Window(20 * S, 30 * S)) == ()


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([(1, 2), (2, 3), (3, 1)], (0, 2)),
        ([(3, 1), (1, 2), (2, 2), (4, 4)], (1, 4)),
        ([(3, 2), (2, 1)], (0, 0)),
        ([(1, 1), (5, 5), (2, 2), (3, 3), (4, 4)], (2, 5)),
    ],
)
def test_where_the_load_rises(loads: list[tuple[float, float]], expected: tuple[int, int]) -> None:
    range_ = rising([Piece(at, at + 1, *ends) for at, ends in enumerate(loads)])
    assert (range_.start, range_.stop) == expected


def test_transactions_that_never_started_belong_to_the_bins_in_which_they_were_due() -> None:
    bins = [Piece(0, 4 * S, 10, 10), Piece(4 * S, 8 * S, 30, 30)]
    assert never_started([(S // 2, 5)], bins, 0) == [5, 0]
    assert never_started([(9 * S, 70)], bins, 7 * S) == [0, 70]
    assert never_started([(9 * S, 70)], bins, 2 * S) == [10, 60]  # 2 s at 10/s, 4 s at 30/s
    assert never_started([], bins, 0) == [0, 0]


F, H, N = BinOutcome.FAILED, BinOutcome.HELD, BinOutcome.NOT_JUDGED


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([H, H, F, F], (RampVerdict.FAILED_FROM, 2)),
        ([H, F, H, F, N, F], (RampVerdict.FAILED_FROM, 3)),
        ([F, F], (RampVerdict.FAILED_THROUGHOUT, 0)),
        ([N, F, F], (RampVerdict.FAILED_THROUGHOUT, 1)),
        ([H, H, F], (RampVerdict.LAST_ONLY, 2)),
        ([H, F, F, H], (RampVerdict.RECOVERED, None)),
        ([H, N, H], (RampVerdict.HELD, None)),
        ([N, N], (RampVerdict.NOT_JUDGED, None)),
        ([], (RampVerdict.NOT_JUDGED, None)),
    ],
)
def test_failed_and_stayed_failed(
    outcomes: list[BinOutcome], expected: tuple[RampVerdict, int | None]
) -> None:
    assert failure_verdict(outcomes) == expected


def test_whole_testers_and_rules_that_a_part_of_a_run_has() -> None:
    profile = Profile("testers", (Piece(0, 9 * S, 1, 10),))
    bins = load_bins(profile, Window(0, 9 * S))
    parts = [(run(transactions=100).traffic, histogram([1.0] * 100)) for _ in bins]
    rules = [
        parse_rule("p(50)<5ms", "response"),
        parse_rule("count<5", "dropped"),
        parse_rule("rate<1%", "errors"),
    ]
    result = ramp(run(), profile, bins, parts, rules)
    assert [(bin_.load_low, bin_.load_high) for bin_ in result.bins] == [(n, n) for n in range(1, 10)]
    wide = load_bins(Profile("testers", (Piece(0, 20 * S, 1, 26),)), Window(0, 20 * S))
    shown = ramp(run(), profile, wide, [parts[0]] * len(wide), []).bins
    assert [(bin_.load_low, bin_.load_high) for bin_ in shown][:2] == [(1, 3), (4, 6)]
    assert (shown[-1].load_low, shown[-1].load_high, len(shown)) == (
        25,
        25,
        9,
    )  # the last one joins at the end
    assert [rule.metric for rule in result.rules] == ["response", "errors"]
    assert {rule.verdict for rule in result.rules} == {RampVerdict.HELD}
    assert ramp(run(valid=False), profile, bins, parts, rules).rules == ()


def test_a_short_bin_is_judged_if_its_result_is_certain() -> None:
    """60 transactions are too few to give p95, and enough to see that all of them are above the limit."""
    profile = Profile("rate", (Piece(0, 10 * S, 0, 10),))
    bins = load_bins(profile, Window(0, 10 * S))
    slow = [(run(transactions=60).traffic, histogram([200.0] * 60)) for _ in bins]
    (rule,) = ramp(run(), profile, bins, slow, [parse_rule("p(95)<100ms", "response")]).rules
    assert rule.outcomes == (F,) * 10
    mixed = [(run(transactions=60).traffic, histogram([200.0] * 3 + [1.0] * 57)) for _ in bins]
    (rule,) = ramp(run(), profile, bins, mixed, [parse_rule("p(95)<100ms", "response")]).rules
    assert rule.outcomes == (N,) * 10
