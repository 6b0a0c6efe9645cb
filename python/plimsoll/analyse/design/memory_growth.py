"""The slope of a service's memory against the number of testers, and the number at which memory is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from plimsoll.analyse.components.memory import AVAILABLE, LIMIT
from plimsoll.analyse.design.across import Design, Group
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.components.memory import GrowthPoint, GrowthVerdict, MemoryGrowth
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import BottleneckReason
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.inverse import crossing
from plimsoll.analyse.stats.linear import Array, orthonormal
from plimsoll.analyse.stats.regression import LeastSquares, least_squares

MIN_LEVELS: Final = 3
MIN_GROWTH: Final = 0.05
"""Growth over the tried loads, as a share of the mean, below which nothing is stated: the answer would name it for
every service that allocates something."""
CURVED: Final = 0.05
"""p-value of a quadratic term below which the growth is not linear."""
REACH: Final = 10.0
"""A line is extended to at most this multiple of the highest load. What limits memory farther away, such as a table
that fills up, cannot be seen from here."""
ROUNDING: Final = 1e-6
"""A quadratic term below this share of the variation is a rounding error."""
GRID: Final = 2000
NEARLY_FULL: Final = 0.9
"""Runs above this share of the limit are left out: there, reclaim bends the line."""


@dataclass(frozen=True, slots=True)
class _Point:
    """One run. `capacity`: bytes at which memory is full; None: unknown."""

    run: str
    testers: int
    memory: float
    capacity: float | None
    of: Literal["", "limit", "host"]


def memory_growth(groups: Sequence[Group], design: Design) -> tuple[MemoryGrowth, ...]:
    """One entry for each service and combination with at least 3 different numbers of testers."""
    combinations: dict[tuple[tuple[str, str], ...], list[RunResult]] = {}
    for group in groups:
        rest = tuple(sorted(design.rest(group.cell).items()))
        combinations.setdefault(rest, []).extend(run for run in group.valid if run.open_load == "none")
    return tuple(
        growth
        for rest, runs in combinations.items()
        for name in dict.fromkeys(used.component for run in runs for used in run.utilization)
        if (growth := _growth(name, dict(rest), list(_points(name, runs)))) is not None
    )


def _points(name: str, runs: Sequence[RunResult]) -> Iterator[_Point]:
    for run in runs:
        used = next((u for u in run.utilization if u.component == name and u.role == "service"), None)
        memory = next((c.own_memory for c in run.components if c.component == name), None)
        why = run.bottleneck_why
        is_full = why is not None and why.code == BottleneckReason.MEMORY and run.bottleneck == name
        if used is None or memory is None or is_full or not run.testers:
            continue
        limit = used.detail.get(LIMIT)
        free = next(
            (u.detail.get(AVAILABLE) for u in run.utilization if u.role == "host" and u.host == used.host),
            None,
        )
        if limit is not None and memory >= NEARLY_FULL * limit:
            continue
        if limit is not None:
            yield _Point(run.id, len(run.testers), memory, limit, "limit")
        else:
            yield _Point(run.id, len(run.testers), memory, None if free is None else memory + free, "host")


def _growth(name: str, combination: dict[str, str], points: Sequence[_Point]) -> MemoryGrowth | None:
    loads = tuple(sorted({point.testers for point in points}))
    if len(loads) < MIN_LEVELS:
        return None
    x = np.array([point.testers for point in points], dtype=float)
    y = np.array([point.memory for point in points])
    line = _fit(x, y, 1)
    if line is None:
        return None
    slope = line.slope(0)
    curve = _fit(x, y, 2)
    p = None if curve is None else _curvature_p(curve, y)
    grows = slope.low > 0 and slope.value * (loads[-1] - loads[0]) >= MIN_GROWTH * float(y.mean())
    if not grows:
        verdict = GrowthVerdict.NONE
    elif p is None:
        verdict = GrowthVerdict.UNTESTED
    else:
        verdict = GrowthVerdict.CURVED if p < CURVED else GrowthVerdict.LINEAR
    known = [point.capacity for point in points if point.capacity is not None]
    capacity = float(np.mean(known)) if len(known) == len(points) else None
    reach = REACH * loads[-1]
    full_at = None
    ends: tuple[float | None, float | None] = (None, None)
    if verdict == GrowthVerdict.LINEAR and capacity is not None:
        full = crossing(x, y, capacity)
        if full is not None and full.high <= reach:
            full_at = Interval(full.value, full.low, full.high, df=x.size - 2, method="Fieller")
            ends = _curved_ends(x, y, capacity, reach)
    return MemoryGrowth(
        component=name,
        combination=combination,
        runs=len(points),
        loads=loads,
        verdict=verdict,
        slope=Interval(slope.value, slope.low, slope.high, df=line.residual_df, method="least squares"),
        mean=float(y.mean()),
        curvature_p=p,
        capacity=capacity,
        of=points[0].of if capacity is not None else "",
        full_at=full_at,
        reach=reach,
        curved_low=ends[0],
        curved_high=ends[1],
        rule=rule(RuleName.MEMORY_GROWTH),
        points=tuple(GrowthPoint(point.run, point.testers, point.memory) for point in points),
        intercept=float(y.mean() - slope.value * x.mean()),
    )


def _curvature_p(curve: LeastSquares, y: Array) -> float:
    """p-value of the quadratic term; 1 if it is a rounding error."""
    term = curve.slope(1)
    return 1.0 if abs(term.value) <= ROUNDING * float(np.ptp(y)) else term.p_value


def _curved_ends(x: Array, y: Array, capacity: float, reach: float) -> tuple[float | None, float | None]:
    """The first numbers of testers at which the upper and the lower end of the confidence band of a quadratic fit
    reach the capacity; None: not up to `reach`, or there is no such fit. The band is that of `LeastSquares.mean`, for
    all numbers at once."""
    if x.size < 4:
        return None, None
    loads = np.linspace(float(x.max()), reach, GRID)
    powers = np.vander(_scaled(x, x), 3)
    beta, _, rank, _ = np.linalg.lstsq(powers, y, rcond=None)
    if rank < 3:
        return None, None
    variance = float(np.sum((y - powers @ beta) ** 2)) / (x.size - 3)
    rows = np.vander(_scaled(loads, x), 3)
    spread = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(powers.T @ powers), rows)
    half = t_quantile(0.975, x.size - 3) * np.sqrt(variance * spread)
    mean = rows @ beta
    return _first(loads, mean + half, capacity), _first(loads, mean - half, capacity)


def _first(loads: Array, values: Array, level: float) -> float | None:
    """The first load at which values reach the level, between two of the grid; None: at none."""
    reached = np.flatnonzero(values >= level)
    if not reached.size:
        return None
    at = int(reached[0])
    if at == 0:
        return float(loads[0])
    share = (level - values[at - 1]) / (values[at] - values[at - 1])
    return float(loads[at - 1] + share * (loads[at] - loads[at - 1]))


def _scaled(values: Array, x: Array) -> Array:
    """In units of the range of `x`, from its mean, so that powers stay separate."""
    return np.asarray((values - float(x.mean())) / float(np.ptp(x)))


def _fit(x: Array, y: Array, degree: int) -> LeastSquares | None:
    """A polynomial, of `_scaled` numbers if it is no line; None if no degree of freedom is left."""
    z = _scaled(x, x) if degree > 1 else x
    predictors = np.stack([z**power for power in range(1, degree + 1)], axis=1)
    mean = np.full((x.size, 1), 1 / np.sqrt(x.size))
    cells = orthonormal((x[:, None] == np.unique(x)[None, :]).astype(float))
    return least_squares(y, predictors, mean, cells)
