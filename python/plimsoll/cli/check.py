"""`plimsoll check DIR`: verify a results directory."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.collect.check import check
from plimsoll.collect.results import open_results
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A directory."""
    parser.add_argument("directory", type=Path, help="results directory")


def main(args: argparse.Namespace) -> int:
    """Prints what is wrong; 1 if anything is."""
    results = open_results(args.directory)
    findings = list(check(results))
    for one in findings:
        print(f"{'run ' + one.run if one.run else 'directory'}: {one.what}")
    runs = f"{len(results.runs)} of {results.planned} runs"
    print(
        f"{args.directory}: {runs}, {len(findings)} problems"
        if findings
        else f"{args.directory}: {runs}, all good"
    )
    return int(ExitCode.ERROR if findings else ExitCode.PASSED)
