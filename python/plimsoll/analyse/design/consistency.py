"""The cost of consistency: readers' responses over the runs of a cell, and of a level of the first factor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plimsoll.analyse.design.across import Design, Group
from plimsoll.analyse.results.analysis import Consistency, ConsistencyResult, RunResult
from plimsoll.analyse.results.run import Staleness
from plimsoll.analyse.run.staleness import HISTOGRAM
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import POOLED, SINGLE, PooledError, mean_interval, pooled_error
from plimsoll.analyse.stats.proportion import error_rate
from plimsoll.analyse.stats.quantiles import is_large_enough, merged

OF_CELLS = "from the intervals of its cells, weighted by their answers"
NONE_STALE = "where none was stale, Wilson over the answers of all runs, as if they were independent"


@dataclass(frozen=True, slots=True)
class _Runs:
    """Valid runs that share some levels. `groups`: their cells, with the histograms of the ages."""

    cell: dict[str, str]
    runs: Sequence[RunResult]
    groups: Sequence[Group]

    @property
    def staleness_of_runs(self) -> list[Staleness]:
        return [run.staleness for run in self.runs if run.staleness is not None]


def consistency(groups: Sequence[Group], design: Design) -> ConsistencyResult | None:
    """Results by cell, and by level of the first factor that is not the load; None if no run has readers."""
    groups = [group for group in groups if any(run.staleness is not None for run in group.valid)]
    if not groups:
        return None
    # Cells without a stale response have no spread: pooled with the others, they would make their intervals too narrow.
    with_stale = [
        group
        for group in groups
        if any(staleness.readers.stale for staleness in _runs_of(group).staleness_of_runs)
    ]
    shares = dict(zip(map(id, with_stale), _shares_by_angle(with_stale), strict=True))
    cells = [_consistency_of(_runs_of(group), shares.get(id(group))) for group in groups]
    factor = next((name for name in design.levels if name != design.load_factor), None)
    return ConsistencyResult(tuple(cells), factor, _levels(groups, cells, factor) if factor else ())


def _shares_by_angle(groups: Sequence[Group]) -> list[Interval | None]:
    """The stale share of each cell over its runs. The variance of a share depends on its size; that of the arcsine of
    its root does not (Anscombe, Biometrika 35 (1948) 246), so cells of 10 % and of 0.01 % can have a common error."""
    shares = [
        [
            staleness.readers.stale / staleness.readers.answers
            for staleness in _runs_of(group).staleness_of_runs
            if staleness.readers.answers
        ]
        for group in groups
    ]
    angles = [[math.asin(math.sqrt(share)) for share in cell_shares] for cell_shares in shares]
    pooled = pooled_error([cell_angles for cell_angles in angles if cell_angles])
    intervals = (mean_interval(cell_angles, pooled) for cell_angles in angles)
    return [
        _from_angle(interval, float(np.mean(share))) if interval is not None else None
        for interval, share in zip(intervals, shares, strict=True)
    ]


def _from_angle(interval: Interval, mean: float) -> Interval:
    """The interval of the shares about their arithmetic mean, which is slightly above that from the angles."""
    if interval.low is None or interval.high is None:
        return Interval(mean, None, None, interval.level, interval.df, interval.method)
    low, high = (math.sin(min(max(end, 0.0), math.pi / 2)) ** 2 for end in (interval.low, interval.high))
    return Interval(mean, min(low, mean), max(high, mean), interval.level, interval.df, interval.method)


def _runs_of(group: Group) -> _Runs:
    return _Runs(group.cell, group.valid, [group])


def _consistency_of(runs: _Runs, share: Interval | None) -> Consistency:
    results = runs.staleness_of_runs
    answers = sum(result.readers.answers for result in results)
    fetches = sum(result.readers.fetches for result in results)
    ages = merged(
        histograms[HISTOGRAM]
        for group in runs.groups
        for histograms in group.sample.histograms
        if HISTOGRAM in histograms
    )

    def at(q: float) -> float | None:
        value = ages.quantile(q) if is_large_enough(q, ages.total) else None
        return None if value is None else value / 1e6

    return Consistency(
        cell=runs.cell,
        runs=len(results),
        answers=answers,
        stale=sum(result.readers.stale for result in results),
        stale_share=_share(results, share),
        stale_age_ms_p50=at(0.5),
        stale_age_ms_p95=at(0.95),
        stale_age_ms_max=None if ages.largest is None else ages.largest / 1e6,
        fetches_per_answer=fetches / answers if answers else None,
        needless_share=sum(result.readers.needless for result in results) / fetches if fetches else None,
        busy=_busy(runs.runs),
    )


def _share(results: Sequence[Staleness], over_runs: Interval | None) -> Interval | None:
    """Stale share with its interval. Of one run: from batch means within it; of several: `over_runs`, or from the count
    if no response was stale."""
    if len(results) == 1:
        return results[0].readers.stale_share
    answers = [result.readers.answers for result in results]
    if sum(answers) and not any(result.readers.stale for result in results):
        rate = error_rate([0] * len(results), answers)
        return None if rate is None else Interval(0.0, 0.0, rate.high, method=NONE_STALE)
    if over_runs is None or over_runs.low is None or over_runs.high is None:
        return over_runs
    low, high = max(0.0, over_runs.low), min(1.0, over_runs.high)  # no share is beyond these
    return Interval(over_runs.mean, low, high, over_runs.level, over_runs.df, over_runs.method)


def _busy(runs: Iterable[RunResult]) -> dict[str, float]:
    means: dict[str, list[float]] = {}
    for run in runs:
        for utilization in run.utilization:
            if utilization.role == "service":
                means.setdefault(utilization.component, []).append(utilization.mean)
    return {name: float(np.mean(values)) for name, values in means.items()}


# -- over the levels of a factor


def _levels(groups: Sequence[Group], cells: Sequence[Consistency], factor: str) -> tuple[Consistency, ...]:
    groups_of: dict[str, list[Group]] = {}
    shares: dict[str, list[Consistency]] = {}
    for group, cell in zip(groups, cells, strict=True):
        if factor in group.cell:
            groups_of.setdefault(group.cell[factor], []).append(group)
            shares.setdefault(group.cell[factor], []).append(cell)
    reads = _relative_reads(groups_of, factor)
    levels = []
    for level, members in groups_of.items():
        runs = _Runs({factor: level}, [run for group in members for run in group.valid], members)
        summed = _consistency_of(runs, _weighted_share(shares[level]))
        levels.append(replace(summed, relative_reads=reads.get(level)))
    return tuple(levels)


def _weighted_share(cells: Sequence[Consistency]) -> Interval | None:
    """The stale share over several cells. Cells differ by plan, so the differences between them are no error. The
    limits are computed from those of the cells: the squares of their distances from the means are added (MOVER; Zou and
    Donner, Statistics in Medicine 27 (2008) 1693)."""
    known = [(cell.answers, cell.stale_share) for cell in cells if cell.stale_share is not None]
    total = sum(answers for answers, _ in known)
    if not total:
        return None
    if len(known) == 1:
        return known[0][1]
    mean = sum(answers * share.mean for answers, share in known) / total
    below = above = 0.0
    for answers, share in known:
        if share.low is None or share.high is None:
            return Interval(mean, None, None, method="a cell has no interval")
        below += (answers / total * (share.mean - share.low)) ** 2
        above += (answers / total * (share.high - share.mean)) ** 2
    return Interval(mean, mean - math.sqrt(below), mean + math.sqrt(above), method=OF_CELLS)


def _relative_reads(groups_of: dict[str, list[Group]], factor: str) -> dict[str, Interval]:
    """Reads per second of each level relative to the level with the most reads.

    On logarithms, on which a constant relative error is constant: the mean difference between the cells of the two
    levels that have the same levels of all other factors. Its error is that of runs about their cells, pooled over the
    design.
    """
    logs = {
        level: {_rest(group, factor): values for group in members if (values := _logs(group))}
        for level, members in groups_of.items()
    }
    known = {level: cells for level, cells in logs.items() if cells}
    if not known:
        return {}
    pooled = pooled_error([values for cells in known.values() for values in cells.values()])
    best = max(known, key=lambda level: np.mean([np.mean(values) for values in known[level].values()]))
    itself = Interval(1.0, 1.0, 1.0, method="reference of the comparison")
    ratios = {level: _ratio(cells, known[best], pooled) for level, cells in known.items()}
    return {level: ratio for level, ratio in (ratios | {best: itself}).items() if ratio is not None}


Rest = tuple[tuple[str, str], ...]


def _rest(group: Group, factor: str) -> Rest:
    return tuple(sorted((name, level) for name, level in group.cell.items() if name != factor))


def _logs(group: Group) -> list[float]:
    values = [run.staleness.readers.reads_per_s for run in group.valid if run.staleness is not None]
    return [math.log(value) for value in values if value > 0]


def _ratio(
    cells: dict[Rest, list[float]], best: dict[Rest, list[float]], pooled: PooledError | None
) -> Interval | None:
    shared = [rest for rest in cells if rest in best]
    if not shared:
        return None
    mean = float(np.mean([np.mean(cells[rest]) - np.mean(best[rest]) for rest in shared]))
    if pooled is None:
        return Interval(math.exp(mean), None, None, method=SINGLE)
    per_run = sum(1 / len(cells[rest]) + 1 / len(best[rest]) for rest in shared) / len(shared) ** 2
    half = t_quantile(0.975, pooled.df) * pooled.sd * math.sqrt(per_run)
    return Interval(
        math.exp(mean), math.exp(mean - half), math.exp(mean + half), df=float(pooled.df), method=POOLED
    )
