"""Intervals of means over several cells contain the truth in 95 % of designs, with and without effects of blocks.

The design is a 2 x 3 with one run of each cell in each block. A run is the truth of its cell times the effect of its
block times its own error; both are log-normal. The truth of a point is the mean of the true means of its cells.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.unit.analyse.made import run

from plimsoll.analyse.design.across import Design, cell_results, grouped
from plimsoll.analyse.design.charts import ChartData, charts_of
from plimsoll.analyse.effects.effects import Scale
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.stats.proportion import clopper_pearson

DESIGNS = 300
LEVELS = {"a": ["1", "2"], "b": ["x", "y", "z"]}
TRUTH = {cell: 100.0 * (1 + at) for at, cell in enumerate(product(*LEVELS.values()))}
ERROR = 0.05
"""Standard deviation of the logarithm of a run about its cell and block."""


def runs_of(rng: np.random.Generator, repetitions: int, of_blocks: float, missing: int) -> list[RunResult]:
    """The valid runs of a design. `missing`: how many runs are left out, at random."""
    blocks = rng.normal(0, of_blocks, repetitions)
    out: list[RunResult] = []
    for block, shift in enumerate(blocks):
        for cell, truth in TRUTH.items():
            value = truth * math.exp(shift + rng.normal(0, ERROR))
            levels = dict(zip(LEVELS, cell, strict=True))
            made = run(f"{len(out) + 1:04}", cell=levels, throughput=value, response_ms=[value])
            out.append(replace(made, block=f"block {block}"))
    left_out = set(rng.choice(len(out), missing, replace=False))
    return [one for at, one in enumerate(out) if at not in left_out]


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "scale", "repetitions", "of_blocks", "missing"),
    [
        ("throughput", "linear", 3, 0.15, 0),
        ("response_mean", "linear", 6, 0.05, 0),
        ("throughput", "log", 3, 0.0, 0),
        ("throughput", "log", 3, 0.05, 0),
        ("throughput", "linear", 6, 0.0, 0),
        ("throughput", "log", 6, 0.05, 0),
        ("throughput", "log", 6, 0.15, 0),
        ("throughput", "linear", 6, 0.05, 3),
        ("response_mean", "log", 3, 0.0, 0),
        ("response_mean", "log", 3, 0.15, 0),
        ("response_mean", "linear", 6, 0.15, 3),
    ],
)
def test_coverage_of_main_effects(
    metric: str, scale: Scale, repetitions: int, of_blocks: float, missing: int
) -> None:
    """The error of a throughput is pooled over the design, that of a response time is the cell's own."""
    rng = np.random.default_rng(7)
    held, points = 0, 0
    bias = math.exp((ERROR**2 + of_blocks**2) / 2)
    for _ in range(DESIGNS):
        runs = runs_of(rng, repetitions, of_blocks, missing)
        design = Design(LEVELS, None, {})
        data = ChartData(cell_results(grouped(runs, {}, design), design), runs, design)
        charts = charts_of(data, (), [(metric, scale)])
        chart = next(one for one in charts if one.kind == "main effect" and one.x == "a")
        for level, point in zip(LEVELS["a"], chart.lines[0].points, strict=True):
            truths = [truth for cell, truth in TRUTH.items() if cell[0] == level]
            truth = np.exp(np.mean(np.log(truths))) if scale == "log" else np.mean(truths) * bias
            assert point.y.low is not None and point.y.high is not None
            held += bool(point.y.low <= truth <= point.y.high)
            points += 1
    high = clopper_pearson(held, points)[1]
    assert high >= 0.94, f"{held / points:.3f}"
