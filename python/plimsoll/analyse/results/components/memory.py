"""The growth of the memory of a service with the number of testers, a part of `analysis.json`. Sizes are in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from plimsoll.analyse.results.verdicts import RuleId
from plimsoll.analyse.stats.interval import Interval


class GrowthVerdict(StrEnum):
    """Verdicts on the growth of memory."""

    NONE = "not shown to grow"
    LINEAR = "grows in proportion"
    CURVED = "grows, but not in proportion"
    UNTESTED = "grows, the form was not tested"


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """The own memory (bytes) of a service in one run, and the number of testers of this run."""

    run: str
    testers: int
    memory: float


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Own memory of one service against the number of testers, over the valid runs of one combination of the other
    factors. `loads`: numbers of testers; `slope`: bytes per tester; `capacity`: bytes at which memory is full, and
    `of`: whether this is the limit of the service, or what its host has. `full_at`: number of testers at which it is
    full; None if this cannot be said: the growth is not shown to be linear, or the number is beyond `reach`, the
    greatest number to which the line is extended. Its interval assumes a line. `curved_low`, `curved_high`: the numbers
    between which memory is full with a quadratic term, as far as the runs do not exclude it; None: not up to
    `reach`."""

    component: str
    combination: dict[str, str]
    runs: int
    loads: tuple[int, ...]
    verdict: GrowthVerdict
    slope: Interval
    mean: float
    curvature_p: float | None
    """p-value of a quadratic term; None: too few runs or levels for it."""
    capacity: float | None
    of: Literal["", "limit", "host"]
    full_at: Interval | None
    reach: float
    curved_low: float | None = None
    curved_high: float | None = None
    rule: RuleId | None = None
    points: tuple[GrowthPoint, ...] = ()
    """The runs of the line. Runs in which memory was full, or nearly full, are left out."""
    intercept: float | None = None
    """Bytes at no tester, by the line."""
