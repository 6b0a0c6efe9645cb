"""How often the bracket of a search contains the truth, and how wide it is.

The short tests have few searches; the long ones have 100 for each of 27 cases, or as many as PLIMSOLL_SEARCHES states:
1,000 for each need hours. docs/methods.md contains the rates that were found, and the number of searches of each.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from tests.stats.queueing import mm1
from tests.stats.search_queues import (
    CASES,
    P99,
    POOLED_STARTS,
    TRUTHS,
    Objective,
    Queue,
    QueueCase,
    lateness,
    response_tail,
    steady_load,
    truth,
)
from tests.stats.search_truths import (
    Autocorrelated,
    Curve,
    Late,
    Leak,
    Metastable,
    Service,
    bisect,
    by_class,
    majority,
    run_capacity,
    run_search,
)

from plimsoll.analyse.stats.proportion import wilson
from plimsoll.search.capacity import CapacitySearch
from plimsoll.search.controller import Limits, SearchController
from plimsoll.search.evidence import exceed_interval
from plimsoll.search.goals import Goal
from plimsoll.search.grid import LoadGrid
from plimsoll.search.verdict import GoalVerdict

COVERAGE = 0.95
SEARCHES = int(os.environ.get("PLIMSOLL_SEARCHES", "100"))
"""Of each long case."""
WIDTH = 0.05
GOAL = Goal("goal", 10, 2, 60, width=WIDTH)
GRID = LoadGrid.of(50, 20_000, WIDTH)
LIMITS = Limits(max_seconds=36_000)
SPREADS = (0.0, 0.02, 0.05, 0.09)


def upper_bound(events: Iterable[bool]) -> float:
    """One-sided 95 % bound of the probability of the events."""
    counted = list(events)
    return wilson(sum(counted), len(counted), confidence=0.90)[1]


def covers(hits: list[bool]) -> bool:
    """Whether the share of hits is at least COVERAGE; with fewer than 1,000, whether they do not show the contrary."""
    return (float(np.mean(hits)) if len(hits) >= 1000 else upper_bound(hits)) >= COVERAGE


def holds(found: GoalVerdict, at: float) -> bool:
    """The bracket is closed and contains `at`."""
    if found.lower is None or found.upper is None:
        return False
    return found.lower.load <= at <= found.upper.load


def searched(
    seed: int, searches: int, service: Callable[[float, np.random.Generator], Service]
) -> list[tuple[GoalVerdict, float]]:
    """Verdicts on services with a capacity drawn for each, and these capacities."""
    found = []
    for i in range(searches):
        rng = np.random.default_rng((seed, i))
        at = math.exp(rng.uniform(math.log(200), math.log(8000)))
        verdict, _ = run_search(SearchController((GOAL,), GRID, LIMITS), service(at, rng))
        found.append((verdict.goals[0], at))
    return found


def report(name: str, hits: list[bool], width: float) -> None:
    """Prints the figures for docs/methods.md: pytest shows them with -s."""
    print(f"\n{name}: {np.mean(hits):.3f} of {len(hits)}, median width {width:.4f}", flush=True)


def median_width(found: Iterable[GoalVerdict]) -> float:
    return float(np.median([verdict.width for verdict in found if verdict.width is not None]))


def queue_rates(
    case: QueueCase, searches: int, seed: int, pooled_starts: int = POOLED_STARTS
) -> list[tuple[list[bool], float]]:
    """For each objective: whether the bracket of each search contains the truth, and the median width. The grids of
    four searches differ by fractions of a step, so no load of them is the truth by design."""
    capacity = case.servers * case.rate
    shifts = [1 + 0.0033 * k for k in range(4)]
    grids = [LoadGrid.of(0.05 * capacity * f, 4 * capacity * f, WIDTH) for f in shifts]
    service = Queue(case, np.random.default_rng(seed), pooled_starts=pooled_starts)
    goals = case.goals(WIDTH)
    verdicts = [
        run_search(SearchController(goals, grids[i % 4], LIMITS), service)[0] for i in range(searches)
    ]
    return [
        (
            [holds(verdict.goals[k], TRUTHS[case.name][k]) for verdict in verdicts],
            median_width(verdict.goals[k] for verdict in verdicts),
        )
        for k in range(len(goals))
    ]


@pytest.mark.parametrize(
    "spread", [*SPREADS[:2], *(pytest.param(spread, marks=pytest.mark.long) for spread in SPREADS[2:])]
)
def test_bracket_of_a_curve(spread: float) -> None:
    found = searched(1, 25, lambda at, rng: Curve(at, spread, rng))
    assert upper_bound([holds(verdict, at) for verdict, at in found]) >= COVERAGE
    assert median_width(verdict for verdict, _ in found) <= 2 * WIDTH


@pytest.mark.long
def test_bracket_of_a_queue() -> None:
    (hits, width), *_ = queue_rates(CASES[7], 15, 3, pooled_starts=100_000)
    assert upper_bound(hits) >= COVERAGE
    assert width <= 2 * WIDTH


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("spread", SPREADS)
def test_long_bracket_of_a_curve(spread: float) -> None:
    found = searched(2, SEARCHES, lambda at, rng: Curve(at, spread, rng))
    hits = [holds(verdict, at) for verdict, at in found]
    report(f"spread {spread:g}", hits, median_width(v for v, _ in found))
    assert covers(hits)
    assert median_width(verdict for verdict, _ in found) <= 2 * WIDTH


HARD: dict[str, Callable[[float, np.random.Generator], Service]] = {
    "leak": lambda at, rng: Leak(at, GOAL.final_seconds, rng),
    "AR(1), 0.6, sd 3 %": lambda at, rng: Autocorrelated(at, 0.03, 0.6, rng),
    "AR(1), 0.9, sd 3 %": lambda at, rng: Autocorrelated(at, 0.03, 0.9, rng),
    "metastable": lambda at, rng: Metastable(at / 0.6, rng),
}
"""Services whose capacity for trials of the final length is the load that is passed."""


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", HARD)
def test_long_bracket_of_a_hard_case(name: str) -> None:
    found = searched(15, SEARCHES, HARD[name])
    hits = [holds(verdict, at) for verdict, at in found]
    report(name, hits, median_width(v for v, _ in found))
    assert covers(hits)
    assert median_width(verdict for verdict, _ in found) <= 2 * WIDTH


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("width", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("exceed", [0.2, 0.5, 0.8])
def test_long_bracket_of_other_goals(width: float, exceed: float) -> None:
    """A logistic curve with a spread of half the width."""
    goal, grid = Goal("goal", 10, 2, 60, exceed, width), LoadGrid.of(50, 20_000, width)
    spread = width / 2
    hits, widths = [], []
    for i in range(SEARCHES):
        rng = np.random.default_rng((16, i))
        at = math.exp(rng.uniform(math.log(200), math.log(8000)))
        verdict, _ = run_search(SearchController((goal,), grid, LIMITS), Curve(at, spread, rng))
        sought = at * (exceed / (1 - exceed)) ** spread
        hits.append(holds(verdict.goals[0], sought))
        widths.append(verdict.goals[0])
    report(f"width {width:g}, exceed {exceed:g}", hits, median_width(widths))
    assert covers(hits)
    assert median_width(widths) <= 2 * width


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_long_bracket_with_a_late_generator() -> None:
    """In three of ten trials the generator is late: such a trial counts for the classes if it meets the goal, else it
    is made again."""
    found = searched(17, SEARCHES, lambda at, rng: Late(Curve(at, 0.05, rng), 0.3, rng))
    closed = [(verdict, holds(verdict, at)) for verdict, at in found if verdict.is_regular]
    report("late", [hit for _, hit in closed], median_width(verdict for verdict, _ in closed))
    assert covers([hit for _, hit in closed])
    assert len(closed) >= 0.9 * SEARCHES
    at_least = [verdict.lower.load <= at for verdict, at in found if not verdict.is_regular and verdict.lower]
    assert np.mean(at_least) >= 0.9


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_long_bracket_of_a_queue(case: QueueCase) -> None:
    for hits, width in queue_rates(case, SEARCHES, 4):
        report(case.name, hits, width)
        assert covers(hits)
        assert width <= 2 * WIDTH


def test_a_leak_is_measured_at_the_final_length() -> None:
    """Short trials hold 1.6 times the load. They find the place to look at, and count for no bracket."""
    found = searched(5, 30, lambda at, rng: Leak(at, GOAL.final_seconds, rng))
    assert upper_bound([holds(verdict, at) for verdict, at in found]) >= COVERAGE


def test_noise_that_depends_on_the_trial_before() -> None:
    """Noise with a memory of a few trials does no harm; a drift over the whole search is not seen by one search."""
    fast = searched(6, 30, lambda at, rng: Autocorrelated(at, 0.03, 0.6, rng))
    assert upper_bound([holds(verdict, at) for verdict, at in fast]) >= COVERAGE
    slow = searched(7, 40, lambda at, rng: Autocorrelated(at, 0.06, 0.97, rng))
    assert np.mean([holds(verdict, at) for verdict, at in slow]) < 0.9


def test_a_metastable_service_has_the_capacity_that_it_holds_after_an_overload() -> None:
    found = searched(8, 20, lambda at, rng: Metastable(at, rng))
    assert upper_bound([holds(verdict, 0.6 * at) for verdict, at in found]) >= COVERAGE


def test_a_service_that_switches_between_two_states_has_a_wide_bracket() -> None:
    """It recovers and fails within the search: trials depend on their predecessors, which the verdict reports."""
    for i in range(3):
        rng = np.random.default_rng((9, i))
        search = SearchController((GOAL,), GRID, Limits(1800))
        verdict, _ = run_search(search, Metastable(1000, rng, recovers_at=1.0))
        found = verdict.goals[0]
        assert not found.is_regular and found.inflation > 1
        assert found.width is None or found.width > 2 * WIDTH


def test_the_approach_from_above_finds_a_metastable_service() -> None:
    agree = {True: 0, False: 0}
    for i in range(12):
        for trigger in (1.6, math.inf):
            rng = np.random.default_rng((10, i))
            at = math.exp(rng.uniform(math.log(200), math.log(8000)))
            search = CapacitySearch((GOAL,), GRID, LIMITS, start=0.9 * at, hysteresis=True)
            service = Metastable(at, rng, trigger=trigger, recovers_at=0.9)
            (descent,) = run_capacity(search, service)[0].descents
            agree[trigger == math.inf] += descent.agrees is (trigger == math.inf)
    assert agree[True] >= 11 and agree[False] >= 11


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("phi", "sd", "least"), [(0.0, 0.05, COVERAGE), (0.6, 0.06, 0.9), (0.9, 0.03, 0.9)])
def test_long_interval_of_six_searches(phi: float, sd: float, least: float) -> None:
    """Noise with a long memory makes searches depend on each other: docs/methods.md states the coverage."""
    hits, widths = [], []
    for i in range(200):
        rng = np.random.default_rng((11, i))
        at = math.exp(rng.uniform(math.log(200), math.log(8000)))
        search = CapacitySearch((GOAL,), GRID, Limits(1800), repeat=6)
        found = run_capacity(search, Autocorrelated(at, sd, phi, rng))[0].capacities[0]
        hits.append(found.interval is not None and found.interval.contains(at))
        widths.append(1.0 if found.interval is None else 1 - found.interval.low / found.interval.high)
    report(f"six searches, phi {phi:g}, sd {sd:g}", hits, float(np.median(widths)))
    assert upper_bound(hits) >= least


def test_coverage_of_the_beta_interval() -> None:
    """Jeffreys' interval, exactly by the binomial distribution: 95 % on average, less at some probabilities."""
    p = np.linspace(0.02, 0.98, 193)
    for total, least in ((6, 0.89), (10, 0.86), (20, 0.89), (60, 0.91)):
        covered = np.zeros_like(p)
        for high in range(total + 1):
            interval = exceed_interval(high, total)
            inside = (interval.low <= p) & (p <= interval.high)
            covered += inside * stats.binom.pmf(high, total, p)
        assert covered.mean() == pytest.approx(0.95, abs=0.012), total
        assert covered.min() > least, total


@pytest.mark.parametrize(("high", "total"), [(1, 7), (3, 10), (5, 10), (19, 60)])
def test_beta_interval_against_a_second_implementation(high: int, total: int) -> None:
    found = exceed_interval(high, total)
    assert (found.low, found.high) == pytest.approx(proportion_confint(high, total, method="jeffreys"))


def test_six_equal_trials_exclude_one_half() -> None:
    assert exceed_interval(0, 6).low == 0 and exceed_interval(0, 6).high < 0.5
    assert exceed_interval(6, 6).high == 1 and exceed_interval(6, 6).low > 0.5
    assert exceed_interval(0, 0).contains(0.0) and exceed_interval(0, 0).contains(1.0)


@pytest.mark.long
def test_the_search_takes_less_time_than_bisection_at_the_same_coverage() -> None:
    """bench/search.py finds the factor: here a bisection that takes longer contains the truth less often."""
    spent, hits, plain_spent, plain_hits = 0.0, 0, 0.0, 0
    for i in range(40):
        rng = np.random.default_rng((12, i))
        at = math.exp(rng.uniform(math.log(200), math.log(8000)))
        verdict, _ = run_search(SearchController((GOAL,), GRID, LIMITS), Curve(at, 0.05, rng))
        hits += holds(verdict.goals[0], at)
        spent += verdict.spent_seconds
        low, high, seconds = bisect(GOAL, (50, 20_000), majority(GOAL, 15), Curve(at, 0.05, rng))
        plain_hits += low <= at <= high
        plain_spent += seconds
    assert hits >= plain_hits + 3
    assert spent < plain_spent


def test_the_search_takes_less_time_than_a_bisection_with_the_same_trials() -> None:
    """Also for a step, where both always contain the truth: each load of the bisection has the trials of the goal."""
    spent, plain_spent = [], []
    for i in range(20):
        rng = np.random.default_rng((18, i))
        at = math.exp(rng.uniform(math.log(200), math.log(8000)))
        verdict, _ = run_search(SearchController((GOAL,), GRID, LIMITS), Curve(at, 0, rng))
        low, high, seconds = bisect(GOAL, (50, 20_000), by_class(GOAL), Curve(at, 0, rng))
        assert holds(verdict.goals[0], at) and low <= at <= high
        spent.append(verdict.spent_seconds)
        plain_spent.append(seconds)
    assert np.median(spent) < np.median(plain_spent)


def test_tail_of_the_response_time() -> None:
    """M/M/1 has an exponential response time; the mean of M/M/c is the integral of its tail."""
    assert response_tail(70, 100, 1, 0.1) == pytest.approx(math.exp(-0.1 * 30))
    times = np.linspace(0, 3, 30_001)
    tail = [response_tail(70, 100, 1, float(time)) for time in times]
    assert float(np.trapezoid(tail, times)) == pytest.approx(mm1(70, 100).response, rel=1e-4)


def test_truth_and_steady_state() -> None:
    """A trial of 10 s begins with an empty queue and has 600 starts: M/M/1 of 100 services/s exceeds "p99 < 100 ms"
    with probability 0.5 at a load 9 to 11 % above the load of the percentile in the steady state."""
    case = QueueCase(1, 100, 10, (Objective(P99, 0.1),))
    assert steady_load(case, 0) == pytest.approx(100 - math.log(100) / 0.1)
    rng = np.random.default_rng(13)
    share = {
        ratio: float((lateness(case, ratio * steady_load(case, 0), 10, 3000, rng) > 0.01).mean())
        for ratio in (1.0, 1.07, 1.12)
    }
    assert share[1.0] < 0.40 and share[1.07] < 0.5 < share[1.12]


@pytest.mark.parametrize("case", [CASES[0], CASES[6], CASES[7]], ids=lambda case: case.name)
def test_the_truths_are_those_of_a_simulation(case: QueueCase) -> None:
    found = truth(case, 0, np.random.default_rng(14), trials=150)
    assert found == pytest.approx(TRUTHS[case.name][0], rel=0.03)
