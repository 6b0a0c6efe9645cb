"""The levels that may have the highest throughput, and whether they are flat enough to be averaged.

The highest of several means is biased upwards: of levels with equal true throughput, the one whose runs deviate most
upwards is the highest. If the levels are shown to be flat, their mean has no such bias. Levels that are shown to have
less than the highest one are excluded: those below the knee, and those beyond the peak of a retrograde curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plimsoll.analyse.design.capacity.saturation import Bracket
from plimsoll.analyse.stats.ladder import Ladder
from plimsoll.analyse.stats.means import PooledError

FURTHER_GAIN = math.log(1.05)
"""No level of a plateau is more than 5 % above their mean."""
RIVAL_TAIL = 0.05
GAIN_TAIL = 0.05


@dataclass(frozen=True, slots=True)
class HighestLevels:
    """`flat`: the levels of the plateau, ascending; empty: no plateau is shown. `rivals`: number of levels that are not
    shown to have less throughput than the highest one, itself included; 0: not known, because there is no error."""

    flat: tuple[float, ...]
    rivals: int


def highest(
    levels: Mapping[float, Sequence[float]], error: PooledError | None, bracket: Bracket
) -> HighestLevels:
    """The highest levels of one combination. `levels`, `error`: as in `saturation`, whose bracket is `bracket`.

    The plateau consists of the rivals from the load on from which throughput is flat, below the load from which it
    falls. It is shown if the highest level is among them and the upper 95 % bound of its gain over their mean is below
    FURTHER_GAIN. Either all of them are averaged or none: leaving out those far from the highest one would introduce
    its bias again.
    """
    alive = {load: values for load, values in levels.items() if load > 0 and values and max(values) > 0}
    if error is None or any(min(values) <= 0 for values in alive.values()) or not alive:
        return HighestLevels((), 0)
    ladder = Ladder.of(alive, error)
    best = int(ladder.means.argmax())
    rivals = [at for at in range(len(ladder)) if at == best or not _has_less(ladder, at, best)]
    flat = [at for at in rivals if _is_flat(bracket, ladder.loads[at])]
    if best not in flat or len(flat) < 2 or _gain_bound(ladder, best, flat) >= FURTHER_GAIN:
        flat = []
    return HighestLevels(tuple(ladder.loads[at] for at in flat), len(rivals))


def _has_less(ladder: Ladder, at: int, best: int) -> bool:
    return ladder.rise(at, best) > ladder.half_width(at, best, RIVAL_TAIL / (len(ladder) - 1))


def _is_flat(bracket: Bracket, load: float) -> bool:
    below = bracket.falls_from is None or load < bracket.falls_from
    return bracket.upper is not None and load >= bracket.upper and below


def _gain_bound(ladder: Ladder, best: int, flat: Sequence[int]) -> float:
    """Upper bound of the log gain of the highest level over the mean of the plateau."""
    weights = {at: (at == best) - 1 / len(flat) for at in flat}
    rise = sum(weight * float(ladder.means[at]) for at, weight in weights.items())
    return rise + ladder.half_width_of(weights, GAIN_TAIL)
