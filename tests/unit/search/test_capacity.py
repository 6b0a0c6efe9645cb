"""Several searches, the approach from above, confirming runs, and the worst case."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.stats.search_truths import Curve, Metastable, run_capacity

from plimsoll.search.capacity import CapacitySearch
from plimsoll.search.combined import combine
from plimsoll.search.controller import Limits
from plimsoll.search.goals import Goal
from plimsoll.search.grid import LoadGrid
from plimsoll.search.trials import GoalOutcome, Invalid, Rule, Trial, TrialResult
from plimsoll.search.verdict import Ending
from plimsoll.search.worst_case import worst_case

GOAL = Goal("p99", final_seconds=10, initial_seconds=2, sum_seconds=60, width=0.05)
SEARCH = CapacitySearch((GOAL,), LoadGrid.of(50, 20_000, 0.05), Limits(7200))


def curve(at: float, spread: float, seed: int = 1) -> Curve:
    return Curve(at, spread, np.random.default_rng(seed))


def with_(**changes: object) -> CapacitySearch:
    fields = {"goals": SEARCH.goals, "grid": SEARCH.grid, "limits": SEARCH.limits} | changes
    return CapacitySearch(**fields)  # type: ignore[arg-type]


def test_one_search_is_a_bracket() -> None:
    verdict, _ = run_capacity(SEARCH, curve(900, 0.02))
    assert verdict["p99"].is_bracket and verdict["p99"].interval is None
    assert len(verdict.searches) == 1


def test_six_searches_are_an_interval() -> None:
    verdict, results = run_capacity(with_(repeat=6), curve(900, 0.02))
    found = verdict["p99"]
    assert not found.is_bracket and found.interval is not None and len(found.searches) == 6
    assert found.interval.low <= 900 <= found.interval.high
    assert found.interval.high / found.interval.low < 1.1
    assert {r.search for r in results} == set(range(6))
    assert sum(r.rule is Rule.WARM_UP for r in results) == 1
    logs = [math.log(f.estimate) for f in found.searches if f.estimate is not None]
    assert found.estimate == pytest.approx(math.exp(np.mean(logs)))


def test_searches_share_the_time() -> None:
    verdict, _ = run_capacity(with_(repeat=6, limits=Limits(1200)), curve(900, 0.1))
    assert verdict.spent_seconds <= 1200
    assert len(verdict.searches) == 6
    assert {found["p99"].ending for found in verdict.searches} <= {Ending.TIME, Ending.BRACKET}


def test_a_search_without_a_bracket_is_not_repeated() -> None:
    verdict, results = run_capacity(with_(repeat=6, hysteresis=True, confirm=5), curve(20, 0))
    assert len(verdict.searches) == 1
    assert verdict["p99"].searches[0].ending is Ending.LOWEST_FAILS
    assert {r.search for r in results} == {0}
    assert not verdict.descents and not verdict.confirmations


def test_confirming_runs_are_shuffled() -> None:
    verdict, results = run_capacity(with_(confirm=5, seed=3), curve(900, 0))
    runs = [r for r in results if r.rule is Rule.CONFIRM]
    lower, upper = verdict.confirmations
    assert (lower.is_lower, lower.met, lower.runs) == (False, 0, 5) or lower.is_lower
    by_end = {c.is_lower: c for c in verdict.confirmations}
    assert (by_end[True].met, by_end[True].runs, by_end[False].met, by_end[False].runs) == (5, 5, 0, 5)
    assert by_end[True].load < 900 < by_end[False].load
    assert upper.load != lower.load
    assert [r.load for r in runs] != sorted(r.load for r in runs)
    assert {r.seconds for r in runs} == {10}


def test_both_directions_agree_on_a_service_without_memory() -> None:
    verdict, results = run_capacity(with_(hysteresis=True), curve(900, 0.02))
    (descent,) = verdict.descents
    assert descent.agrees and descent.recovers_at is None
    above = [r for r in results if r.rule is Rule.FROM_ABOVE]
    assert above[0].load > 1700 and {r.load for r in above[1:]} == {descent.load}


def test_a_metastable_service_differs_from_above() -> None:
    """It fails at a load that it held, once it has been overloaded, and recovers at a lower load."""
    service = Metastable(
        900, np.random.default_rng(2), trigger=1.6, degraded=0.6, recovers_at=0.9, spread=0.0
    )
    verdict, _ = run_capacity(with_(hysteresis=True, start=800.0), service)
    found = verdict["p99"].searches[0]
    assert found.lower is not None and found.upper is not None
    assert found.lower.load <= 900 <= found.upper.load
    (descent,) = verdict.descents
    assert not descent.agrees and descent.high == descent.trials
    assert descent.recovers_at is not None and descent.recovers_at <= 0.6 * 900


def test_a_resumed_capacity_search_makes_the_same_trials() -> None:
    search = with_(repeat=2, hysteresis=True, confirm=2)
    verdict, results = run_capacity(search, curve(900, 0.03))
    for n, result in enumerate(results):
        trial = search.next(results[:n])
        assert isinstance(trial, Trial)
        assert (trial.load, trial.seconds, trial.rule, trial.search) == (
            result.load,
            result.seconds,
            result.rule,
            result.search,
        )
    assert search.next(results) == verdict


def test_combining_without_an_estimate() -> None:
    verdict, _ = run_capacity(SEARCH, curve(20, 0))
    found = combine("p99", verdict["p99"].searches * 3)
    assert found.estimate is None and found.interval is None


@pytest.mark.parametrize("at", [55.0, 700.0, 19_000.0])
@pytest.mark.parametrize("starts", [0, 1000])
def test_a_sharp_search_has_its_bounds_within_the_worst_case(at: float, starts: int) -> None:
    goal = Goal("p99", 10, 2, 60, width=0.05, starts=starts)
    search = with_(goals=(goal,))
    bound = worst_case(search)
    verdict, results = run_capacity(search, curve(at, 0))
    counted = [r for r in results if r.rule is not Rule.EVIDENCE]
    assert len(counted) <= bound.bound_trials
    assert sum(r.spent for r in counted) <= bound.bound_seconds
    assert verdict.trials <= bound.trials and verdict.spent_seconds <= bound.seconds
    assert bound.requests == 7200 * 20_000


def any_result(trial: Trial, goals: tuple[Goal, ...], rng: np.random.Generator) -> TrialResult:
    """A result that no service has to have: any outcome, any reason, any wall time from none to twice the length."""
    invalid = rng.choice([None, None, None, *Invalid])
    counts = [goal for goal in goals if invalid is None or rng.random() < 0.3]
    return TrialResult(
        trial.load,
        trial.seconds,
        {goal.name: GoalOutcome(bool(rng.random() < rng.random()), 0.5) for goal in counts},
        trial.rule,
        trial.search,
        spent_seconds=trial.seconds * float(rng.choice([0, 0.1, 1, 1, 2])),
        invalid=invalid,
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_outcomes_need_more_than_the_worst_case(seed: int) -> None:
    rng = np.random.default_rng((20, seed))
    initial = float(rng.choice([0.5, 2]))
    goals = tuple(
        Goal(name, float(rng.choice([2, 10])), initial, 60, float(rng.choice([0.2, 0.5])), 0.05)
        for name in ("a", "b")[: int(rng.integers(1, 3))]
    )
    limits = Limits(
        float(rng.choice([30, 200, 900])), float(rng.choice([0, 1.5])), int(rng.choice([20, 10_000]))
    )
    search = with_(
        goals=goals,
        limits=limits,
        repeat=int(rng.integers(1, 5)),
        hysteresis=bool(rng.integers(2)),
        confirm=int(rng.integers(4)),
        start=None if rng.integers(2) else 900.0,
    )
    bound = worst_case(search)
    results: list[TrialResult] = []
    while isinstance(step := search.next(results), Trial):
        results.append(any_result(step, goals, rng))
        assert len(results) <= bound.trials
    assert sum(result.seconds for result in results if result.spent >= result.seconds) <= bound.seconds
    assert all(result.load <= search.grid.high for result in results)
    assert sum(result.spent for result in results[:-1]) <= bound.seconds
