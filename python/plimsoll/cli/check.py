"""`plimsoll check DIR`: verify a results directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from plimsoll.collect.check import Finding, check
from plimsoll.collect.results import open_results
from plimsoll.errors import ExitCode

MAX_NAMED = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directory."""
    parser.add_argument("directory", type=Path, help="results directory")


def _missing(findings: Sequence[Finding]) -> str:
    """`, run 0007 is missing`."""
    gone = [one.run for one in findings if one.missing]
    if not gone:
        return ""
    shown = gone if len(gone) <= MAX_NAMED else [*gone[:MAX_NAMED], f"{len(gone) - MAX_NAMED} more"]
    return f", {'run' if len(gone) == 1 else 'runs'} {', '.join(shown)} {'is' if len(gone) == 1 else 'are'} missing"


def main(args: argparse.Namespace) -> int:
    """Prints the problems; returns 1 if there are any."""
    results = open_results(args.directory)
    findings = list(check(results))
    for one in findings:
        print(f"{'run ' + one.run if one.run else 'directory'}: {one.what}")
    runs = f"{len(results.runs)} of {results.planned} runs{_missing(findings)}"
    print(
        f"{args.directory}: {runs}, {len(findings)} {'problem' if len(findings) == 1 else 'problems'}"
        if findings
        else f"{args.directory}: {runs}, no problems"
    )
    return int(ExitCode.ERROR if findings else ExitCode.PASSED)
