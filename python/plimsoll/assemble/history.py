"""The history of one experiment over its results directories, and the file of its marked changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from plimsoll.assemble.compare import require_same_experiment, setup_differences
from plimsoll.assemble.sources import directory_source
from plimsoll.collect.results import Results, open_results
from plimsoll.compare.configuration import with_accepted
from plimsoll.compare.history.levels import histories
from plimsoll.compare.history.marks import Mark, placed
from plimsoll.compare.history.model import Entry, Series
from plimsoll.compare.history.result import HistoryResult
from plimsoll.compare.metrics import ComparedMetric, Scale
from plimsoll.compare.sides import Cell, ComparedRun, cell_key, metric_names
from plimsoll.errors import BadInput, Problem
from plimsoll.plan.source.document import Document, parse_document

MIN_DIRECTORIES: Final = 2
VERSION_KEY: Final = "plimsoll-history"
VERSION: Final = 1


def history_of(
    directories: Sequence[Path],
    margin: float,
    marks: Sequence[Mark] = (),
    accept: Sequence[str] = (),
    metrics: Sequence[str] = (),
) -> HistoryResult:
    """The history of the experiment in these directories, in the order of their start. A directory that is given twice
    counts once. `metrics`: names of those that are wanted, none: all. Raises BadInput and DamagedResults."""
    places = {path.resolve(): path for path in directories}
    opened = sorted(map(_opened, places.values()), key=_started)
    if len(opened) < MIN_DIRECTORIES:
        raise BadInput("a history needs at least two results directories: plimsoll history DIR DIR...")
    sources = list(map(directory_source, opened))
    setups = [source.setup for source in sources]
    for other in setups[1:]:
        require_same_experiment(setups[0], other)
    started = list(map(_started, opened))
    marked = placed(marks, [results.path.resolve().name for results in opened], started)
    entries = [
        Entry(setup.name, since, setup.finished, 0, marked.get(at, ""))
        for at, (setup, since) in enumerate(zip(setups, started, strict=True))
    ]
    for at, (before, after) in enumerate(pairwise(setups), start=1):
        found = with_accepted(setup_differences(before, after), accept)
        if entries[at].mark:
            # The mark explains them: the levels before and after it are not compared.
            found = [replace(one, is_accepted=one.is_gate) for one in found]
        entries[at] = replace(entries[at], differences=tuple(found))
    result = HistoryResult(setups[0].experiment, margin, True, tuple(entries), ())
    if result.gates:
        return replace(result, is_comparable=False)
    runs = [[run for run in source.read() if run.is_valid] for source in sources]
    entries = [replace(entry, valid=len(valid)) for entry, valid in zip(entries, runs, strict=True)]
    series = _chosen(list(_series(runs)), metrics)
    return replace(result, directories=tuple(entries), metrics=histories(series, marked, margin))


def read_marks(path: Path) -> tuple[Mark, ...]:
    """The marked changes of a file such as history.yaml. Raises BadInput."""
    try:
        document = parse_document(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    data = document.data
    if not isinstance(data, Mapping) or data.get(VERSION_KEY) != VERSION:
        raise _bad(document, (), f'expected the line "{VERSION_KEY}: {VERSION}"')
    unknown = [key for key in data if key not in (VERSION_KEY, "marks")]
    if unknown:
        raise _bad(document, (unknown[0],), "unknown key; expected marks")
    marks = data.get("marks", [])
    if not isinstance(marks, list):
        raise _bad(document, ("marks",), "expected a list of {since: ..., why: ...}")
    return tuple(_mark(document, at, entry) for at, entry in enumerate(marks))


def _mark(document: Document, at: int, entry: Any) -> Mark:
    if (
        not isinstance(entry, Mapping)
        or set(entry) != {"since", "why"}
        or not all(isinstance(value, str) and value for value in entry.values())
    ):
        raise _bad(
            document,
            ("marks", at),
            "expected {since: DATE or DIRECTORY, why: TEXT}, such as since: 2026-11-03",
        )
    return Mark(entry["since"], entry["why"])


def _bad(document: Document, path: tuple[str | int, ...], message: str) -> BadInput:
    file, line = document.place(path)
    return BadInput([Problem(message, ".".join(map(str, path)), file, line)])


def _opened(path: Path) -> Results:
    """Raises BadInput and DamagedResults."""
    if path.is_file():
        raise BadInput(
            f"{path} is a file; a history needs results directories. Baselines and files of other tools can be "
            f"compared: plimsoll compare {path} NEW"
        )
    return open_results(path)


def _started(results: Results) -> str:
    return str(results.environment.get("started", ""))


def _series(runs: Sequence[Sequence[ComparedRun]]) -> Iterator[Series]:
    """A series for each cell and metric; `runs`: the valid ones of each directory."""
    by_cell: dict[Cell, list[list[ComparedRun]]] = {}
    for at, of_directory in enumerate(runs):
        for run in of_directory:
            by_cell.setdefault(cell_key(run.cell), [[] for _ in runs])[at].append(run)
    for cell, of_cell in by_cell.items():
        services = dict.fromkeys(name for valid in of_cell for run in valid for name in run.services)
        for metric in metric_names(list(services)):
            yield Series(metric, dict(cell), tuple(_point(valid, metric) for valid in of_cell))


def _chosen(series: Sequence[Series], names: Sequence[str]) -> Sequence[Series]:
    """The series of the metrics with these names; all if there are none. Raises BadInput."""
    measured = list(dict.fromkeys(_short(one.metric) for one in series))
    for name in names:
        if name not in measured:
            raise BadInput(
                f'--metric: no metric "{name}" in this history; its metrics: {", ".join(measured)}'
            )
    return [one for one in series if not names or _short(one.metric) in names]


def _short(metric: ComparedMetric) -> str:
    """The name of the metric, without the formula of a ratio of two metrics."""
    return metric.metric.partition(" =")[0]


def _point(runs: Sequence[ComparedRun], metric: ComparedMetric) -> float | None:
    """The mean of the runs of a directory. None if a run has no value: the others are not a random choice."""
    values = [run.values.get(metric.metric) for run in runs]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    if metric.scale is Scale.DIFFERENCE or min(known) <= 0:
        return fmean(known)
    return math.exp(fmean(map(math.log, known)))
