"""Input and output of a history. Field names are the keys of `history --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plimsoll.compare.configuration import Difference
from plimsoll.compare.metrics import Better, ComparedMetric, Scale
from plimsoll.compare.model import Limits, Verdict


@dataclass(frozen=True, slots=True)
class Entry:
    """A results directory. `started`: ISO 8601; `valid`: of its `runs`. `mark`: why new levels begin with it,
    empty: they do not. `differences`: from the directory before it."""

    directory: str
    started: str
    runs: int
    valid: int
    mark: str = ""
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one cell: a value per directory, None: unknown. Of a ratio a geometric mean over the valid runs."""

    metric: ComparedMetric
    cell: Mapping[str, str]
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """The mean between two changes or marks. `first`, `last`: positions of directories; `points`: known values of
    them; `interval`: 95 %, None: the noise is unknown."""

    first: int
    last: int
    points: int
    mean: float
    interval: Limits | None


@dataclass(frozen=True, slots=True)
class Step:
    """A change that no mark explains. `first`: position of the first directory after it. `estimate`: the ratio after /
    before of the two levels, or the difference, with its 95 % interval; `p`: of the test of the split."""

    first: int
    estimate: float
    interval: Limits | None
    p: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class LatestPoint:
    """The newest value. `range`: in which it is expected by the other values of its level, None: unknown. `is_outside`:
    it is out of this range, and further from the level than the margin."""

    position: int
    value: float
    range: Limits | None
    is_outside: bool


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The history of one metric of one cell. `values`: one per directory. `lag1`: correlation of successive values
    about their levels, None: unknown."""

    metric: str
    cell: Mapping[str, str]
    better: Better
    scale: Scale
    margin: float
    values: tuple[float | None, ...]
    levels: tuple[Level, ...]
    steps: tuple[Step, ...]
    latest: LatestPoint
    lag1: float | None

    @property
    def newest_step(self) -> Step | None:
        """The change at which the newest level begins; None if it begins at a mark or with the history."""
        return next((step for step in self.steps if step.first == self.levels[-1].first), None)
