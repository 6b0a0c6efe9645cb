"""One search: which trials it makes, and how it ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.stats.search_truths import Curve, Late, measure, run_search

from plimsoll.search.classify import Bounds, LoadClass, Sums, classify
from plimsoll.search.controller import Limits, SearchController
from plimsoll.search.evidence import posterior
from plimsoll.search.goals import Axis, Goal, starts_for_rules, trial_seconds
from plimsoll.search.grid import LoadGrid
from plimsoll.search.strategy import TargetState, candidate
from plimsoll.search.trials import GoalOutcome, Invalid, Rule, Trial, TrialResult
from plimsoll.search.verdict import Ending, Verdict

WIDTH = 0.05
GOAL = Goal("p99", final_seconds=10, initial_seconds=2, sum_seconds=60, width=WIDTH)
GRID = LoadGrid.of(50, 20_000, WIDTH)
LIMITS = Limits(max_seconds=7200)


def controller(**changes: object) -> SearchController:
    fields: dict[str, object] = {"goals": (GOAL,), "grid": GRID, "limits": LIMITS} | changes
    return SearchController(**fields)  # type: ignore[arg-type]


def step_at(load: float, spread: float = 0.0, seed: int = 1) -> Curve:
    return Curve(load, spread, np.random.default_rng(seed))


@pytest.mark.parametrize("at", [51.0, 60.0, 777.0, 5000.0, 19_500.0])
def test_a_sharp_limit_is_found(at: float) -> None:
    verdict, results = run_search(controller(), step_at(at))
    found = verdict["p99"]
    assert found.ending is Ending.BRACKET and found.is_regular
    assert found.lower is not None and found.upper is not None and found.width is not None
    assert found.lower.load <= at <= found.upper.load
    assert found.width <= 2 * WIDTH
    assert found.bounds.lower is not None and found.bounds.upper is not None
    assert found.bounds.lower <= at <= found.bounds.upper
    assert 1 - found.bounds.lower / found.bounds.upper <= WIDTH * 1.02
    assert found.throughput == pytest.approx(found.bounds.lower * (1 - 0.005))
    assert verdict.trials == len(results) <= 40


def test_the_approach_begins_low_and_doubles() -> None:
    _, results = run_search(controller(), step_at(3000))
    assert (results[0].rule, results[0].load, results[0].seconds) == (Rule.WARM_UP, 50, 2)
    first = [r for r in results if r.rule in (Rule.START, Rule.EXTEND_UP)][:7]
    assert [r.load for r in first] == pytest.approx([50, 100, 200, 400, 800, 1600, 3200], rel=0.06)
    assert {r.seconds for r in first} == {2}
    assert max(r.load for r in results) < 2 * 3200


def test_the_warm_up_trial_does_not_count() -> None:
    search = controller()
    warm_up = search.next([])
    assert isinstance(warm_up, Trial) and warm_up.rule is Rule.WARM_UP
    bad = TrialResult(warm_up.load, 60, {"p99": GoalOutcome(True, 1.0)}, Rule.WARM_UP)
    good = TrialResult(warm_up.load, 60, {"p99": GoalOutcome(False, 0.0)}, Rule.WARM_UP)
    assert search.next([bad]) == search.next([good])


def test_every_trial_has_a_rule_and_a_reason_and_is_of_the_grid() -> None:
    _, results = run_search(controller(), step_at(3000, 0.05))
    search = controller()
    rules = set()
    for n in range(len(results)):
        trial = search.next(results[:n])
        assert isinstance(trial, Trial)
        assert trial.reason and trial.load in GRID.loads
        rules.add(trial.rule)
    assert rules >= {Rule.WARM_UP, Rule.START, Rule.EXTEND_UP, Rule.HALVE, Rule.EVIDENCE}


@pytest.mark.parametrize("seed", range(5))
def test_a_resumed_search_makes_the_same_trials(seed: int) -> None:
    verdict, results = run_search(controller(), step_at(900, 0.04, seed))
    for n, result in enumerate(results):
        trial = controller().next(results[:n])
        assert isinstance(trial, Trial)
        assert (trial.load, trial.seconds, trial.rule) == (result.load, result.seconds, result.rule)
    assert controller().next(results) == verdict


def test_the_lowest_load_already_fails() -> None:
    verdict, results = run_search(controller(), step_at(20))
    found = verdict["p99"]
    assert found.ending is Ending.LOWEST_FAILS
    assert found.lower is None and found.upper is not None and found.upper.load == 50
    assert found.upper.own.low > GOAL.exceed
    assert {r.load for r in results} == {50}
    assert sum(r.seconds for r in results) < 2 * GOAL.sum_seconds


def test_the_highest_load_still_holds() -> None:
    verdict, results = run_search(controller(), step_at(50_000))
    found = verdict["p99"]
    assert found.ending is Ending.HIGHEST_HOLDS
    assert found.upper is None and found.lower is not None and found.lower.load == 20_000
    assert found.lower.own.high < GOAL.exceed
    assert len(results) < 30


def test_the_generator_is_the_limit() -> None:
    """A trial in which the generator was the limit is made again once, and is never a loss."""
    verdict, results = run_search(controller(), step_at(50_000), reach=3000)
    found = verdict["p99"]
    assert found.ending is Ending.GENERATOR
    assert found.upper is None and found.lower is not None
    assert 3000 * (1 - 2 * WIDTH) < found.lower.load <= 3000
    tries = [r.load for r in results if r.invalid is Invalid.GENERATOR]
    assert all(tries.count(load) == 2 for load in tries)
    assert any(r.rule is Rule.REPEAT_INVALID for r in results)


def test_a_capacity_below_the_reach_of_the_generator_is_found() -> None:
    verdict, _ = run_search(controller(), step_at(2500), reach=3000)
    found = verdict["p99"]
    assert found.ending is Ending.BRACKET
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= 2500 <= found.upper.load


def test_a_start_beyond_the_reach_of_the_generator() -> None:
    verdict, results = run_search(controller(start=9000.0), step_at(2500), reach=3000)
    found = verdict["p99"]
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= 2500 <= found.upper.load
    assert sum(r.invalid is Invalid.GENERATOR for r in results) <= 12


@pytest.mark.parametrize("reach", [60.0, 1650.0, 3150.0, 12_000.0])
def test_the_reach_of_the_generator_is_bisected(reach: float) -> None:
    verdict, results = run_search(controller(), step_at(50_000), reach=reach)
    found = verdict["p99"]
    assert found.ending is Ending.GENERATOR and found.lower is not None
    assert reach * (1 - 1.1 * WIDTH) <= found.lower.load <= reach
    assert sum(r.invalid is Invalid.GENERATOR for r in results) <= 12


def test_a_generator_that_reaches_nothing() -> None:
    verdict, results = run_search(controller(), step_at(2500), reach=10)
    assert verdict["p99"].ending is Ending.GENERATOR
    assert verdict["p99"].lower is None and verdict["p99"].upper is None
    assert len(results) == 3  # warm-up, trial, repetition


def late(load: float, met: tuple[str, ...], seconds: float = 2, rule: Rule = Rule.START) -> TrialResult:
    """A trial in which the generator was late. `met`: the goals that it met all the same."""
    outcomes = {name: GoalOutcome(False, 0.0) for name in met}
    return TrialResult(load, seconds, outcomes, rule, invalid=Invalid.GENERATOR)


def test_a_late_trial_that_meets_the_goal_is_low_loss() -> None:
    search = controller(warm_up=False)
    step = search.next([late(50, ("p99",))])
    assert isinstance(step, Trial)
    assert step.rule is Rule.EXTEND_UP and step.load == pytest.approx(100, rel=0.06)


def test_a_late_trial_that_misses_the_goal_is_made_again_and_then_out_of_reach() -> None:
    search = controller(warm_up=False)
    again = search.next([late(50, ())])
    assert isinstance(again, Trial) and (again.rule, again.load) == (Rule.REPEAT_INVALID, 50)
    assert "the load generator was the limit" in again.reason
    end = search.next([late(50, ()), late(50, ())])
    assert isinstance(end, Verdict) and end["p99"].ending is Ending.GENERATOR


def test_a_generator_that_is_always_late_still_shows_that_the_highest_load_holds() -> None:
    verdict, results = run_search(controller(), Late(step_at(1e6), 1.0, np.random.default_rng(1)))
    assert verdict["p99"].ending is Ending.HIGHEST_HOLDS
    assert all(result.invalid is Invalid.GENERATOR for result in results)


def test_a_late_trial_counts_for_the_goals_that_it_meets() -> None:
    loose = Goal("any", 10, 2, 60, width=WIDTH)
    search = controller(goals=(GOAL, loose), warm_up=False)
    results = [late(50, ("any",)), late(50, ("any",))]
    step = search.next(results)
    assert isinstance(step, Trial) and step.goal == "any" and step.load > 50
    verdict = search.bracket(results)
    assert verdict["p99"].ending is Ending.GENERATOR and verdict["any"].ending is Ending.TIME


def test_late_trials_do_not_count_for_the_interval() -> None:
    """Those that missed the goal are unknown, so the others would move the load sought upwards."""
    _, results = run_search(controller(), step_at(900, 0.05))
    bad = late(1500, ("p99",), seconds=10, rule=Rule.EVIDENCE)
    before, after = posterior(results, GOAL, GRID), posterior([*results, *[bad] * 20], GOAL, GRID)
    assert before is not None and after is not None
    assert before.quantile(0.5) == after.quantile(0.5)


def test_a_load_below_a_valid_one_is_within_reach() -> None:
    """The generator was late by chance: more tries than at a load that it never reached."""
    good = TrialResult(100, 2, {"p99": GoalOutcome(False, 0.0)}, Rule.EXTEND_UP)
    search = controller(warm_up=False)
    loads = [
        step.load for step in [search.next([good, late(50, ()), late(50, ())])] if isinstance(step, Trial)
    ]
    assert loads and loads[0] > 100


@pytest.mark.parametrize("reason", [Invalid.GAPS, Invalid.LOST_DATA, Invalid.NOT_FINISHED, Invalid.OTHER])
def test_trials_that_stay_invalid_end_the_search(reason: Invalid) -> None:
    search = controller()
    results = [
        measure(trial, (GOAL,), step_at(900)) for trial in [search.next([])] if isinstance(trial, Trial)
    ]
    invalid = TrialResult(50, 2, {}, Rule.START, invalid=reason)
    again = search.next([*results, invalid])
    assert isinstance(again, Trial) and again.rule is Rule.REPEAT_INVALID and again.load == 50
    assert reason.text in again.reason
    end = search.next([*results, invalid, invalid, invalid])
    assert isinstance(end, Verdict) and end["p99"].ending is Ending.INVALID


@pytest.mark.parametrize("seconds", [1.0, 30.0, 60.0, 100.0, 200.0])
def test_the_time_limit_holds(seconds: float) -> None:
    """The bracket is then wider, or open; what is reported still contains the limit."""
    verdict, _ = run_search(controller(limits=Limits(seconds)), step_at(900))
    found = verdict["p99"]
    assert verdict.spent_seconds <= seconds
    assert found.ending in (Ending.TIME, Ending.BRACKET)
    assert found.lower is None or found.lower.load <= 900
    assert found.upper is None or found.upper.load >= 900


def test_a_soft_limit_needs_more_trials_than_a_sharp_one() -> None:
    sharp, _ = run_search(controller(), step_at(900))
    soft, _ = run_search(controller(), step_at(900, 0.05))
    assert soft.trials > 1.3 * sharp.trials
    found = soft["p99"]
    assert found.width is not None and found.width <= 2 * WIDTH
    assert found.lower is not None and found.upper is not None
    assert found.lower.curve is not None and found.lower.curve.high < 0.55
    assert found.upper.curve is not None and found.upper.curve.low > 0.45


def test_one_search_serves_two_goals() -> None:
    class TwoLimits:
        def loss(self, load: float, seconds: float) -> list[float]:
            return [2.0 if load > 900 else 0.5, 2.0 if load > 2500 else 0.5]

    goals = (GOAL, Goal("errors", 10, 2, 60, width=WIDTH))
    verdict, both = run_search(controller(goals=goals), TwoLimits())
    for name, at in (("p99", 900), ("errors", 2500)):
        found = verdict[name]
        assert found.lower is not None and found.upper is not None
        assert found.lower.load <= at <= found.upper.load
    alone = [run_search(controller(), step_at(at))[1] for at in (900, 2500)]
    assert len(both) < sum(len(results) for results in alone)


def test_bounds_by_trials_of_another_goal_do_not_hide_those_of_the_coarser_target() -> None:
    """The bounds are far apart, but the coarser target knows a closer lower bound."""
    target = GOAL.target
    low, coarse_low, high, coarse_high = (GRID.at_least(load) for load in (900, 2450, 2546, 2646))
    before = TargetState(target, {}, Bounds(coarse_low, coarse_high), True)
    classes = {low: LoadClass.LOWER, high: LoadClass.UPPER}
    state = TargetState(target, classes, Bounds(low, high), False)
    found = candidate(state, before, GRID, None)
    assert (found.load, found.rule) == (coarse_low, Rule.REFINE_LOWER)


def test_an_exceed_ratio_of_zero_is_the_binary_search_of_rfc_2544() -> None:
    goal = Goal("loss", 10, 10, 10, exceed=0.0, width=WIDTH)
    verdict, _ = run_search(controller(goals=(goal,)), step_at(900))
    found = verdict["loss"]
    assert found.ending is Ending.BRACKET and found.estimate is None
    assert (found.bounds.lower, found.bounds.upper) == (
        found.lower and found.lower.load,
        found.upper and found.upper.load,
    )
    assert found.bounds.lower is not None and found.bounds.lower <= 900


def test_an_earlier_bracket_shortens_the_search() -> None:
    _, cold = run_search(controller(), step_at(3000))
    verdict, warm = run_search(controller(start=2900.0), step_at(3000))
    found = verdict["p99"]
    assert len(warm) < len(cold) - 4
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= 3000 <= found.upper.load
    for wrong in (300.0, 15_000.0):
        found = run_search(controller(start=wrong), step_at(3000))[0]["p99"]
        assert found.lower is not None and found.upper is not None
        assert found.lower.load <= 3000 <= found.upper.load


def test_testers_are_whole_and_their_trials_are_lengthened_by_measured_starts() -> None:
    goal = Goal("p99", 10, 2, 60, width=WIDTH, starts=1000)
    search = controller(goals=(goal,), grid=LoadGrid.of(1, 200, WIDTH, whole=True), axis=Axis.TESTERS)
    verdict, results = run_search(search, step_at(40))
    found = verdict["p99"]
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= 40 <= found.upper.load
    assert all(r.load == int(r.load) for r in results)
    slow = [r for r in results[2:] if r.load < 40]
    assert slow and all(r.starts is not None and r.starts >= 1000 for r in slow)


def test_the_classes_at_the_end_are_those_of_the_bounds() -> None:
    verdict, results = run_search(controller(), step_at(900, 0.03, 7))
    bounds = verdict["p99"].bounds
    for load, expected in ((bounds.lower, LoadClass.LOWER), (bounds.upper, LoadClass.UPPER)):
        trials = [r for r in results if r.load == load and r.rule is not Rule.WARM_UP]
        assert classify(Sums.of(trials, "p99", 10), GOAL.target) is expected


@pytest.mark.parametrize(
    ("rate", "seconds", "starts", "expected"),
    [(50, 10, 1000, 20), (100, 10, 1000, 10), (300, 2, 1000, 3.4), (5000, 2, 1000, 2), (None, 2, 1000, 2)],
)
def test_trials_have_enough_starts(rate: float | None, seconds: float, starts: int, expected: float) -> None:
    assert trial_seconds(rate, seconds, starts) == pytest.approx(expected)


def test_starts_for_rules() -> None:
    assert starts_for_rules([0.99]) == 1000
    assert starts_for_rules([0.95, 0.999]) == 10_000
    assert starts_for_rules([0.5], [0.001]) == 3000
    assert starts_for_rules([], [0.0]) == 0
    with pytest.raises(ValueError, match="quantile"):
        starts_for_rules([1.0])


def test_impossible_goals_and_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match="initial <= final"):
        Goal("a", 2, 10, 60)
    with pytest.raises(ValueError, match="exceed"):
        Goal("a", 10, 2, 60, exceed=1)
    with pytest.raises(ValueError, match="from < to"):
        LoadGrid.of(10, 10, WIDTH)
    with pytest.raises(ValueError, match="whole"):
        LoadGrid.of(1.5, 10, WIDTH, whole=True)


def test_the_grid_has_even_steps() -> None:
    steps = np.diff(np.log(GRID.loads))
    assert np.abs(steps / steps.mean() - 1).max() < 0.1  # loads have four digits
    assert 4 * steps.mean() == pytest.approx(-math.log(1 - WIDTH), rel=0.01)
    assert (GRID.low, GRID.high) == (50, 20_000)
