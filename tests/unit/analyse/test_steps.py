"""The steps of a ramp of testers, and which of them are merged."""

from __future__ import annotations

from plimsoll.analyse.window.load_profile import Joins
from plimsoll.analyse.window.steps import MIN_COUNT, Step, merged_steps, min_length_ns, planned_steps
from plimsoll.analyse.window.transactions import Window

S = 10**9


def loads(steps: list[Step]) -> list[tuple[float, float, int, int, int]]:
    return [(step.start / S, step.end / S, step.low, step.high, step.merged) for step in steps]


def test_a_step_is_the_time_with_the_same_number_of_active_testers() -> None:
    whole = Window(0, 100 * S)
    assert loads(planned_steps(Joins(3, 10 * S, 25 * S), whole)) == [
        (0, 10, 1, 1, 1),
        (10, 20, 2, 2, 1),
        (20, 25, 3, 3, 1),
        (25, 35, 2, 2, 1),
        (35, 45, 1, 1, 1),
    ]
    assert loads(planned_steps(Joins(3, 10 * S, None), whole))[-1] == (20, 100, 3, 3, 1)
    # A tester that leaves when the next one joins does not change the number.
    assert planned_steps(Joins(3, 10 * S, 10 * S), whole) == []


def test_steps_are_cut_to_the_measured_window() -> None:
    steps = planned_steps(Joins(3, 10 * S, None), Window(5 * S, 15 * S))
    assert loads(steps) == [(5, 10, 1, 1, 1), (10, 15, 2, 2, 1)]
    assert planned_steps(Joins(3, 10 * S, None), Window(25 * S, 30 * S)) == []
    assert planned_steps(Joins(1, 0, None), Window(0, S)) == []
    assert planned_steps(Joins(10**6, S, None), Window(0, S)) == []


def test_steps_with_few_transactions_are_merged_until_they_have_enough() -> None:
    steps = planned_steps(Joins(6, 2 * S, None), Window(0, 30 * S))
    enough = merged_steps(steps, lambda start, end: MIN_COUNT * (end - start) / (2 * S))
    assert enough == steps
    half = merged_steps(steps, lambda start, end: MIN_COUNT * (end - start) / (4 * S))
    # Before the highest load an odd step is left, which joins the one before it.
    assert loads(half) == [(0, 4, 1, 2, 2), (4, 10, 3, 5, 3), (10, 30, 6, 6, 1)]
    none = merged_steps(steps, lambda start, end: 0)
    assert loads(none) == [(0, 10, 1, 5, 5), (10, 30, 6, 6, 1)]


def test_short_steps_are_merged_and_a_rise_and_a_fall_remain_apart() -> None:
    steps = planned_steps(Joins(4, S // 2, 2 * S), Window(0, 10 * S))
    many = merged_steps(steps, lambda start, end: 1e6)
    assert loads(many) == [(0, 1.5, 1, 3, 3), (1.5, 2, 4, 4, 1), (2, 3.5, 1, 3, 3)]
    assert sum(step.merged for step in many) == len(steps) == 7


def test_a_long_ramp_has_about_a_hundred_steps_at_most() -> None:
    steps = planned_steps(Joins(1000, S, None), Window(0, 1000 * S))
    assert len(steps) == 1000 and min_length_ns(1000 * S) == 10 * S
    assert len(merged_steps(steps, lambda start, end: 1e6)) == 100
    assert merged_steps([], lambda start, end: 1e6) == []
