"""Throughput at the load levels of one combination, on logarithms, and comparisons of two levels.

The run is the unit. The variance of a run is that of its own level, moderated by the variance of all levels: at the
knee runs differ more than below it, and an error pooled over all levels made 13 to 20 % of the statements false where
the noise tripled there. The moderation (one degree of freedom's worth of the pooled variance, as in G. Smyth,
Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, with a fixed prior) keeps two or three repetitions usable. Two levels are
compared by t with Welch's degrees of freedom (Biometrika 34 (1947) 28).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.means import PooledError

Array = NDArray[np.float64]

POOLED_WEIGHT = 1.0
"""Weight of the pooled variance, in degrees of freedom."""
LEVELS_TO_POOL = 3
"""Minimum number of levels for a pooled variance; with fewer it would be that of the two levels compared."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels in ascending order of load. `means`: mean log throughput; `variances`: of one run's log throughput;
    `runs`: number of valid runs per level."""

    loads: tuple[float, ...]
    log_loads: Array
    means: Array
    variances: Array
    runs: tuple[int, ...]

    @staticmethod
    def of(levels: Mapping[float, Sequence[float]], error: PooledError) -> Ladder:
        """From positive throughputs, one per run, by positive load. `error`: pooled over all levels."""
        loads = tuple(sorted(levels))
        logs = [np.log(np.asarray(levels[load], dtype=np.float64)) for load in loads]
        weight = POOLED_WEIGHT if len(loads) >= LEVELS_TO_POOL else 0.0
        return Ladder(
            loads,
            np.log(np.array(loads)),
            np.array([level_logs.mean() for level_logs in logs]),
            np.array([_moderated_variance(level_logs, error, weight) for level_logs in logs]),
            tuple(level_logs.size for level_logs in logs),
        )

    def __len__(self) -> int:
        return len(self.loads)

    def rise(self, lower: int, upper: int) -> float:
        """Difference of the mean log throughput from level `lower` to `upper` (indices)."""
        return float(self.means[upper] - self.means[lower])

    def distance(self, lower: int, upper: int) -> float:
        """Difference of the log load from level `lower` to `upper` (indices)."""
        return float(self.log_loads[upper] - self.log_loads[lower])

    def half_width(self, lower: int, upper: int, tail: float) -> float:
        """Half width of the t interval of the difference of two levels, with probability `tail` beyond each end."""
        return self.half_width_of({lower: -1.0, upper: 1.0}, tail)

    def half_width_of(self, weights: Mapping[int, float], tail: float) -> float:
        """Half width of the t interval of a weighted sum of mean log throughputs. `weights`: by index of the level."""
        parts = [
            (weight**2 * float(self.variances[i]) / self.runs[i], max(1, self.runs[i] - 1))
            for i, weight in weights.items()
        ]
        total = sum(part for part, _ in parts)
        if total <= 0:
            return 0.0
        df = total**2 / sum(part**2 / df for part, df in parts)
        return t_quantile(1 - tail, df) * math.sqrt(total)

    def sd(self, lower: int, upper: int) -> float:
        """Standard deviation of one run's log throughput at these two levels (indices)."""
        return math.sqrt(float(self.variances[lower] + self.variances[upper]) / 2)


def _moderated_variance(logs: Array, error: PooledError, weight: float) -> float:
    df = logs.size - 1
    if df == 0:
        return error.sd**2
    own = float(logs.var(ddof=1))
    return (df * own + weight * error.sd**2) / (df + weight)
