"""Which combination of the factors has the highest nominal capacity, by ratios with intervals of their own.

Each combination stands with its runs at the load of its nominal capacity. The best is compared with each other one by
the difference of the mean logarithms within blocks; the error is pooled over all these cells, and the intervals are
Bonferroni's over all comparisons with the best (Jain 20.5; D. Montgomery, section 3.5). Whether the intervals of two
means overlap says less: what a block does to both stands in each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.blocks import Adjusted, within_blocks
from plimsoll.analyse.distributions import t_quantile
from plimsoll.analyse.results import Interval, Ranking
from plimsoll.analyse.results_verdicts import RankingVerdict

METHOD = "within blocks, Bonferroni over the comparisons with the highest"


@dataclass(frozen=True, slots=True)
class Contender:
    """A combination with its runs at the load of its nominal capacity: block and throughput (above zero) of each."""

    combination: Mapping[str, str]
    runs: tuple[tuple[str | None, float], ...]

    @property
    def mean(self) -> float:
        """Arithmetic mean of the throughputs."""
        return float(np.mean([value for _, value in self.runs]))


def ranking(contenders: Sequence[Contender], *, level: float = 0.95) -> Ranking | None:
    """None where fewer than two combinations have a throughput, or nothing but the load was varied."""
    known = [each for each in contenders if each.runs and min(value for _, value in each.runs) > 0]
    known.sort(key=lambda each: -each.mean)
    if len(known) < 2 or not known[0].combination:
        return None
    cells = [[(block, math.log(value)) for block, value in each.runs] for each in known]
    adjusted = within_blocks(cells)
    ratios = _ratios(adjusted, known, level)
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


def _ratios(adjusted: Adjusted | None, known: Sequence[Contender], level: float) -> list[Interval]:
    """The best over each other one."""
    error = None if adjusted is None else adjusted.error()
    if adjusted is None or error is None:
        return [Interval(known[0].mean / each.mean, None, None, method=METHOD) for each in known[1:]]
    first, out = np.asarray(adjusted.cells[0]), []
    t = t_quantile(1 - (1 - level) / 2 / (len(known) - 1), error.df)
    for other in map(np.asarray, adjusted.cells[1:]):
        rise = float(first.mean() - other.mean())
        half = t * error.sd * math.sqrt(1 / first.size + 1 / other.size)
        low, high = math.exp(rise - half), math.exp(rise + half)
        out.append(Interval(math.exp(rise), low, high, level, float(error.df), METHOD))
    return out
