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
MIN_RESPONSES: Final = 10
"""Minimum number of responses of each kind in a run for a ratio."""


def cache_times(chunks: Iterable[tuple[str, Int]]) -> tuple[CacheTimes, ...]:
    """One entry for each report of the caches, the most frequent first; quantiles within 0.1 %. `chunks`: report, and
    response times in ns."""
    durations_of: dict[str, Durations] = {}
    for report, response in chunks:
        durations = durations_of.setdefault(report, Durations(exact=False))
        durations.add(response, response.astype(np.float64))
    total = sum(durations.moments.count for durations in durations_of.values())
    ranked = sorted(durations_of.items(), key=lambda item: (-item[1].moments.count, item[0]))
    return tuple(
        CacheTimes(report, durations.moments.count / total, durations.latency())
        for report, durations in ranked
    )


def of(run: RunResult, report: str) -> CacheTimes | None:
    """The response times of a run with this report of the caches; None if there are none."""
    return next((times for times in run.caches if times.cache == report), None)


def miss_ratios(cells: Sequence[Sequence[RunResult]]) -> list[Interval | None]:
    """Ratio of the response times of misses and hits, for the runs of each cell: the geometric mean over runs of mean
    miss / mean hit. The interval is that of its logarithm, with the error pooled over the cells (none if no cell has
    two runs). None if no run of a cell has enough hits and misses.

    Rejected: `cell_intervals` with its arithmetic mean, which for ratios depends on which of the two is the
    numerator."""
    logs = [[math.log(ratio) for run in runs if (ratio := _ratio(run)) is not None] for runs in cells]
    pooled = pooled_error([cell_logs for cell_logs in logs if cell_logs])
    return [_from_log(mean_interval(cell_logs, pooled)) for cell_logs in logs]


def _from_log(interval: Interval | None) -> Interval | None:
    if interval is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (interval.low, interval.high))
    return Interval(math.exp(interval.mean), low, high, interval.level, interval.df, interval.method)


def _ratio(run: RunResult) -> float | None:
    hit, miss = of(run, HIT), of(run, MISS)
    if hit is None or miss is None or min(hit.response_ms.count, miss.response_ms.count) < MIN_RESPONSES:
        return None
    miss_ms, hit_ms = miss.response_ms.mean, hit.response_ms.mean
    return miss_ms / hit_ms if miss_ms and hit_ms else None
