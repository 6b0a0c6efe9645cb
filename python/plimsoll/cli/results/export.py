"""`plimsoll export DIR --to csv|hlog|runs`: transactions for any tool, HdrHistogram logs, the table of runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.assemble.run_table import write_runs
from plimsoll.assemble.whole import analysis_of
from plimsoll.collect.export import export_csv, export_hlog
from plimsoll.collect.results import open_results
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directory, the format and the output."""
    parser.add_argument("directory", type=Path, help="results directory")
    parser.add_argument(
        "--to",
        choices=("csv", "hlog", "runs"),
        required=True,
        help="csv: transactions, one file per run; hlog: HdrHistogram log per run; runs: table with one row per run",
    )
    parser.add_argument("--out", type=Path, help="output directory (default: DIR/export)")


def main(args: argparse.Namespace) -> int:
    """Writes the files and prints their paths."""
    results = open_results(args.directory)
    out = args.out or args.directory / "export"
    if args.to == "runs":
        written = write_runs(results, analysis_of(results), out)
    else:
        written = (export_csv if args.to == "csv" else export_hlog)(results, out)
    for path in written:
        print(path)
    if not written:
        print(f"{args.directory}: no run has data to export yet")
    return int(ExitCode.PASSED)
