"""`plimsoll export DIR --to csv|hlog`: transactions for any tool, histograms for those that read HdrHistogram logs."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.collect.export import export_csv, export_hlog
from plimsoll.collect.results import open_results
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A directory, a form, and where to."""
    parser.add_argument("directory", type=Path, help="results directory")
    parser.add_argument("--to", choices=("csv", "hlog"), required=True, help="one file per run of this form")
    parser.add_argument("--out", type=Path, help="directory to write to (default: DIR/export)")


def main(args: argparse.Namespace) -> int:
    """Writes one file per run and says where."""
    results = open_results(args.directory)
    out = args.out or args.directory / "export"
    write = export_csv if args.to == "csv" else export_hlog
    written = write(results, out)
    for path in written:
        print(path)
    if not written:
        print(f"{args.directory}: no run has anything to export yet")
    return int(ExitCode.PASSED)
