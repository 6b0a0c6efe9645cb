"""From which load on more load brings no more throughput: a bracket between two levels that were run, never finer.

The run is the unit: every level has one throughput per repetition, and the error is pooled over the levels and
combinations that are passed together (on logarithms, so that gains are ratios with a constant relative error).
For each level i and each higher level j the gain X_j / X_i - 1 has a t interval; the intervals of one i are widened by
Bonferroni for their number. Level i *still rises* if some gain is surely above zero and at least LEAST_GAIN; it *is
flat* if all its gains are surely below MOST_FLAT. The bracket reaches from the last level that still rises to the next.
Where the next is not surely flat, the verdict stands, with the gain that cannot be excluded as its doubt.

Rejected: a knee found by curvature (its place follows the range of loads that were run), and fitting a curve here (a
model belongs to prediction, this is what was seen).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.distributions import t_quantile
from plimsoll.analyse.means import Pooled, pooled_error
from plimsoll.analyse.results_verdicts import Doubt, SaturationReason, SaturationVerdict

Array = NDArray[np.float64]

LEAST_GAIN = 0.05
MOST_FLAT = 0.10


@dataclass(frozen=True)
class Gain:
    """Relative gain of throughput from one level to a higher one (0.1: 10 % more). No interval: one repetition."""

    start: float
    end: float
    gain: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Bracket:
    """Saturation lies above `lower` and at or below `upper` (levels of the load factor).

    `upper` None: not reached. `lower` None: at or below the lowest level. `sure`: the upper level is flat beyond doubt.
    `falls_from`: level from which throughput surely falls again (retrograde), None if it does not. `levels`: so many
    were run. `reason`: why nothing can be said. `doubt`: the greatest gain that cannot be excluded.
    """

    verdict: SaturationVerdict
    lower: float | None
    upper: float | None
    sure: bool
    falls_from: float | None
    gains: tuple[Gain, ...]
    levels: int
    reason: SaturationReason | None = None
    doubt: Doubt | None = None
    has_error: bool = True
    """False: judged by the means, as there are no repetitions."""


def throughput_error(combinations: Sequence[Mapping[float, Sequence[float]]]) -> Pooled | None:
    """Error of one run's log throughput, pooled over all levels of all combinations. None without repetitions.

    Levels at which some run had no throughput are left out of it.
    """
    groups = []
    for levels in combinations:
        for values in levels.values():
            y = np.asarray(values, dtype=np.float64)
            if y.size and float(y.min()) > 0:
                groups.append(np.log(y))
    return pooled_error(groups)


def saturation(
    levels: Mapping[float, Sequence[float]],
    error: Pooled | None,
    *,
    confidence: float = 0.95,
    least_gain: float = LEAST_GAIN,
    most_flat: float = MOST_FLAT,
) -> Bracket:
    """Bracket of one combination of the other factors.

    `levels`: throughputs (one per valid run) by level of the load. `error`: see `throughput_error`.
    """
    known = sorted(level for level, values in levels.items() if len(values))
    if len(known) < 2:
        return _nothing(SaturationReason.TOO_FEW_LEVELS, len(known))
    means = [float(np.mean(levels[level])) for level in known]
    if max(means) <= 0:
        return _nothing(SaturationReason.NOTHING_SUCCEEDED, len(known))
    gains = _gains(known, levels, means, error, confidence)
    rising = [any(_rises(g, least_gain) for g in row) for row in gains]
    last = max((i for i, rises in enumerate(rising) if rises), default=None)
    falls = _falls_from(known, levels, means, error, confidence, least_gain)
    every = tuple(g for row in gains for g in row)
    return _verdict(known, gains, last, falls, every, most_flat, error is not None)


def _nothing(reason: SaturationReason, levels: int) -> Bracket:
    return Bracket(SaturationVerdict.CANNOT_SAY, None, None, False, None, (), levels, reason)


def _gains(
    known: Sequence[float],
    levels: Mapping[float, Sequence[float]],
    means: Sequence[float],
    error: Pooled | None,
    confidence: float,
) -> list[list[Gain]]:
    rows = []
    for i in range(len(known)):
        later = range(i + 1, len(known))
        each = 1 - (1 - confidence) / max(1, len(later))
        rows.append([_gain(known[i], known[j], levels, means[i], means[j], error, each) for j in later])
    return rows


def _gain(
    start: float,
    end: float,
    levels: Mapping[float, Sequence[float]],
    mean_start: float,
    mean_end: float,
    error: Pooled | None,
    confidence: float,
) -> Gain:
    a, b = np.asarray(levels[start], dtype=np.float64), np.asarray(levels[end], dtype=np.float64)
    if mean_start <= 0:
        rises = math.inf if mean_end > 0 else 0.0
        return Gain(start, end, rises, rises, rises)
    if mean_end <= 0:
        return Gain(start, end, -1.0, -1.0, -1.0)
    if float(a.min()) <= 0 or float(b.min()) <= 0 or error is None:
        return Gain(start, end, mean_end / mean_start - 1, None, None)
    step = float(np.log(b).mean() - np.log(a).mean())
    half = t_quantile(0.5 + confidence / 2, error.df) * error.sd * math.sqrt(1 / a.size + 1 / b.size)
    return Gain(start, end, math.expm1(step), math.expm1(step - half), math.expm1(step + half))


def _rises(g: Gain, least: float) -> bool:
    return g.gain >= least and (g.low is None or g.low > 0)


def _falls_from(
    known: Sequence[float],
    levels: Mapping[float, Sequence[float]],
    means: Sequence[float],
    error: Pooled | None,
    confidence: float,
    least: float,
) -> float | None:
    """First level after the best whose throughput is surely lower than the best, if all later ones are too."""
    best = int(np.argmax(means))
    later = list(range(best + 1, len(known)))
    if not later:
        return None
    each = 1 - (1 - confidence) / len(later)
    lower = []
    for j in later:
        g = _gain(known[best], known[j], levels, means[best], means[j], error, each)
        lower.append(g.gain <= -least and (g.high is None or g.high < 0))
    first = None
    for j, is_lower in zip(reversed(later), reversed(lower), strict=True):
        if not is_lower:
            break
        first = known[j]
    return first


def _verdict(
    known: Sequence[float],
    gains: list[list[Gain]],
    last: int | None,
    falls: float | None,
    every: tuple[Gain, ...],
    most_flat: float,
    has_error: bool,
) -> Bracket:
    verdict, count = SaturationVerdict, len(known)
    if last is not None and last >= count - 2 and falls is None:
        return Bracket(verdict.NOT_REACHED, known[-1], None, True, None, every, count, has_error=has_error)
    at = 0 if last is None else last + 1
    sure, doubt = _flat(gains[at], most_flat)
    if last is None and not sure and falls is None and has_error:
        reason = SaturationReason.RUNS_DIFFER
        return Bracket(verdict.CANNOT_SAY, None, None, False, None, every, count, reason, doubt)
    found = (
        verdict.RETROGRADE if falls is not None else verdict.AT_LOWEST if last is None else verdict.BRACKETED
    )
    lower = None if last is None else known[last]
    return Bracket(found, lower, known[at], sure, falls, every, count, None, doubt, has_error)


def _flat(row: Sequence[Gain], most_flat: float) -> tuple[bool, Doubt | None]:
    """Whether all gains from a level are surely small, and if not, what cannot be excluded."""
    tops = [(g.high if g.high is not None else g.gain, g) for g in row]
    if not tops:
        return True, None
    top, g = max(tops, key=lambda item: item[0])
    if top < most_flat and all(g.high is not None for g in row):
        return True, None
    if g.high is None or top < most_flat:
        return False, None
    return False, Doubt(top, g.end)
