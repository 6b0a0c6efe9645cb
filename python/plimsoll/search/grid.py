"""Loads of a search: a grid with even steps in the logarithm of the load.

With a grid, several goals and several directions measure the same loads, so their trials add up.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

STEPS_PER_WIDTH = 4
"""Grid steps in the width of the finest goal: the reported bracket is rounded outwards to the grid."""
MAX_LOADS = 20_000
ROUNDING = 0.012
"""Rounded loads may be farther apart than the grid by this share of the width: two widths of 5 % stay below 10 %."""


def step_of(width: float) -> float:
    """Distance in log load of two bounds with relative distance `width`, (upper - lower) / upper. A width of 1 has no
    finite distance and is taken as 99 %."""
    return -math.log1p(-min(width, 0.99))


@dataclass(frozen=True, slots=True)
class LoadGrid:
    """Ascending loads; the first and the last are the ends of the search."""

    loads: tuple[float, ...]

    @staticmethod
    def of(low: float, high: float, width: float, *, whole: bool = False) -> LoadGrid:
        """Grid from `low` to `high` with four steps in `width`. `whole`: whole numbers only, each at most once.

        Loads have as many digits as distinguish the steps, so files and messages contain them exactly. Raises
        ValueError if the ends are not 0 < low < high, or not whole where that is required.
        """
        if not 0 < low < high or not math.isfinite(high):
            raise ValueError(f"expected 0 < from < to, got {low:g} and {high:g}")
        if whole and (low != int(low) or high != int(high)):
            raise ValueError(f"expected whole numbers, got {low:g} and {high:g}")
        step = step_of(width) / STEPS_PER_WIDTH
        count = max(1, math.ceil(math.log(high / low) / step))
        if count > MAX_LOADS:
            raise ValueError(f"a width of {width:.3g} divides the range into more than {MAX_LOADS:,} loads")
        digits = 2 + math.ceil(-math.log10(step))
        inner = (_rounded(low * (high / low) ** (i / count), digits, whole) for i in range(1, count))
        return LoadGrid((low, *sorted({load for load in inner if low < load < high}), high))

    @property
    def low(self) -> float:
        return self.loads[0]

    @property
    def high(self) -> float:
        return self.loads[-1]

    def to(self, load: float) -> LoadGrid:
        """The loads up to `load`, included. At least the lowest load remains."""
        return LoadGrid(self.loads[: max(1, bisect_right(self.loads, load))])

    def between(self, low: float, high: float) -> tuple[float, ...]:
        """The loads from `low` to `high`, both included."""
        return self.loads[bisect_left(self.loads, low) : bisect_right(self.loads, high)]

    def at_most(self, load: float) -> float:
        """The highest load that is not above `load`; the lowest one if all are."""
        return self.loads[max(0, bisect_right(self.loads, load) - 1)]

    def at_least(self, load: float) -> float:
        """The lowest load that is not below `load`; the highest one if all are."""
        return self.loads[min(len(self.loads) - 1, bisect_left(self.loads, load))]

    def middle(self, low: float, high: float) -> float | None:
        """The load between two loads that is nearest to their middle in log load. None if there is none."""
        inner = self.loads[bisect_right(self.loads, low) : bisect_left(self.loads, high)]
        center = math.sqrt(low * high)
        return min(inner, key=lambda load: abs(math.log(load / center)), default=None)

    def is_narrow(self, low: float, high: float, log_width: float) -> bool:
        """Two bounds are close enough, or no load lies between them."""
        step = log_width * (1 + ROUNDING)
        return math.log(high / low) <= step or self.middle(low, high) is None

    def up(self, load: float, distance: float) -> float:
        """The load `distance` (in log load) above `load`, at least the next one if there is one."""
        following = self.loads[min(len(self.loads) - 1, bisect_right(self.loads, load))]
        return max(following, self.at_most(load * math.exp(distance) * (1 + 1e-12)))

    def down(self, load: float, distance: float) -> float:
        """The load `distance` (in log load) below `load`, at most the previous one if there is one."""
        previous = self.loads[max(0, bisect_left(self.loads, load) - 1)]
        return min(previous, self.at_least(load * math.exp(-distance) * (1 - 1e-12)))


def _rounded(load: float, digits: int, whole: bool) -> float:
    if whole:
        return float(round(load))
    return float(f"{load:.{digits}g}")
