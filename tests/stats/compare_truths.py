"""Simulated comparisons with known truth: correlated log-normal runs of all default metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plimsoll.compare.metrics import COMPARED, SERVICE, Better, ComparedMetric, Scale
from plimsoll.compare.model import Comparison, RunValue, Sample
from plimsoll.compare.verdicts import compare

SPREADS: Mapping[str, float] = {
    "throughput": 0.01,
    "response_p50": 0.02,
    "response_p95": 0.04,
    "response_p99": 0.08,
    "cpu_per_transaction.web": 0.02,
    "memory.web": 0.01,
    "memory_peak.web": 0.03,
}
OTHER_SPREAD = 0.002
TRIALS, ERROR_RATE = 5000, 0.001
METRICS = tuple(metric.of_service("web") if SERVICE in metric.metric else metric for metric in COMPARED)


@dataclass(frozen=True)
class Truth:
    """Two systems. `slowdown`: the new one is worse by this share in every metric (of `only`, if there are any), in
    errors by `more_errors`. `spread`: standard deviation of the logarithm of a run, of all metrics (None: SPREADS).
    `blocks`: standard deviation of what the runs of a block have in common; 0: no blocks. `control`: a further run of
    the old system in each block; `order`: share by which the later run of a pair is worse."""

    runs: int
    cells: int = 1
    slowdown: float = 0.0
    more_errors: float = 0.0
    spread: float | None = None
    correlation: float = 0.7
    blocks: float = 0.0
    control: bool = False
    order: float = 0.0
    only: Sequence[str] = field(default=())

    def shift(self, metric: ComparedMetric) -> float:
        """The true logarithm of new / old, or the true difference."""
        if self.only and metric.metric not in self.only:
            return 0.0
        if metric.scale is Scale.DIFFERENCE:
            return self.more_errors
        sign = -1 if metric.better is Better.HIGHER else 1
        return sign * math.log1p(self.slowdown)


def simulated(rng: np.random.Generator, truth: Truth, margin: float = 0.03) -> tuple[Comparison, ...]:
    """One comparison of all metrics and cells."""
    samples = []
    for cell in range(truth.cells):
        common = rng.normal(0, truth.blocks, truth.runs)
        # What makes a run fast or slow affects all its metrics: the correlation has the sign of the better direction.
        shared = rng.normal(0, 1, (2 + truth.control, truth.runs))
        for metric in METRICS:
            noise = math.sqrt(truth.correlation) * shared
            noise = noise + math.sqrt(1 - truth.correlation) * rng.normal(0, 1, noise.shape)
            values = _values(rng, truth, metric, noise, common)
            old, new, *equal = (_side(truth, number, values[number]) for number in range(len(values)))
            control = Sample(metric, {"cell": str(cell)}, old, equal[0], same_blocks=True) if equal else None
            sides = (old, new)
            samples.append(
                Sample(metric, {"cell": str(cell)}, *sides, same_blocks=truth.blocks > 0, control=control)
            )
    return compare(samples, margin)


def _side(truth: Truth, number: int, values: np.ndarray) -> tuple[RunValue, ...]:
    """The runs of a side. In blocks, the old one is first in every second block, and the control is last."""
    if not truth.blocks:
        return tuple(RunValue(float(value), number, at, None, TRIALS) for at, value in enumerate(values))
    place = [2 if number == 2 else (number + at) % 2 for at in range(truth.runs)]
    return tuple(
        RunValue(float(value), 0, 3 * at + place[at], f"block {at}", TRIALS)
        for at, value in enumerate(values)
    )


def _values(
    rng: np.random.Generator, truth: Truth, metric: ComparedMetric, noise: np.ndarray, common: np.ndarray
) -> np.ndarray:
    """The values of the runs of each side: old, new, and the control."""
    shift = truth.shift(metric)
    shifts = np.array([0.0, shift, 0.0])[: len(noise), None]
    if metric.scale is Scale.DIFFERENCE:
        rates = ERROR_RATE + shifts
        return rng.binomial(TRIALS, np.broadcast_to(rates, noise.shape)) / TRIALS
    sign = -1 if metric.better is Better.HIGHER else 1
    spread = SPREADS.get(metric.metric, OTHER_SPREAD) if truth.spread is None else truth.spread
    later = np.array([[(number + at) % 2 for at in range(truth.runs)] for number in range(len(noise))])
    worse = spread * noise + common + math.log1p(truth.order) * later
    values: np.ndarray = np.exp(3 + sign * worse + shifts)
    return values
