"""Simulated histories with known truth: correlated log-normal values of all default metrics that are ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tests.stats.within_run import autoregressive

from plimsoll.compare.history.levels import histories
from plimsoll.compare.history.model import MetricHistory, Series
from plimsoll.compare.metrics import Scale
from plimsoll.compare.sides import metric_names

METRICS = [metric for metric in metric_names(["web"]) if metric.scale is Scale.RATIO]
COMMON = 0.7
"""Correlation of the metrics of a directory: what makes a night slow affects all of them."""
NO_MARGIN = 1e-9


@dataclass(frozen=True)
class Truth:
    """`lag1`: correlation of successive directories; `spread`: standard deviation of the logarithm of a directory;
    `step`: share by which all metrics are higher in the last `after` directories."""

    directories: int
    lag1: float = 0.0
    metrics: int = len(METRICS)
    spread: float = 0.02
    step: float = 0.0
    after: int = 0

    @property
    def first(self) -> int:
        """Position of the first directory after the step."""
        return self.directories - self.after


def simulated(
    truth: Truth, count: int, margin: float = 0.03, seed: int = 7
) -> Iterator[tuple[MetricHistory, ...]]:
    """Histories of a truth."""
    rng = np.random.default_rng(seed)
    scale = truth.spread * math.sqrt(1 - truth.lag1**2)
    for _ in range(count):
        own = autoregressive(rng, truth.metrics, truth.directories, truth.lag1)
        common = autoregressive(rng, 1, truth.directories, truth.lag1)
        logs = scale * (math.sqrt(COMMON) * common + math.sqrt(1 - COMMON) * own)
        logs[:, truth.first :] += math.log1p(truth.step)
        rows = np.exp(logs)
        yield histories(
            [Series(metric, {}, tuple(row)) for metric, row in zip(METRICS, rows, strict=False)], (), margin
        )


def false_changes(truth: Truth, count: int) -> int:
    """Number of histories without a change in which any metric has one, however small."""
    return sum(any(one.steps for one in found) for found in simulated(truth, count, NO_MARGIN))


def found_changes(truth: Truth, count: int) -> list[float]:
    """Of each history, the share of the metrics whose step is found, at most two directories from its place."""
    return [
        sum(any(abs(step.first - truth.first) <= 2 for step in one.steps) for one in found) / len(found)
        for found in simulated(truth, count)
    ]
