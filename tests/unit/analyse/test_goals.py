"""Whether a trial exceeds the rules of a goal."""

from __future__ import annotations

from plimsoll.analyse.design.goals import Loss, LossCounts, outcome_of
from plimsoll.plan import parse_rule

P99 = parse_rule("p(99)<100ms", "response")
ERRORS = parse_rule("rate<0.1%", "errors")


def counts(planned: int, failed: int, late: int) -> LossCounts:
    return LossCounts(planned, failed, {(0.1, "<"): late})


def test_failures_count_as_longer_than_the_limit() -> None:
    assert outcome_of(counts(1000, 4, 6), P99, 0.99, None) == Loss(False, 0.01)
    assert outcome_of(counts(1000, 5, 6), P99, 0.99, None) == Loss(True, 0.011)


def test_any_rule_can_be_exceeded() -> None:
    assert outcome_of(counts(3000, 2, 0), P99, 0.99, ERRORS) == Loss(False, 2 / 3000)
    assert outcome_of(counts(3000, 3, 0), P99, 0.99, ERRORS).high_loss, "the rate must be below 0.1 %"


def test_without_a_rule_on_the_response_time_late_starts_are_no_loss() -> None:
    assert outcome_of(counts(1000, 0, 900), None, None, ERRORS) == Loss(False, 0.0)
