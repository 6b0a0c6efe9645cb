"""The numbers of the charts over the runs: those of `charts:` in the experiment file, main effects and interactions.

A part of the machine-readable result (`results`). Values are in the unit of the metric in results; the numbers of a
factor are in seconds, bytes, per second, or without unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plimsoll.analyse.stats.interval import Interval

ChartKind = Literal["file", "main effect", "interaction"]
ChartAxis = Literal["number", "level", "metric"]
ChartMean = Literal["arithmetic", "geometric"]


@dataclass(frozen=True, slots=True)
class ChartRun:
    """A valid run: `x` is its number on the axis, None if the axis has levels."""

    run: str
    x: float | None
    y: float


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """The mean of one cell, or of several cells that share `levels`."""

    levels: dict[str, str]
    x: float | None
    """The number of the level, or the mean of the metric; None if the axis has levels."""
    x_interval: Interval | None
    """Only if the axis has a metric."""
    y: Interval
    cells: int
    runs: tuple[ChartRun, ...]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """The points of one metric that share `levels`, in the order of the x axis (a metric: of the load)."""

    metric: str
    levels: dict[str, str]
    points: tuple[ChartPoint, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. `x`: a factor, or the name of a metric in results; `y`: names of metrics that have a value."""

    kind: ChartKind
    x: str
    x_is: ChartAxis
    x_levels: tuple[str, ...]
    """The levels on the axis, in the order of the file; empty if the axis has a metric."""
    x_unit: str
    """Unit of the numbers of a factor: s, B, 1/s, or empty."""
    y: tuple[str, ...]
    by: tuple[str, ...]
    """Factors whose levels have a colour each."""
    over: tuple[str, ...]
    """Factors over whose levels the points are means."""
    is_comparable: bool
    """Whether all points of a metric are means over the same combinations of the factors `over`."""
    mean: ChartMean
    """Mean over the cells of a point: geometric for the main effects and interactions of a response with `scale: log`.
    """
    lines: tuple[ChartLine, ...]
