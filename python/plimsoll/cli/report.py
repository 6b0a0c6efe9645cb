"""`plimsoll report DIR`: write the report, or its figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.assemble.analysis import analysis_of
from plimsoll.cli.outcome import write_files
from plimsoll.collect.results import open_results
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A directory; a form of figures."""
    parser.add_argument("directory", type=Path, help="results directory")
    parser.add_argument(
        "--figures", choices=("svg", "png", "pdf"), help="write every chart as a file of this form"
    )
    parser.add_argument("--out", type=Path, help="directory of the figures (default: DIR/figures)")


def main(args: argparse.Namespace) -> int:
    """Writes and says where."""
    results = open_results(args.directory)
    found = analysis_of(results)
    if args.figures:
        from plimsoll.report.figures import write_figures

        written = write_figures(found, args.out or args.directory / "figures", args.figures)
    else:
        written = write_files(results, found)
    for path in written:
        print(path)
    return int(ExitCode.PASSED)
