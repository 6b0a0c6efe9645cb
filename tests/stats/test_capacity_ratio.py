"""How often the interval of the ratio of two capacities contains the truth. docs/methods.md contains the rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.stats.search_truths import Curve, measure
from tests.unit.analyse.searches import found, result_of, trials_of

from plimsoll.analyse.effects.found_capacity import capacity_effects
from plimsoll.analyse.results.load.search import CapacityRatio, SearchCell
from plimsoll.analyse.stats.proportion import wilson
from plimsoll.search.capacity import CapacitySearch
from plimsoll.search.controller import Limits
from plimsoll.search.goals import Goal
from plimsoll.search.grid import LoadGrid
from plimsoll.search.trials import Trial, TrialResult

GOAL = Goal("fast", 2, 0.5, 6, width=0.1)
GRID = LoadGrid.of(50, 20_000, 0.1)
BLOCK_SD = 0.1
"""Standard deviation of the logarithm of the capacity between blocks, which all cells of a block share."""


def ratios_of(estimates: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> tuple[CapacityRatio, ...]:
    """The ratios of the levels, from the estimates [level, search]."""
    cells = (
        SearchCell({"level": str(at)}, (found(*row.tolist()),), trials_of(row.size, at), 9.0)
        for at, row in enumerate(estimates)
    )
    levels = [str(at) for at in range(len(estimates))]
    return capacity_effects(result_of(*cells), {"level": levels}).ratios


def contains(one: CapacityRatio, truth: float) -> bool:
    assert one.ratio.low is not None and one.ratio.high is not None
    return one.ratio.low <= truth <= one.ratio.high


def searched_capacity(
    truth: float, blocks: np.ndarray[tuple[int], np.dtype[np.float64]], rng: np.random.Generator
) -> list[float]:
    """The estimates of complete searches of a service, whose capacity is multiplied by `blocks`."""
    search = CapacitySearch((GOAL,), GRID, Limits(36_000), repeat=blocks.size)
    results: list[TrialResult] = []
    while isinstance(step := search.next(results), Trial):
        service = Curve(truth * float(blocks[step.search]), 0.02, rng)
        results.append(measure(step, search.goals, service))
    return [one.estimate for one in step["fast"].searches if one.estimate is not None]


def coverage_of_searches(seed: int, experiments: int) -> list[bool]:
    hits = []
    for i in range(experiments):
        rng = np.random.default_rng((seed, i))
        base, truth = math.exp(rng.uniform(math.log(200), math.log(4000))), rng.uniform(1.0, 3.0)
        blocks = np.exp(BLOCK_SD * rng.standard_normal(3))
        estimates = np.array([searched_capacity(base * factor, blocks, rng) for factor in (1.0, truth)])
        (ratio,) = ratios_of(estimates)
        hits.append(contains(ratio, truth))
    return hits


@pytest.mark.parametrize(("levels", "searches"), [(2, 2), (2, 6), pytest.param(4, 3, marks=pytest.mark.long)])
def test_all_ratios_of_a_goal_contain_the_truth(levels: int, searches: int) -> None:
    """Estimates with a normal error: all ratios together hold with the probability of one interval."""
    truths = np.array([1.0, 1.8, 1.8, 0.5])[:levels]
    hits = []
    for i in range(400):
        rng = np.random.default_rng((levels, searches, i))
        errors = 0.03 * rng.standard_normal((levels, searches)) + BLOCK_SD * rng.standard_normal(searches)
        ratios = ratios_of(1000 * truths[:, None] * np.exp(errors))
        hits.append(all(contains(one, truth) for one, truth in zip(ratios, truths[1:], strict=True)))
    low, high = wilson(sum(hits), len(hits), confidence=0.99)
    assert high >= 0.95
    assert low <= 0.975, "no wider than necessary: Bonferroni's correction is nearly exact"


@pytest.mark.long
def test_ratio_of_two_searched_services() -> None:
    hits = coverage_of_searches(1, 8)
    assert wilson(sum(hits), len(hits), confidence=0.90)[1] >= 0.95


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_long_ratio_of_two_searched_services() -> None:
    hits = coverage_of_searches(2, 200)
    assert wilson(sum(hits), len(hits), confidence=0.90)[1] >= 0.95
