"""What a comparison knows of its two sides: the runs with their values, and how each set of runs was measured.

A results directory, a stored baseline and an imported file all become a `Setup` and its `ComparedRun`s, so one path
leads from there to the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll.compare.controls import drifts
from plimsoll.compare.metrics import COMPARED, GENERATOR, SERVICE, Better, ComparedMetric
from plimsoll.compare.model import Drift, RunValue, Sample
from plimsoll.compare.remarks import MeasuredRun
from plimsoll.compare.result import SideSummary

Cell = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class QueueLength:
    """What the length of a run of an open load is judged by: its window, throughput, and its busiest service."""

    window_s: float
    throughput_per_s: float
    service: str
    utilization: float


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run. `values`: by names of metrics, with services filled in (None: unknown); `trials`: number of transactions
    of the metrics that are shares of them; `queue`: None unless the load is open and a service was measured."""

    cell: dict[str, str]
    order: int
    block: str | None
    is_valid: bool
    values: dict[str, float | None]
    trials: dict[str, float] = field(default_factory=dict)
    services: tuple[str, ...] = ()
    queue: QueueLength | None = None


@dataclass(frozen=True, slots=True)
class CellConfiguration:
    """The effective configuration of one cell."""

    cell: dict[str, str]
    configuration: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Setup:
    """How one set of runs was measured. `name`: directory or file; `experiment`: empty for results of another tool;
    `planned`, `finished`: numbers of runs; `circumstances`: design, hosts and versions, in the sections that
    `configuration` distinguishes; `imported`: for results of another tool, the format and what it contains."""

    name: str
    experiment: str
    planned: int
    finished: int
    configurations: tuple[CellConfiguration, ...]
    circumstances: dict[str, Any]
    imported: str = ""


Runs = Sequence[tuple[int, ComparedRun]]
"""Runs, each with the number of its sequence (directory or file) over both sides."""


@dataclass(frozen=True)
class Side:
    """The runs of one side."""

    name: str
    planned: int
    runs: Runs
    imported: tuple[str, ...] = ()

    @property
    def cells(self) -> dict[Cell, list[tuple[int, ComparedRun]]]:
        """The valid runs by cell."""
        out: dict[Cell, list[tuple[int, ComparedRun]]] = {}
        for sequence, run in self.runs:
            if run.is_valid:
                out.setdefault(cell_key(run.cell), []).append((sequence, run))
        return out

    @property
    def summary(self) -> SideSummary:
        """Its numbers of runs."""
        invalid = sum(not run.is_valid for _, run in self.runs)
        return SideSummary(self.name, len(self.runs), invalid, self.planned - len(self.runs), self.imported)

    @property
    def has_repetitions(self) -> bool:
        """Whether a cell was measured twice."""
        return len(self.measured) < len(self.runs)

    @property
    def measured(self) -> set[Cell]:
        """The cells with a run, valid or not."""
        return {cell_key(run.cell) for _, run in self.runs}


def cell_key(cell: Mapping[str, str]) -> Cell:
    """The cell as a key, independent of the order of the factors."""
    return tuple(sorted(cell.items()))


def samples_of(
    cell: Cell, old: Runs, new: Runs, equal: tuple[Runs, Runs] | None, *, same_blocks: bool
) -> Iterator[Sample]:
    """The runs of each metric that both sides of a cell have, in the order of COMPARED. `equal`: runs of two equal
    systems."""
    services = [list(dict.fromkeys(name for _, run in side for name in run.services)) for side in (old, new)]
    for metric in metric_names([name for name in services[0] if name in services[1]]):
        if _is_known(metric, old, new):
            control = None if equal is None else _sample(metric, cell, *equal, same_blocks=True)
            yield _sample(metric, cell, old, new, control, same_blocks=same_blocks)


def drifts_of(
    cell: Cell, old: Runs, new: Runs, named: Sequence[str], margin: float, *, same_blocks: bool
) -> list[Drift]:
    """The metrics of a cell that the change cannot affect: the costs of the load generator, and those that the
    experiment names."""
    own = [ComparedMetric(name, Better.LOWER) for name in named]
    generator, others = (
        [
            _sample(metric, cell, old, new, same_blocks=same_blocks)
            for metric in metrics
            if _is_known(metric, old, new)
        ]
        for metrics in (GENERATOR, own)
    )
    return drifts(generator, others, margin)


def queues_of(cells: Sequence[Cell], runs: Mapping[Cell, Runs], side: str) -> Iterator[MeasuredRun]:
    """The runs whose length can be judged."""
    for cell in cells:
        for _, run in runs[cell]:
            if (queue := run.queue) is not None:
                yield MeasuredRun(
                    side, dict(cell), queue.window_s, queue.throughput_per_s, queue.service, queue.utilization
                )


def metric_names(services: Sequence[str]) -> Iterator[ComparedMetric]:
    """The rows of COMPARED, those of services once for each service."""
    for declared in COMPARED:
        if SERVICE in declared.metric:
            yield from (declared.of_service(name) for name in services)
        else:
            yield declared


def _is_known(metric: ComparedMetric, old: Runs, new: Runs) -> bool:
    """Whether both sides contain the metric, with a value or without."""
    return all(any(metric.metric in run.values for _, run in side) for side in (old, new))


def _sample(
    metric: ComparedMetric,
    cell: Cell,
    old: Runs,
    new: Runs,
    control: Sample | None = None,
    *,
    same_blocks: bool,
) -> Sample:
    before, after = (tuple(_value(run, sequence, metric) for sequence, run in side) for side in (old, new))
    return Sample(metric, dict(cell), before, after, same_blocks, control)


def _value(run: ComparedRun, sequence: int, metric: ComparedMetric) -> RunValue:
    name = metric.metric
    return RunValue(run.values.get(name), sequence, run.order, run.block, run.trials.get(name))
