"""What a search found, in sentences."""

from __future__ import annotations

import pytest

from plimsoll.analyse.answer.load.search import capacity_words, ending_of
from plimsoll.analyse.results.load.search import (
    BracketEnd,
    FoundCapacity,
    MeasuredThroughput,
    OneSearch,
    SearchResult,
    SoughtGoal,
)
from plimsoll.analyse.results.verdicts import RuleId

GOAL = SoughtGoal("fast", "p(99)<100ms", "", 0.05)


def result(axis: str = "load.rate") -> SearchResult:
    return SearchResult(axis, 50, 20000, (GOAL,), 0.5, 10, 6, (), RuleId("capacity.search", 1))


def one(ending: str, lower: float | None = None, upper: float | None = None) -> OneSearch:
    low, high = (None if load is None else BracketEnd(load, 1, 4) for load in (lower, upper))
    return OneSearch(ending, low, high, None, None, None, None, 1.0)


def found(
    *searches: OneSearch,
    interval: tuple[float, float, float] | None = None,
    measured: MeasuredThroughput | None = None,
) -> FoundCapacity:
    estimate, low, high = interval or (None, None, None)
    return FoundCapacity("fast", estimate, low, high, searches, measured, 0.34, None, ())


@pytest.mark.parametrize(
    ("capacity", "text"),
    [
        (
            found(*[one("bracket", 1200, 1290)] * 6, interval=(1240, 1190, 1290)),
            "1,240 requests/s (1,190 to 1,290 in 6 searches)",
        ),
        (
            found(*[one("bracket", 1200, 1290)] * 2, one("time"), interval=(1240, 1190, 1290)),
            "1,240 requests/s (1,190 to 1,290 in 2 searches; 1 search without a bracket)",
        ),
        (
            found(one("bracket", 328.9, 416.2), one("time", 300)),
            "between 329 and 416 requests/s (bracket of 1 of 2 searches)",
        ),
        (found(one("bracket", 328.9, 416.2)), "between 329 and 416 requests/s (bracket of one search)"),
        (
            found(one("time", 328.9, 416.2)),
            "between 329 and 416 requests/s (bracket of one search when the time was used up)",
        ),
        (
            found(one("lowest-fails", None, 50)),
            "50 requests/s, the lowest load, already fails: 34 % of the planned starts failed or took too long "
            "(p(99)<100ms)",
        ),
        (found(one("highest-holds", 20000)), "still holds at 20,000 requests/s, the highest load"),
        (found(one("generator", 900)), "at least 900 requests/s; the load generator was the limit"),
        (found(one("generator")), "no load was reached: the load generator was the limit"),
        (found(one("time", 900)), "at least 900 requests/s; the time was used up before a bracket was found"),
        (found(one("time", None, 900)), "less than 900 requests/s; the time was used up"),
        (
            found(one("invalid", 900)),
            "at least 900 requests/s; no answer, because trials were invalid repeatedly",
        ),
    ],
)
def test_each_ending_has_its_sentence(capacity: FoundCapacity, text: str) -> None:
    assert capacity_words(result(), GOAL, capacity).replace("\N{NO-BREAK SPACE}", " ") == text


def test_loads_have_the_unit_of_the_axis() -> None:
    held = found(one("highest-holds", 64))
    assert (
        capacity_words(result("load.testers"), GOAL, held)
        == "still holds at 20,000 testers, the highest load"
    )
    assert "20,000 testers per host" in capacity_words(result("load.per_host"), GOAL, held)


def test_testers_have_the_measured_throughput_at_the_lower_bound() -> None:
    several = MeasuredThroughput(12, 1234.5, 1180, 1290)
    at = found(*[one("bracket", 40, 44)] * 6, interval=(42, 40, 44), measured=several)
    words = capacity_words(result("load.testers"), GOAL, at).replace("\N{NO-BREAK SPACE}", " ")
    assert words == (
        "42 testers (40 to 44 in 6 searches); 1,230 requests/s (1,180 to 1,290 in 12 trials) at the lower bound"
    )
    assert "requests/s;" not in capacity_words(result(), GOAL, at), "a rate contains it"


def test_the_ending_of_a_goal_is_the_first_that_is_no_bracket() -> None:
    assert ending_of(found(one("bracket", 1, 2), one("time"))) == "time"
    assert ending_of(found(one("bracket", 1, 2))) == "bracket"


def test_a_search_is_measured_if_the_service_ended_it() -> None:
    assert found(one("bracket", 900, 1000), one("generator", 900)).is_measured
    assert found(one("highest-holds", 20000)).is_measured
    assert not found(one("generator", 900)).is_measured and not found(one("invalid")).is_measured
