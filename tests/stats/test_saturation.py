"""The rule on saturation: its verdict on clear data. How often it is false: test_saturation_rates.py."""

from __future__ import annotations

from plimsoll.analyse.design.capacity.saturation import Bracket, saturation, throughput_error
from plimsoll.analyse.results.verdicts import SaturationReason, SaturationVerdict

BRACKETED, INCREASED = SaturationVerdict.BRACKETED, SaturationVerdict.INCREASED
AT_LOWEST, RETROGRADE = SaturationVerdict.AT_LOWEST, SaturationVerdict.RETROGRADE
CANNOT_SAY = SaturationVerdict.CANNOT_SAY


def judged(levels: dict[float, list[float]]) -> Bracket:
    return saturation(levels, throughput_error([levels]))


def around(mean: float) -> list[float]:
    return [mean * 0.99, mean, mean * 1.01]


def test_bracketed() -> None:
    bracket = judged({1: around(100), 2: around(195), 4: around(260), 8: around(261)})
    assert (bracket.verdict, bracket.lower, bracket.upper) == (BRACKETED, 2, 4)
    assert (bracket.levels, bracket.doubt, bracket.more_runs, bracket.has_error) == (4, None, None, True)
    assert [(gain.start, gain.end) for gain in bracket.gains] == [(1, 2), (2, 4), (4, 8)]
    assert bracket.gains[0].low < 0.95 < bracket.gains[0].high


def test_increased_up_to_the_highest_load() -> None:
    bracket = judged({1: around(100), 2: around(195), 4: around(380), 8: around(700)})
    assert (bracket.verdict, bracket.lower, bracket.upper) == (INCREASED, 4, None)


def test_a_knee_just_below_the_highest_load_is_no_claim_that_it_is_not_saturated() -> None:
    """Three servers of 10 ms: 300/s is their capacity, and the highest of the levels reaches it."""
    bracket = judged({1: around(98.67), 2: around(197), 4: around(300)})
    assert (bracket.verdict, bracket.lower, bracket.upper) == (INCREASED, 2, None)


def test_flat_from_the_lowest_load_on() -> None:
    bracket = judged({1: around(100), 2: around(100), 4: around(99)})
    assert (bracket.verdict, bracket.lower, bracket.upper) == (AT_LOWEST, None, 1)


def test_retrograde_is_named() -> None:
    bracket = judged({1: around(100), 2: around(190), 4: around(195), 8: around(150), 16: around(100)})
    assert (bracket.verdict, bracket.lower, bracket.upper) == (RETROGRADE, 1, 2)
    assert bracket.falls_from == 8
    straight = judged({1: around(100), 2: around(200), 4: around(300), 8: around(100)})
    assert (straight.verdict, straight.lower, straight.upper) == (RETROGRADE, 2, 4)


def test_a_rise_to_the_top_after_a_dip_is_not_saturation() -> None:
    bracket = judged({1: around(100), 2: around(90), 4: around(100), 8: around(200)})
    assert bracket.verdict == INCREASED


def test_loads_close_to_each_other_are_judged_over_a_doubling() -> None:
    """10 to 12 testers alone cannot show an elasticity at this noise; 6 to 12 can."""
    plateau = {load: around(100 * min(load, 6)) for load in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)}
    bracket = judged(plateau)
    assert (bracket.verdict, bracket.lower, bracket.upper) == (BRACKETED, 4, 6)
    growing = judged({load: around(load) for load in (100.0, 110.0, 120.0)})
    assert growing.verdict == INCREASED, "9 % more at 9 % more load is no plateau"


def test_noise_that_hides_the_rise_is_reported_with_the_number_of_further_runs() -> None:
    bracket = judged({1: [60.0, 150.0], 2: [70.0, 160.0], 4: [50.0, 170.0]})
    assert (bracket.verdict, bracket.reason) == (CANNOT_SAY, SaturationReason.RUNS_DIFFER)
    doubtful = judged({1: [95.0, 105.0], 2: [190.0, 210.0], 4: [192.0, 214.0]})
    assert doubtful.verdict == CANNOT_SAY
    assert doubtful.doubt is not None and (doubtful.doubt.start, doubtful.doubt.end) == (2, 4)
    assert doubtful.doubt.low < 0 < doubtful.doubt.high
    assert doubtful.more_runs is not None and 1 <= doubtful.more_runs <= 30


def test_one_repetition_gives_no_bracket() -> None:
    bracket = judged({1: [100.0], 2: [195.0], 4: [200.0], 8: [201.0]})
    assert (bracket.verdict, bracket.reason) == (CANNOT_SAY, SaturationReason.ONE_REPETITION)
    assert (bracket.lower, bracket.upper, bracket.has_error) == (None, None, False)


def test_levels_where_nothing_succeeded() -> None:
    bracket = judged({1: around(100), 2: around(200), 4: [0.0, 0.0]})
    assert (bracket.verdict, bracket.lower, bracket.upper, bracket.falls_from) == (RETROGRADE, 1, 4, 4)
    assert judged({1: [0.0, 0.0], 2: [0.0, 0.0]}).reason == SaturationReason.NOTHING_SUCCEEDED
    mixed = judged({1: around(100), 2: [200.0, 0.0], 4: around(100)})
    assert (mixed.verdict, mixed.reason) == (CANNOT_SAY, SaturationReason.RUNS_DIFFER)


def test_too_few_levels() -> None:
    assert judged({4: around(100)}).verdict == CANNOT_SAY
    assert judged({4: around(100)}).reason == SaturationReason.TOO_FEW_LEVELS
    assert saturation({}, None).verdict == CANNOT_SAY
    assert judged({1: around(100), 2: []}).verdict == CANNOT_SAY
    assert judged({0: around(100), 2: around(100)}).reason == SaturationReason.TOO_FEW_LEVELS


def test_runs_without_any_variation() -> None:
    same = judged({1: [100.0] * 3, 2: [200.0] * 3, 4: [200.0] * 3})
    assert (same.verdict, same.lower, same.upper) == (BRACKETED, 1, 2)


def test_a_level_with_one_valid_run_uses_the_error_of_the_others() -> None:
    bracket = judged({1: around(100), 2: around(200), 4: around(300), 8: [302.0]})
    assert bracket.verdict in (BRACKETED, CANNOT_SAY) and bracket.lower == 2
