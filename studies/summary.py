"""Summaries of studies: what a page in docs/studies needs of the results of one experiment, some kB of JSON.

`summarise` computes a summary from an analysis, without I/O. `load` and `save` are the stored form,
studies/FOLDER/results/NAME.json.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from plimsoll.analyse.design.caches import miss_ratios
from plimsoll.analyse.results.analysis import Analysis, CellResult, Consistency, RunResult
from plimsoll.analyse.results.metrics import canonical
from plimsoll.analyse.stats.interval import Interval
from plimsoll.errors import BadInput

FORMAT: Final = "plimsoll.study-summary/1"
ALWAYS: Final = ("throughput_per_s", "payload_bytes_per_s", "response_ms_mean", "response_ms_p95")
"""Figures that are stored of each cell, in addition to the responses of the file."""
MISS_OVER_HIT: Final = "miss_over_hit"
"""A figure of cells with enough hits and misses of a cache: mean response time of the misses over that of the hits."""
DIGITS: Final = 5
"""Significant digits of stored figures: more than any page shows."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a design over its valid runs.

    `figures`: mean, low and high (95 %; null without repetitions) by metric; times in ms, rates per second, sizes in
    bytes. `busy`: the least and the greatest utilization of each component in a run, as fractions of 1. `errors`: the
    error rate, a fraction; null without a valid run. `stages`: of a staged load, the mean over the runs by metric and
    name of the stage.
    """

    levels: dict[str, str]
    runs: int
    figures: dict[str, list[float | None]]
    errors: float | None = None
    bottleneck: str = ""
    busy: dict[str, list[float]] = field(default_factory=dict)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a page needs of one experiment.

    `started`: date of the first run. `services`: kind and version by name. `outside_cpu`: mean share of the host's
    processor time that processes outside the experiment used; null: not measured. `transcribed`: empty, or why the
    figures were typed instead of computed from a results directory. `count_difference`: the greatest difference between
    the requests that a service counted and those that its clients sent, as a share of the latter; null: no service
    counts them, or the summary is older than this field.
    """

    study: str
    question: str
    started: str
    version: str
    options: list[str]
    host: str
    services: dict[str, str]
    planned: int
    valid: int
    requests: int
    window_s: float
    repetitions: int
    outside_cpu: float | None
    answer: list[str]
    cells: list[Cell]
    transcribed: str = ""
    count_difference: float | None = None
    format: str = FORMAT


def summarise(study: str, analysis: Analysis, environment: Mapping[str, Any]) -> Summary:
    """The summary of an experiment: `environment` is its environment.json. Only valid runs count."""
    experiment = analysis.experiment
    valid = [run for run in analysis.runs if run.valid]
    outside = [most for run in valid if (most := _outside(run)) is not None]
    names = dict.fromkeys((*map(stored_name, experiment.responses), *ALWAYS))
    host, cpu = environment["host"], environment["cpu"]
    return Summary(
        study,
        experiment.question,
        str(experiment.started)[:10],
        environment["versions"]["plimsoll"],
        _options(environment["command_line"]),
        f"{cpu['cores']} cores ({cpu['model']}), {host['system']}, Linux {host['kernel']}",
        {one.name: f"{one.kind} {one.version or ''}".strip() for run in valid[:1] for one in run.services},
        experiment.planned_runs,
        len(valid),
        sum(run.traffic.transactions for run in valid),
        _digits(sum(run.traffic.window_s for run in valid) / len(valid)) if valid else 0.0,
        experiment.repetitions,
        _digits(sum(outside) / len(outside)) if outside else None,
        list(analysis.answer),
        _cells(analysis, tuple(names)),
        count_difference=max(
            (abs(tier.share) for run in valid for tier in run.tiers if tier.share is not None), default=None
        ),
    )


def _outside(run: RunResult) -> float | None:
    """The greatest share over the hosts; those of a testbed are one machine."""
    shares = [each.kernel.outside_cpu for each in run.components if each.kernel is not None]
    return max((share for share in shares if share is not None), default=None)


def _options(command_line: Sequence[str]) -> list[str]:
    """Values after `--set`, in their order."""
    return [value for option, value in itertools.pairwise(command_line) if option == "--set"]


def _cells(analysis: Analysis, names: Sequence[str]) -> list[Cell]:
    """The cells of the design. If versions are read, they have the figures of consistency, and each level of the first
    factor over its cells follows as a cell with this level alone."""
    runs = [[run for run in analysis.runs if run.valid and run.cell == cell.cell] for cell in analysis.cells]
    cells = [_cell(cell, own, names) for cell, own in zip(analysis.cells, runs, strict=True)]
    for cell, ratio in zip(cells, miss_ratios(runs), strict=True):
        if ratio is not None:
            cell.figures[MISS_OVER_HIT] = _ends(ratio)
    consistency = analysis.consistency
    if consistency is None:
        return cells
    for cell in cells:
        # Their interval of the share of stale answers also holds near 0 and 1, that of the response does not.
        for own in (one for one in consistency.cells if one.cell == cell.levels):
            cell.figures.update(_consistency(own))
    if consistency.factor is None or len(consistency.levels) == len(cells):
        return cells
    return [*cells, *(Cell(level.cell, level.runs, _consistency(level)) for level in consistency.levels)]


def _cell(cell: CellResult, runs: Sequence[RunResult], names: Sequence[str]) -> Cell:
    """A cell with its valid runs."""
    busy: dict[str, list[float]] = {}
    for used in (used for run in runs for used in run.utilization):
        busy.setdefault(used.component, []).append(used.mean)
    found = {stored_name(name): interval for name, interval in cell.responses.items()}
    figures = {name: _ends(found[name]) for name in names if name in found}
    shown = {name: [_digits(min(shares)), _digits(max(shares))] for name, shares in busy.items()}
    errors = None if cell.error_rate is None else _digits(cell.error_rate)
    return Cell(cell.cell, cell.valid, figures, errors, cell.bottleneck, shown, _stages(runs))


def _stages(runs: Sequence[RunResult]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for stage in (stage for run in runs for stage in run.stages):
        means = {
            "throughput_per_s": stage.traffic.throughput_per_s,
            "response_ms_mean": stage.traffic.response_ms.mean,
        }
        for metric, mean in means.items():
            if mean is not None:
                found.setdefault(metric, {}).setdefault(stage.name, []).append(mean)
    return {
        metric: {name: _digits(sum(each) / len(each)) for name, each in by_stage.items()}
        for metric, by_stage in found.items()
    }


def stored_name(response: str) -> str:
    """The name of the figure of a response, whose file may use another name of the metric. Of a ratio of two metrics,
    `NAME = A / B`, it is NAME."""
    return (canonical(response) or response).partition(" = ")[0]


def _consistency(read: Consistency) -> dict[str, list[float | None]]:
    """What readers received, over one cell or one level; ages in ms."""
    figures = {
        name: _ends(interval)
        for name, interval in (("stale_share", read.stale_share), ("relative_reads", read.relative_reads))
        if interval is not None
    }
    single = {
        "stale_age_ms_p95": read.stale_age_ms_p95,
        "origin_share": read.fetches_per_answer,
        "needless_share": read.needless_share,
    }
    return figures | {
        name: [_digits(value), None, None] for name, value in single.items() if value is not None
    }


def _ends(interval: Interval) -> list[float | None]:
    return [None if each is None else _digits(each) for each in (interval.mean, interval.low, interval.high)]


def _digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def load(path: Path) -> Summary:
    """Reads a summary. Raises BadInput if it has another format."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    if tree.get("format") != FORMAT:
        raise BadInput(f"{path}: expected the format {FORMAT}, got {tree.get('format')!r}")
    return Summary(**{**tree, "cells": [Cell(**cell) for cell in tree["cells"]]})


def save(summary: Summary, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(asdict(summary), indent=1, ensure_ascii=False)
    # One line for each innermost list or mapping: a changed figure is one changed line.
    short = re.sub(r"([\[{])\s+([^\[\]{}]*?)\s+([\]}])", _joined, lines)
    path.write_text(short + "\n", encoding="utf-8")


def _joined(found: re.Match[str]) -> str:
    inner = re.sub(r"\n\s+", " ", found[2])
    whole = f"{found[1]}{inner}{found[3]}"
    return whole if len(whole) <= 110 else found[0]


def read_folder(folder: Path) -> dict[str, Summary]:
    """The summaries of a folder of studies, by name."""
    return {path.stem: load(path) for path in sorted((folder / "results").glob("*.json"))}
