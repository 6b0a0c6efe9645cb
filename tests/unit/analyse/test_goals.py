"""Whether a trial exceeds the rules of a goal."""

from __future__ import annotations

import pytest

from plimsoll.analyse.design.capacity.goals import (
    Loss,
    LossCounts,
    invalid_by,
    loss_is_upper_limit,
    outcome_of,
)
from plimsoll.analyse.results.verdicts import RunReason
from plimsoll.plan import parse_rule
from plimsoll.search.trials import Invalid

P99 = parse_rule("p(99)<100ms", "response")
ERRORS = parse_rule("rate<0.1%", "errors")


def counts(planned: int, failed: int, late: int) -> LossCounts:
    return LossCounts(planned, failed, {(0.1, "<"): late}, planned)


def test_failures_count_as_longer_than_the_limit() -> None:
    assert outcome_of(counts(1000, 4, 6), P99, 0.99, None) == Loss(False, 0.01)
    assert outcome_of(counts(1000, 5, 6), P99, 0.99, None) == Loss(True, 0.011)


def test_any_rule_can_be_exceeded() -> None:
    assert outcome_of(counts(3000, 2, 0), P99, 0.99, ERRORS) == Loss(False, 2 / 3000)
    assert outcome_of(counts(3000, 3, 0), P99, 0.99, ERRORS).high_loss, "the rate must be below 0.1 %"


def test_without_a_rule_on_the_response_time_late_starts_are_no_loss() -> None:
    assert outcome_of(counts(1000, 0, 900), None, None, ERRORS) == Loss(False, 0.0)


@pytest.mark.parametrize(
    ("against", "made", "expected"),
    [
        ({RunReason.LATENESS}, 1000, True),
        ({RunReason.TESTER_CPU, RunReason.GAPS}, 990, True),
        ({RunReason.LATENESS}, 989, False),
        ({RunReason.LATENESS, RunReason.STARTED}, 1000, False),
        ({RunReason.GAPS, RunReason.DAMAGED}, 1000, False),
    ],
)
def test_the_loss_of_a_late_generator_is_an_upper_limit_if_it_made_the_starts(
    against: set[RunReason], made: int, expected: bool
) -> None:
    found = LossCounts(1000, 0, {(0.1, "<"): 0}, made)
    assert loss_is_upper_limit(against, found, 0.99) is expected


@pytest.mark.parametrize(
    ("against", "expected"),
    [
        (set(), None),
        ({RunReason.LATENESS, RunReason.GAPS, RunReason.STARTED}, Invalid.GENERATOR),
        ({RunReason.GAPS, RunReason.STARTED}, Invalid.GAPS),
        ({RunReason.LOST_RECORDS, RunReason.TESTER_CPU}, Invalid.LOST_DATA),
        ({RunReason.LOST_AGENTS}, Invalid.LOST_DATA),
        ({RunReason.NOT_FINISHED}, Invalid.NOT_FINISHED),
        ({RunReason.NOTHING_ENDED}, Invalid.OTHER),
    ],
)
def test_why_a_trial_is_invalid(against: set[RunReason], expected: Invalid | None) -> None:
    assert invalid_by(against) is expected
    assert expected is None or expected.text
