"""Plimsoll from a script or a notebook: plan and run experiments, read results as data frames, analyse, report.

Everything in `__all__` is public and stable; everything else may change. Paths may be strings. Every function raises
`plimsoll.errors.PlimsollError`: BadInput if an experiment file or an argument is invalid, DamagedResults if a
directory is not a results directory or cannot be read. Functions that return a data frame need pandas.

    from plimsoll import api

    table = api.runs("results/latest")
    table.groupby("testers")["throughput_per_s"].mean()
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.run.profiles import profiles_of
from plimsoll.assemble.run_table import columns_of, write_runs
from plimsoll.assemble.set_up import setup_of, topology_of
from plimsoll.assemble.whole import analysis_of
from plimsoll.collect.check import check as check_results
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.results import open_results as _open_results
from plimsoll.collect.run_table import as_table
from plimsoll.compare.result import ComparisonResult
from plimsoll.drive.directory import write_json, write_text
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.plan import Plan, load_experiment, make_plan

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Options",
    "analysis",
    "cells",
    "check",
    "document",
    "figures",
    "open_results",
    "plan",
    "report",
    "run",
    "runs",
    "samples",
    "summary",
    "transactions",
]


def plan(file: str | Path, sets: Sequence[str] = (), *, seed: int | None = None) -> Plan:
    """Returns the runs of an experiment file in their order. Starts nothing.

    `sets`: changes of the file, as "path=value"; `seed`: used if the design of the file has none
    (None: random). Raises BadInput.
    """
    return make_plan(load_experiment(Path(file), list(sets)), secrets.randbits(32) if seed is None else seed)


def run(file: str | Path, sets: Sequence[str] = (), *, out: str | Path = "results") -> Path:
    """Runs an experiment file and returns its results directory, a new one below `out`.

    Call it from the main thread only. It also writes analysis.json, report.html and the table of
    runs. Testers and services run in separate processes; the targets are not probed before. Raises
    BadInput, ServiceError, EngineError.
    """
    from plimsoll.assemble.adaptive.run_source import run_source
    from plimsoll.drive.scripted import run_experiment

    outcome = run_experiment(file, sets=sets, out=out, source=run_source)
    report(outcome.directory)
    return outcome.directory


def open_results(directory: str | Path) -> Results:
    """Opens a results directory: `plan`, `environment`, and `runs`, each with its files. Raises
    DamagedResults."""
    return _open_results(Path(directory))


def analysis(directory: str | Path, options: Options | None = None) -> Analysis:
    """Computes the whole analysis from the files: `answer`, `runs`, `cells`, `saturation`,
    `effects`, `verdicts`.

    Names of fields end with their unit (`_ms`, `_per_s`, `_s`); a field without one is a count or a
    fraction of 1. None means that the value cannot be determined. `options`: another warm-up (s),
    quantum (s), or quantiles from histograms. Raises DamagedResults.
    """
    return analysis_of(open_results(directory), options)


def document(found: Analysis) -> dict[str, Any]:
    """Returns the analysis as plain data, in the form of analysis.json."""
    return as_document(found)


def summary(found: Analysis, width: int = 80) -> str:
    """Returns the output of `plimsoll show` without colours, at most `width` columns wide (at least 40)."""
    from plimsoll.report.compare.comparison import comparison_lines
    from plimsoll.report.terminal import summary_lines

    lines = summary_lines(found, width)
    if isinstance(found.comparison, ComparisonResult):
        lines += ["", *comparison_lines(found.comparison, width)]
    return "\n".join(lines)


def runs(directory: str | Path) -> pd.DataFrame:
    """Returns a row per run: levels (numbers as numbers), covariates, validity, and all responses (docs/results.md).

    The names of columns end with the unit: times are in ms, rates per second. Levels are in s, bytes, per second, or
    fractions of 1. Raises DamagedResults.
    """
    results = open_results(directory)
    return _frame(as_table(columns_of(results, analysis_of(results))))


def cells(directory: str | Path, response: str = "throughput_per_s") -> pd.DataFrame:
    """Returns a row per cell of the design: its levels, `runs`, `valid`, and `mean`, `low`, `high` (95 %) of a
    response.

    The unit is that in the name of the response. NaN means that the value cannot be determined, such as the interval of
    one repetition. Raises BadInput if there is no such response.
    """
    import pyarrow as pa

    result = analysis(directory)
    known = dict.fromkeys(name for cell in result.cells for name in cell.responses)
    if known and response not in known:
        raise BadInput(f"no cell has the response {response!r}: expected one of {', '.join(known)}")
    intervals = [cell.responses.get(response) for cell in result.cells]
    columns = {
        **{
            name: pa.array([cell.cell.get(name) for cell in result.cells])
            for name in result.experiment.factors
        },
        "runs": pa.array([cell.repetitions for cell in result.cells]),
        "valid": pa.array([cell.valid for cell in result.cells]),
        **{
            name: pa.array(
                [None if interval is None else getattr(interval, name) for interval in intervals],
                pa.float64(),
            )
            for name in ("mean", "low", "high")
        },
    }
    return _frame(pa.table(columns))


def transactions(directory: str | Path, run: str | int = 1) -> pd.DataFrame:
    """Returns a row per transaction of a run, including warm-up and drain; columns as in docs/results.md.

    `run`: its id ("0001") or its number. Times are in ns: `start` from the zero of the run, all
    others from `start`, so the response time is `end - scheduled`. Raises BadInput if there is no
    such run, DamagedResults if single transactions were not kept.
    """
    return _parquet(_run(directory, run), "transactions.parquet")


def samples(directory: str | Path, run: str | int = 1) -> pd.DataFrame:
    """Returns the samples of host, services and testers, one per second: `t` (ns from the zero of the run),
    `component`, `metric`, `part`, `value`; units as in docs/results.md. `run` and errors: as in `transactions`."""
    return _parquet(_run(directory, run), "samples.parquet")


def report(directory: str | Path) -> Path:
    """Writes report.html, analysis.json and the table of runs into the directory; returns the path of the report."""
    from plimsoll.report.html import render

    results = open_results(directory)
    result = analysis_of(results)
    write_json(results.path / "analysis.json", as_document(result))
    write_runs(results, result)
    page = results.path / "report.html"
    write_text(page, render(result, setup_of(results), profiles_of(results)))
    return page


def figures(directory: str | Path, out: str | Path, form: str = "svg") -> list[Path]:
    """Writes every chart of the report into the directory `out`, as `form` svg, png or pdf; returns their paths."""
    from plimsoll.report.figures import write_figures

    if form not in ("svg", "png", "pdf"):
        raise BadInput(f"unknown format of figures {form!r}: expected svg, png or pdf")
    results = open_results(directory)
    return write_figures(analysis_of(results), Path(out), form, topology_of(results), profiles_of(results))


def check(directory: str | Path) -> list[str]:
    """Returns the problems of a results directory, one string each; an empty list if it is complete and its counts
    agree. Raises DamagedResults."""
    findings = check_results(open_results(directory))
    return [f"run {finding.run}: {finding.what}" if finding.run else finding.what for finding in findings]


def _run(directory: str | Path, run: str | int) -> RunFiles:
    name = f"{run:04d}" if isinstance(run, int) else run
    results = open_results(directory)
    for run_files in results.runs:
        if run_files.id == name:
            return run_files
    known = ", ".join(run_files.id for run_files in results.runs) or "none"
    raise BadInput(f"{results.path} has no run {name}: its runs are {known}")


def _parquet(run: RunFiles, name: str) -> pd.DataFrame:
    path = run.path / name
    if not path.exists():
        raise DamagedResults(
            f"run {run.id} has no {name}: single transactions were not kept, or the run measured nothing"
        )
    return _frame(pq.read_table(path))


def _frame(table: Any) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = table.to_pandas()
    except ImportError as error:
        raise BadInput("data frames need pandas: pip install pandas") from error
    return frame
