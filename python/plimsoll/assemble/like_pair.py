"""The smallest change that a paired design can show, from the scatter of earlier results (`plan --like DIR`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from plimsoll.analyse.design.repetitions.power import PairPower, change_shown_by_pairs
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.stats.means import pooled_error
from plimsoll.assemble.whole import analysis_of
from plimsoll.collect.results import open_results
from plimsoll.compare.metrics import COMPARED, DEFAULT_MARGIN, SERVICE, Scale
from plimsoll.plan.plan import Plan

METRICS: Final = tuple(
    one.metric
    for one in COMPARED
    if one.scale is Scale.RATIO and SERVICE not in one.metric and " " not in one.metric
)
"""Throughput and response times."""


def pair_like(plan: Plan, directory: Path) -> list[PairPower]:
    """What the pairs of the plan can show of each metric; empty without a pair, or if no cell of the earlier results
    has two valid runs. Raises PlimsollError."""
    pair = plan.experiment.design.pair
    if pair is None:
        return []
    runs = [run for run in analysis_of(open_results(directory)).runs if run.valid]
    pairs, comparisons = plan.experiment.design.repetitions, _comparisons(plan)
    found = []
    for metric in METRICS:
        spread = _spread_of_pairs(runs, metric, pair.factor, (pair.old, pair.new)) or _spread_of_runs(
            runs, metric
        )
        if spread is not None:
            sd, df = spread
            change = change_shown_by_pairs(sd, pairs, DEFAULT_MARGIN, comparisons)
            found.append(PairPower(metric, sd, df, pairs, change))
    return found


def _comparisons(plan: Plan) -> int:
    """The number of comparisons that the plan will make: metrics, and metrics of each service, in each cell."""
    configs = [cell.config for cell in plan.experiment.cells]
    services = {service.name for config in configs for service in config.services if service.starts_process}
    of_service = sum(SERVICE in one.metric for one in COMPARED)
    return (len(COMPARED) - of_service + of_service * len(services)) * max(1, len(configs) // 2)


def _spread_of_pairs(
    runs: Sequence[RunResult], metric: str, factor: str, levels: tuple[str, str]
) -> tuple[float, float] | None:
    """Standard deviation of the logarithm of new / old in a block, with its degrees of freedom; None without two blocks
    that have both levels in a cell."""
    blocks: dict[tuple[tuple[str, str], ...], dict[str, dict[str, float]]] = {}
    for run in runs:
        value, level = metric_value(run, metric), run.cell.get(factor, "")
        if value is not None and value > 0 and run.block is not None and level in levels:
            rest = tuple(sorted((name, label) for name, label in run.cell.items() if name != factor))
            blocks.setdefault(rest, {}).setdefault(run.block, {})[level] = math.log(value)
    old, new = levels
    return _pooled(
        [of_block[new] - of_block[old] for of_block in of_cell.values() if len(of_block) == 2]
        for of_cell in blocks.values()
    )


def _spread_of_runs(runs: Sequence[RunResult], metric: str) -> tuple[float, float] | None:
    """That of two independent runs of a cell; None without two runs of a cell."""
    cells: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for run in runs:
        value = metric_value(run, metric)
        if value is not None and value > 0:
            cells.setdefault(tuple(sorted(run.cell.items())), []).append(math.log(value))
    spread = _pooled(cells.values())
    return None if spread is None else (math.sqrt(2) * spread[0], spread[1])


def _pooled(cells: Iterable[Sequence[float]]) -> tuple[float, float] | None:
    error = pooled_error([np.array(cell) for cell in cells if cell])
    return None if error is None else (error.sd, error.df)
