"""The steps after the measurement, shared by `run`, `show`, `analyse`, `report` and the URL mode."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.document import as_document
from plimsoll.assemble.run.profiles import profiles_of
from plimsoll.assemble.run_table import write_runs
from plimsoll.assemble.set_up import setup_of
from plimsoll.assemble.whole import analysis_of
from plimsoll.cli.screen import WIDTH_WITHOUT_TERMINAL, wants_colour
from plimsoll.collect.results import Results, open_results
from plimsoll.compare.model import Verdict
from plimsoll.compare.result import ComparisonResult
from plimsoll.drive.bringing_in import outstanding_runs
from plimsoll.drive.directory import write_json, write_text
from plimsoll.drive.experiment import Outcome
from plimsoll.errors import ExitCode
from plimsoll.printable import printable


def conclude(outcome: Outcome, *, quiet: bool, as_json: bool, files: bool = True) -> int:
    """Analyses, writes analysis.json and report.html, prints the summary; returns the exit code."""
    results = open_results(outcome.directory)
    if not quiet and len(results.runs) > 1:
        print(f"analysing {len(results.runs)} runs", file=sys.stderr)  # takes seconds for a long experiment
    analysis = analysis_of(results)
    written = write_files(results, analysis) if files else []
    if as_json:
        print_json(analysis)
    else:
        print_summary(analysis, written, failed_only=quiet)
    for line in outcome.stopped_early:
        print(printable(f"plimsoll: {line}"), file=sys.stderr)
    for line in next_commands(outcome, analysis) if files else ():
        print(printable(f"plimsoll: {line}"), file=sys.stderr)
    return exit_code(analysis, interrupted=outcome.interrupted, agents_lost=outcome.agents_lost)


def next_commands(outcome: Outcome, analysis: Analysis) -> list[str]:
    """Commands that complete runs which did not end as planned, or that repeat invalid ones."""
    lines = [
        f"run {run}: measurements of {', '.join(agents)} are missing; unless a Dask worker made them and has ended, "
        f"the hosts may still have them; fetch them with: plimsoll collect {outcome.directory}"
        for run, agents in outstanding_runs(outcome.directory).items()
        if agents
    ]
    if outcome.interrupted or outcome.stopped_early:
        lines.append(f"resume with: plimsoll run --resume {outcome.directory}")
    elif analysis.search is None and analysis.until is None:
        # If all runs are invalid, a repetition would not differ: the reasons in the answer say what to change.
        invalid = sum(not run.valid for run in analysis.runs)
        if 0 < invalid < len(analysis.runs):
            what = (
                "1 run is invalid; repeat it" if invalid == 1 else f"{invalid} runs are invalid; repeat them"
            )
            lines.append(f"{what} with: plimsoll run --resume {outcome.directory} --repeat-invalid")
    return lines


def write_files(results: Results, analysis: Analysis, *, all_bins: bool = False) -> list[Path]:
    """Writes analysis.json, report.html, runs.parquet and runs.csv; returns the paths of the first two. `all_bins`: the
    report merges no bins of time series."""
    from plimsoll.report.html import render

    document = results.path / "analysis.json"
    write_json(document, as_document(analysis))
    write_runs(results, analysis)
    page = results.path / "report.html"
    write_text(page, render(analysis, setup_of(results), profiles_of(results), all_bins=all_bins))
    return [page, document]


def print_json(analysis: Analysis) -> None:
    """Prints the analysis on stdout."""
    json.dump(as_document(analysis), sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_summary(analysis: Analysis, written: list[Path], *, failed_only: bool = False) -> None:
    """Prints the summary and the written files on stdout; `failed_only`: only the lines that explain the exit code."""
    from plimsoll.report.compare.comparison import comparison_lines, slower_lines
    from plimsoll.report.terminal import failed_lines, summary_lines

    width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
    files = [os.path.relpath(path) for path in written]
    colour = wants_colour(sys.stdout)
    lines = (
        failed_lines(analysis, width, colour)
        if failed_only
        else summary_lines(analysis, width, colour, files=files)
    )
    for line in lines:
        print(line)
    if isinstance(comparison := analysis.comparison, ComparisonResult):
        shown = slower_lines if failed_only else comparison_lines
        for line in (*([] if failed_only else [""]), *shown(comparison, width, colour)):
            print(line)


def _is_measured(analysis: Analysis) -> bool:
    """Whether each cell has a valid run, or each search an answer: its loads are cells, too, and some of them may
    have invalid trials only."""
    searched = [
        found for cell in (analysis.search.cells if analysis.search else ()) for found in cell.capacities
    ]
    if searched:
        return all(found.is_measured for found in searched)
    return bool(analysis.cells) and all(cell.valid > 0 for cell in analysis.cells)


def exit_code(analysis: Analysis, *, interrupted: bool = False, agents_lost: bool = False) -> int:
    """The first that applies: 130 (interrupted), 97 (a cell has no valid run, or a search no answer), 98, 99 (a
    threshold failed, or the new level of a pair is slower), 0."""
    if interrupted:
        return int(ExitCode.INTERRUPTED)
    if not _is_measured(analysis):
        return int(ExitCode.MEASUREMENT_INVALID)
    if agents_lost:
        return int(ExitCode.AGENTS_LOST)
    comparison = analysis.comparison
    is_slower = isinstance(comparison, ComparisonResult) and comparison.with_verdict(Verdict.SLOWER)
    if is_slower or any(not verdict.passed for verdict in analysis.verdicts):
        return int(ExitCode.THRESHOLD_FAILED)
    return int(ExitCode.PASSED)
