"""What makes the intervals of a comparison doubtful: runs that depend on each other, and runs that are too short."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

from plimsoll.compare.estimates import pair_differences
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Sample, SerialDependence, ShortRuns

MAX_LAG1: Final = 0.3
MIN_RESIDUALS: Final = 10
"""With fewer values, the correlation of independent runs exceeds MAX_LAG1 too often."""
MIN_RELAXATION_TIMES: Final = 500


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What the length of a run is judged by: its window, throughput, and the utilization of its busiest service."""

    side: str
    cell: Mapping[str, str]
    window_s: float
    throughput_per_s: float
    service: str
    utilization: float


def serial_dependence(samples: Sequence[Sample]) -> list[SerialDependence]:
    """The metrics whose residuals are correlated with those of the run before: about the mean of their cell and side,
    or of pairs about their mean difference. Runs of all cells are in one order, because what drifts, such as a
    temperature, affects all cells."""
    by_metric: dict[str, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric.metric, []).append(sample)
    out = []
    for metric, of_metric in by_metric.items():
        residuals = [row for at, sample in enumerate(of_metric) for row in _residuals_of(sample, at)]
        lag1 = lag1_of(residuals)
        if lag1 is not None and lag1 > MAX_LAG1:
            out.append(SerialDependence(metric, lag1, len(residuals)))
    return out


def lag1_of(residuals: Sequence[tuple[int, int, float]]) -> float | None:
    """The lag-1 correlation of residuals (sequence, order, value), without pairs across sequences. None if there are
    too few, or if all are equal."""
    ordered = sorted(residuals)
    square = math.fsum(value * value for _, _, value in ordered)
    if len(ordered) < MIN_RESIDUALS or square == 0:
        return None
    pairs = pairwise(ordered)
    return math.fsum(a[2] * b[2] for a, b in pairs if a[0] == b[0]) / square


def _residuals_of(sample: Sample, number: int) -> list[tuple[int, int, float]]:
    """The residuals of both sides, or of the pairs; `number`: of the sample, whose pairs are a sequence."""
    if (is_ratio := sample.metric.scale is Scale.RATIO) and any(
        run.value is not None and run.value <= 0 for run in (*sample.old, *sample.new)
    ):
        return []
    if differences := pair_differences(sample):
        return _residuals([(number, order, value) for order, value in enumerate(differences)])
    known = [
        [
            (run.sequence, run.order, math.log(run.value) if is_ratio else run.value)
            for run in side
            if run.value is not None
        ]
        for side in (sample.old, sample.new)
    ]
    return [row for side in known for row in _residuals(side)]


def _residuals(values: Sequence[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    if len(values) < 2:
        return []
    mean = fmean(value for _, _, value in values)
    return [(sequence, order, value - mean) for sequence, order, value in values]


def short_runs(runs: Sequence[MeasuredRun]) -> list[ShortRuns]:
    """The cells of a side whose mean run is shorter than 500 relaxation times."""
    by_cell: dict[tuple[str, tuple[tuple[str, str], ...]], list[MeasuredRun]] = {}
    for run in runs:
        by_cell.setdefault((run.side, tuple(run.cell.items())), []).append(run)
    out = []
    for of_cell in by_cell.values():
        first = of_cell[0]
        busy = fmean(run.utilization for run in of_cell)
        relaxation = relaxation_s(busy, fmean(run.throughput_per_s for run in of_cell))
        window = fmean(run.window_s for run in of_cell)
        if relaxation is not None and window < MIN_RELAXATION_TIMES * relaxation:
            out.append(ShortRuns(first.side, first.cell, first.service, busy, window, relaxation))
    return out


def relaxation_s(utilization: float, throughput_per_s: float) -> float | None:
    """The time in which an M/M/1 queue forgets its state, D / (1 - sqrt(u))^2, u the utilization. The service time D is
    u / X by the utilization law (Jain 33.2). None at a utilization of 0 or of at least 1, where no such time exists."""
    if not 0 < utilization < 1 or throughput_per_s <= 0:
        return None
    return utilization / throughput_per_s / (1 - math.sqrt(utilization)) ** 2
