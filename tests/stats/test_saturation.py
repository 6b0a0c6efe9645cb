"""The saturation bracket: what it says on clear data, and how often it is right on noisy ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from plimsoll.analyse.results_verdicts import SaturationReason, SaturationVerdict
from plimsoll.analyse.saturation import Bracket, saturation, throughput_error

BRACKETED, NOT_REACHED = SaturationVerdict.BRACKETED, SaturationVerdict.NOT_REACHED
AT_LOWEST, RETROGRADE = SaturationVerdict.AT_LOWEST, SaturationVerdict.RETROGRADE
CANNOT_SAY = SaturationVerdict.CANNOT_SAY


def judged(levels: dict[float, list[float]]) -> Bracket:
    return saturation(levels, throughput_error([levels]))


def around(mean: float) -> list[float]:
    return [mean * 0.99, mean * 1.01]


def test_bracketed() -> None:
    found = judged({1: around(100), 2: around(195), 4: around(260), 8: around(261)})
    assert (found.verdict, found.lower, found.upper) == (BRACKETED, 2, 4)
    assert found.sure
    assert (found.levels, found.doubt, found.has_error) == (4, None, True)


def test_not_reached() -> None:
    found = judged({1: around(100), 2: around(195), 4: around(380), 8: around(700)})
    assert (found.verdict, found.lower, found.upper) == (NOT_REACHED, 8, None)


def test_at_or_below_the_lowest() -> None:
    found = judged({1: around(100), 2: around(100), 4: around(99)})
    assert (found.verdict, found.lower, found.upper) == (AT_LOWEST, None, 1)


def test_retrograde_is_named() -> None:
    found = judged({1: around(100), 2: around(190), 4: around(195), 8: around(150), 16: around(100)})
    assert (found.verdict, found.lower, found.upper) == (RETROGRADE, 1, 2)
    assert found.falls_from == 8
    straight = judged({1: around(100), 2: around(200), 4: around(300), 8: around(100)})
    assert (straight.verdict, straight.lower, straight.upper) == (RETROGRADE, 2, 4)


def test_a_rise_to_the_top_after_a_dip_is_not_saturation() -> None:
    found = judged({1: around(100), 2: around(90), 4: around(100), 8: around(200)})
    assert found.verdict == NOT_REACHED


def test_noise_that_hides_the_rise_is_said_to_do_so() -> None:
    found = judged({1: [60.0, 150.0], 2: [70.0, 160.0], 4: [50.0, 170.0]})
    assert found.verdict == CANNOT_SAY
    assert found.reason == SaturationReason.RUNS_DIFFER
    doubtful = judged({1: [95.0, 105.0], 2: [190.0, 210.0], 4: [192.0, 214.0]})
    assert (doubtful.verdict, doubtful.lower, doubtful.upper) == (BRACKETED, 1, 2)
    assert not doubtful.sure
    assert doubtful.doubt is not None and doubtful.doubt.at == 4 and doubtful.doubt.gain > 0.1


def test_one_repetition_is_judged_by_the_means_and_says_so() -> None:
    found = judged({1: [100.0], 2: [195.0], 4: [200.0], 8: [201.0]})
    assert (found.verdict, found.lower, found.upper) == (BRACKETED, 1, 2)
    assert not found.has_error
    assert all(gain.low is None for gain in found.gains)


def test_levels_where_nothing_succeeded() -> None:
    found = judged({1: around(100), 2: around(200), 4: [0.0, 0.0]})
    assert (found.verdict, found.falls_from) == (RETROGRADE, 4)
    assert judged({1: [0.0, 0.0], 2: [0.0, 0.0]}).reason == SaturationReason.NOTHING_SUCCEEDED
    mixed = judged({1: around(100), 2: [200.0, 0.0], 4: around(100)})
    assert all(g.gain == g.gain for g in mixed.gains), "no NaN"


def test_too_few_levels() -> None:
    assert judged({4: around(100)}).verdict == CANNOT_SAY
    assert judged({4: around(100)}).reason == SaturationReason.TOO_FEW_LEVELS
    assert saturation({}, None).verdict == CANNOT_SAY
    assert judged({1: around(100), 2: []}).verdict == CANNOT_SAY


@pytest.mark.parametrize("knee", [1.5, 3.0, 4.0])
@pytest.mark.parametrize("noise", [0.01, 0.04])
def test_coverage_of_the_bracket(knee: float, noise: float) -> None:
    """X(N) = 100 min(N, knee), two repetitions at 1, 2, 4, 8 testers and three combinations: the bracket holds the knee
    in at least 95 of 100 experiments (nominal), 92 allowed for 300 trials."""
    rng = np.random.default_rng(17)
    trials, hits = 300, 0
    for _ in range(trials):
        combinations = [
            {
                float(n): [100 * min(n, knee) * math.exp(e) for e in rng.normal(0, noise, 2)]
                for n in (1, 2, 4, 8)
            }
            for _ in range(3)
        ]
        found = saturation(combinations[0], throughput_error(combinations))
        hits += found.upper is not None and (found.lower or 0) < knee <= found.upper
    assert hits / trials >= 0.92
