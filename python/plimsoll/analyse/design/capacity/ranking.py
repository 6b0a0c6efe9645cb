"""The combination of the factors with the highest nominal capacity, from ratios with their own intervals.

Each combination is represented by its runs at the loads of its nominal capacity, averaged over these loads. The best
is compared with each of the others by the difference of the mean logarithms within blocks. The error is pooled over the
highest level of each, and the intervals have Bonferroni's correction over all comparisons with the best (Jain 20.5; D.
Montgomery, section 3.5). Whether the intervals of two means overlap is a weaker test, because each contains the
effect of the block on both.

An interval contains the ratio of the highest true means, for any selection of the levels. A single level that was
selected as the highest counts, at the end towards the other combination, with Bonferroni's correction over its rivals.
A plateau, which may have a small slope, counts with its mean at one end of the interval and with its highest level at
the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.results.analysis import Ranking
from plimsoll.analyse.results.verdicts import RankingVerdict
from plimsoll.analyse.stats.blocks import AdjustedCells, Array, within_blocks
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import PooledError

METHOD = "within blocks, Bonferroni over the comparisons with the highest"


@dataclass(frozen=True, slots=True)
class Contender:
    """A combination with its runs at each load of its nominal capacity: block and throughput of each run."""

    combination: Mapping[str, str]
    levels: tuple[tuple[tuple[str | None, float], ...], ...]
    rivals: int = 1
    """Number of loads from which a single level was selected as the highest."""

    @property
    def mean(self) -> float:
        """Mean of the arithmetic means of the levels."""
        return float(np.mean([np.mean([value for _, value in runs]) for runs in self.levels]))

    @property
    def is_positive(self) -> bool:
        """Whether each run has a throughput."""
        return bool(self.levels) and all(value > 0 for runs in self.levels for _, value in runs)


def ranking(contenders: Sequence[Contender], *, shared: bool = False, level: float = 0.95) -> Ranking | None:
    """The ranking of the combinations. `shared`: runs at several levels belong to a pass and share its effect, so their
    mean has the same error as one of them. None if fewer than two combinations have a throughput, or if only the load
    was varied."""
    known = [contender for contender in contenders if contender.is_positive]
    known.sort(key=lambda contender: -contender.mean)
    if len(known) < 2 or not known[0].combination:
        return None
    cells = [
        [(block, math.log(value)) for block, value in runs]
        for contender in known
        for runs in contender.levels
    ]
    adjusted = within_blocks(cells)
    ratios = _ratios(adjusted, known, level, shared)
    second = min(range(1, len(known)), key=lambda at: ratios[at - 1].low or 0.0)
    lowest = ratios[second - 1].low
    verdict = RankingVerdict.HIGHEST
    if lowest is None:
        verdict, second = RankingVerdict.ONE_OBSERVATION, 1
    elif lowest <= 1:
        verdict = RankingVerdict.NOT_TOLD_APART
    return Ranking(
        verdict,
        dict(known[0].combination),
        dict(known[second].combination),
        dict(known[-1].combination),
        ratios[second - 1],
        ratios[-1],
    )


def _ratios(
    adjusted: AdjustedCells | None, known: Sequence[Contender], level: float, shared: bool
) -> list[Interval]:
    """Ratio of the best combination to each of the others."""
    error = _error(known, adjusted)
    if adjusted is None or error is None:
        return [
            Interval(known[0].mean / contender.mean, None, None, method=METHOD) for contender in known[1:]
        ]
    tail = (1 - level) / 2 / (len(known) - 1)
    cells = iter(adjusted.cells)
    first, *others = [
        _LevelMeans([np.asarray(next(cells)) for _ in contender.levels], contender.rivals, shared)
        for contender in known
    ]
    out = []
    for other in others:
        ratio = math.exp(first.mean - other.mean)
        low, high = _surplus(first, other, tail, error), -_surplus(other, first, tail, error)
        out.append(Interval(ratio, math.exp(low), math.exp(high), level, float(error.df), METHOD))
    return out


def _error(known: Sequence[Contender], adjusted: AdjustedCells | None) -> PooledError | None:
    """Error of one run, from the highest level of each combination. With all levels, a combination with a long plateau
    would have a greater weight than one whose runs differ more."""
    if all(len(contender.levels) == 1 for contender in known):
        return None if adjusted is None else adjusted.error()
    tops = [
        max(contender.levels, key=lambda runs: float(np.mean([value for _, value in runs])))
        for contender in known
    ]
    of_tops = within_blocks([[(block, math.log(value)) for block, value in runs] for runs in tops])
    return None if of_tops is None else of_tops.error()


@dataclass(frozen=True, slots=True)
class _LevelMeans:
    """Mean log throughputs of the levels of a contender, from the runs without the effects of the blocks."""

    levels: Sequence[Array]
    rivals: int
    shared: bool

    @property
    def mean(self) -> float:
        return float(np.mean([level.mean() for level in self.levels]))

    @property
    def variance(self) -> float:
        """Variance of `mean`, relative to that of one run."""
        mean = sum(1 / level.size for level in self.levels) / len(self.levels)
        return mean if self.shared else mean / len(self.levels)


def _surplus(best: _LevelMeans, other: _LevelMeans, tail: float, error: PooledError) -> float:
    """Lower bound of the difference of the log capacities, with probability `tail` below it."""
    highest = max(other.levels, key=lambda level: float(level.mean()))
    sd = error.sd * math.sqrt(best.variance + 1 / highest.size)
    return best.mean - float(highest.mean()) - t_quantile(1 - tail / best.rivals, error.df) * sd
