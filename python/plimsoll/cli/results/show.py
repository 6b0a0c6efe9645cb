"""`plimsoll show DIR`: print the summary of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.assemble.whole import analysis
from plimsoll.cli.results.outcome import exit_code, print_json, print_summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directory."""
    parser.add_argument("directory", type=Path, help="results directory")
    parser.add_argument("--json", action="store_true", help="print the analysis as JSON")


def main(args: argparse.Namespace) -> int:
    """Computes the summary again from the files and prints it; the exit code is that of `run`."""
    result = analysis(args.directory)
    if args.json:
        print_json(result)
    else:
        print_summary(result, [])
    return exit_code(result)
