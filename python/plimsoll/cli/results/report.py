"""`plimsoll report DIR`: write the report, or its charts."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.assemble.run.component_series import chart_quantum
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.run.profiles import profiles_of
from plimsoll.assemble.set_up import topology_of
from plimsoll.assemble.whole import analysis_of
from plimsoll.cli.results.outcome import write_files
from plimsoll.collect.results import open_results
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directory and the format of the charts."""
    parser.add_argument("directory", type=Path, help="results directory")
    parser.add_argument(
        "--quantum",
        metavar="TIME",
        help="bin width of time charts, such as 10s (default: by the length of the run)",
    )
    parser.add_argument(
        "--figures",
        choices=("svg", "png", "pdf"),
        help="write every chart as a file in this format, instead of the report",
    )
    parser.add_argument(
        "--out", type=Path, help="with --figures: directory for the charts (default: DIR/figures)"
    )


def main(args: argparse.Namespace) -> int:
    """Writes the files and prints their paths."""
    results = open_results(args.directory)
    quantum = None if args.quantum is None else chart_quantum(args.quantum, results)
    analysis = analysis_of(results, Options(chart_quantum_s=quantum))
    if args.figures:
        from plimsoll.report.figures import write_figures

        written = write_figures(
            analysis,
            args.out or args.directory / "figures",
            args.figures,
            topology_of(results),
            profiles_of(results),
        )
    else:
        written = write_files(results, analysis, all_bins=quantum is not None)
    for path in written:
        print(path)
    return int(ExitCode.PASSED)
