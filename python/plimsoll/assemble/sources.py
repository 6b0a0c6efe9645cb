"""The sets of runs that a user can name in a comparison: results directories, baselines, and files of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from plimsoll.assemble.analysis import analyse_results
from plimsoll.assemble.compared_runs import compared_runs, directory_setup
from plimsoll.assemble.run.options import Options
from plimsoll.collect.files import read_json
from plimsoll.collect.results import Results, open_results
from plimsoll.compare.sides import ComparedRun, Setup
from plimsoll.compare.stored import parsed_baseline
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.foreign.model import QUANTILES, ForeignRun
from plimsoll.foreign.table import HEAD_LENGTH, Format, format_of, titles

BASELINE: Final = "plimsoll.compared-runs"


@dataclass(frozen=True)
class Source:
    """A set of runs. `read`: returns the runs. Analysing those of a directory takes time, so the setups are compared
    before."""

    setup: Setup
    read: Callable[[], tuple[ComparedRun, ...]]


def sources_of(paths: Sequence[Path]) -> list[Source]:
    """The sets of runs of one side, in order. Raises BadInput and DamagedResults."""
    return [source for path in paths for source in _sources(path)]


def _sources(path: Path) -> Iterator[Source]:
    if not path.exists():
        raise BadInput(f"{path} does not exist")
    if path.is_dir():
        yield directory_source(open_results(path))
    elif BASELINE in _head(path):
        yield from baseline_sources(path)
    else:
        yield _imported(path)


def directory_source(results: Results) -> Source:
    """The runs of a results directory, without the controls of a paired design."""
    return Source(directory_setup(results), lambda: compared_runs(analyse_results(results, Options()).runs))


def baseline_sources(path: Path) -> list[Source]:
    """The sets of runs of a stored baseline. Raises BadInput and DamagedResults."""
    stored = parsed_baseline(read_json(path, BASELINE), str(path))
    if not stored.sources:
        raise BadInput(f"{path}: the baseline contains no runs")
    return [_stored(path, each.setup, each.runs) for each in stored.sources]


def _stored(path: Path, setup: Setup, runs: tuple[ComparedRun, ...]) -> Source:
    return Source(replace(setup, name=str(path)), lambda: runs)


def _imported(path: Path) -> Source:
    """One run of another tool. Raises BadInput and DamagedResults."""
    found = format_of(_head(path))
    if found is None:
        raise BadInput(
            f"{path}: its format is not known; expected a results directory, a baseline of --save-baseline, or one of: "
            f"{titles()}"
        )
    run = _parsed(path, found)
    values = {
        "throughput": run.throughput,
        "errors": run.errors / run.requests if run.errors is not None and run.requests else None,
        **{name: run.times_ms.get(name) for name in QUANTILES},
    }
    compared = ComparedRun(
        cell={},
        order=0,
        block=None,
        is_valid=True,
        values=values,
        trials={"errors": float(run.requests)} if run.requests else {},
    )
    setup = Setup(str(path), "", 1, 1, (), {"format": found.title}, found.contents)
    return Source(setup, lambda: (compared,))


def _parsed(path: Path, found: Format) -> ForeignRun:
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
            if found.parse_text is not None:
                return found.parse_text(file.read(), str(path))
            assert found.parse_lines is not None
            return found.parse_lines(
                ((at, line.rstrip("\r\n")) for at, line in enumerate(file, start=1)), str(path)
            )
    except OSError as error:
        raise DamagedResults(f"{path} cannot be read: {error.strerror or error}") from error


def _head(path: Path) -> str:
    """The beginning of a file."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return file.read(HEAD_LENGTH)
    except OSError as error:
        raise DamagedResults(f"{path} cannot be read: {error.strerror or error}") from error
