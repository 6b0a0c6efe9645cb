"""Results of searches, made by hand."""

from __future__ import annotations

import math
from statistics import fmean, stdev

from plimsoll.analyse.results.load.search import (
    BracketEnd,
    FoundCapacity,
    MeasuredThroughput,
    OneSearch,
    SearchCell,
    SearchResult,
    SearchTrial,
    SoughtGoal,
)
from plimsoll.analyse.results.verdicts import RuleId
from plimsoll.analyse.stats.distributions import t_quantile

GOAL = SoughtGoal("fast", "p(99)<100ms", "", 0.05)


def result_of(*cells: SearchCell, axis: str = "load.rate") -> SearchResult:
    """A search with one goal."""
    return SearchResult(axis, 50, 20000, (GOAL,), 0.5, 10, 6, cells, RuleId("capacity.search", 1))


def found(
    *estimates: float | None, ending: str = "bracket", throughput: MeasuredThroughput | None = None
) -> FoundCapacity:
    """The answer from the estimate of each search. None: it found no bracket, and ended by `ending`."""
    logs = [math.log(one) for one in estimates if one is not None]
    mean = fmean(logs) if logs else None
    half = None if len(logs) < 2 else t_quantile(0.975, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return FoundCapacity(
        goal="fast",
        estimate=None if mean is None else math.exp(mean),
        low=None if mean is None or half is None else math.exp(mean - half),
        high=None if mean is None or half is None else math.exp(mean + half),
        searches=tuple(_one(estimate, ending) for estimate in estimates),
        throughput=throughput,
        lowest_loss=None,
        from_above=None,
        confirmed=(),
    )


def _one(estimate: float | None, ending: str) -> OneSearch:
    if estimate is None:
        return OneSearch(ending, None, None, None, None, None, None, 1.0)
    lower, upper = (BracketEnd(factor * estimate, 1, 4) for factor in (0.95, 1.05))
    return OneSearch("bracket", lower, upper, estimate, None, None, None, 1.0)


def trials_of(searches: int, cell: int) -> tuple[SearchTrial, ...]:
    """Two trials of each search."""
    return tuple(
        SearchTrial(
            run=f"{2 * searches * cell + number + 1:04d}",
            search=number // 2,
            load=100.0 + number,
            seconds=10.0,
            why="bisect",
            reason="",
            goal="fast",
            loss_ratio={"fast": 0.005},
            high_loss={"fast": False},
            percentile_ms={"fast": 42.0},
            bounds={"fast": (None, None)},
            throughput_per_s=99.0,
            invalid="",
            spent_s=11.0,
        )
        for number in range(2 * searches)
    )
