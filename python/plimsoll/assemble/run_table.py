"""The table of runs of a results directory: runs.parquet and runs.csv."""

from __future__ import annotations

from pathlib import Path

from plimsoll.analyse.design.run_table import run_columns
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.assemble.facts import ENDED_AS_PLANNED
from plimsoll.collect.results import Results
from plimsoll.collect.run_table import RunColumn, write_run_table


def columns_of(results: Results, analysis: Analysis) -> list[RunColumn]:
    """A row for each run that was carried out, in the order of the plan, without those of the control of a paired
    design: to an analysis they would be further repetitions of the old level."""
    factors = {factor["name"]: factor["levels"] for factor in results.plan["factors"]}
    records = [
        {**run.record, "status": ENDED_AS_PLANNED.get(run.record["status"], "failed")}
        for run in results.runs
        if run.id not in results.controls
    ]
    wanted = analysis.experiment.responses
    return run_columns(factors, records, {run.id: run for run in analysis.runs}, wanted)


def write_runs(results: Results, analysis: Analysis, directory: Path | None = None) -> list[Path]:
    """Writes both files, into the results directory if no other is given. Raises PlimsollError."""
    return write_run_table(columns_of(results, analysis), directory or results.path)
