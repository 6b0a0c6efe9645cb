"""Response times by the report of the caches on the path: hits and misses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import CacheTimes
from plimsoll.analyse.run.traffic import Durations
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import mean_interval, pooled_error
from plimsoll.analyse.window.transactions import Int

HIT: Final = "hit"
MISS: Final = "miss"
FEWEST: Final = 10
"""Answers of each kind that a run needs for a ratio to be given."""


def cache_times(chunks: Iterable[tuple[str, Int]]) -> tuple[CacheTimes, ...]:
    """One entry for each report of caches, the most frequent first; quantiles within 0.1 %. `chunks`: the report, and
    response times in ns."""
    found: dict[str, Durations] = {}
    for said, response in chunks:
        durations = found.setdefault(said, Durations(exact=False))
        durations.add(response, response.astype(np.float64))
    total = sum(each.moments.count for each in found.values())
    ranked = sorted(found.items(), key=lambda item: (-item[1].moments.count, item[0]))
    return tuple(CacheTimes(said, each.moments.count / total, each.latency()) for said, each in ranked)


def of(run: RunResult, said: str) -> CacheTimes | None:
    """The response times with this report of the caches."""
    return next((each for each in run.caches if each.cache == said), None)


def miss_ratios(cells: Sequence[Sequence[RunResult]]) -> list[Interval | None]:
    """Ratio of the response times of misses and hits, for the runs of each cell: the geometric mean over runs of mean
    miss / mean hit. The interval is that of its logarithm, with the error pooled over the cells (none where no cell has
    two runs). None where no run of a cell has enough of both.

    Not `cell_intervals`, which shows the arithmetic mean: of ratios it depends on which of the two is the numerator."""
    logs = [[math.log(ratio) for run in runs if (ratio := _ratio(run)) is not None] for runs in cells]
    pooled = pooled_error([each for each in logs if each])
    return [_from_log(mean_interval(each, pooled)) for each in logs]


def _from_log(found: Interval | None) -> Interval | None:
    if found is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return Interval(math.exp(found.mean), low, high, found.level, found.df, found.method)


def _ratio(run: RunResult) -> float | None:
    hit, miss = of(run, HIT), of(run, MISS)
    if hit is None or miss is None or min(hit.response_ms.count, miss.response_ms.count) < FEWEST:
        return None
    above, below = miss.response_ms.mean, hit.response_ms.mean
    return above / below if above and below else None
