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
    """The missing runs: `, run 0007 is missing`; empty if no run is missing."""
    missing_runs = [finding.run for finding in findings if finding.missing]
    if not missing_runs:
        return ""
    more = len(missing_runs) - MAX_NAMED
    shown = [*missing_runs[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])]
    single = len(missing_runs) == 1
    return f", {'run' if single else 'runs'} {', '.join(shown)} {'is' if single else 'are'} missing"


def main(args: argparse.Namespace) -> int:
    """Prints the problems; returns 1 if there are any."""
    results = open_results(args.directory)
    findings = list(check(results))
    for finding in findings:
        print(f"{'run ' + finding.run if finding.run else 'directory'}: {finding.what}")
    runs = f"{len(results.runs)} of {results.planned} runs{_missing(findings)}"
    print(
        f"{args.directory}: {runs}, {len(findings)} {'problem' if len(findings) == 1 else 'problems'}"
        if findings
        else f"{args.directory}: {runs}, no problems"
    )
    return int(ExitCode.ERROR if findings else ExitCode.PASSED)
