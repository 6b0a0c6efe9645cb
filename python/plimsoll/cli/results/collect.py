"""`plimsoll collect DIR`: fetch the measurements that lost agents kept on their hosts."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed.inside import run_on_lab
from plimsoll.drive.bringing_in import fetch_outstanding, outstanding_runs
from plimsoll.drive.resume import resumed_plan
from plimsoll.errors import ExitCode
from plimsoll.plan.model.cell import hosts_to_reach


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the results directory and its secrets."""
    parser.add_argument("directory", type=Path, help="results directory")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="repeat a --set option of the original command that contained a secret",
    )


def main(args: argparse.Namespace) -> int:
    """Fetches the measurements; returns 98 if some are still missing."""
    plan, directory = resumed_plan(args.directory, args.set)
    if not outstanding_runs(directory.path):
        print(f"{args.directory}: no measurements are missing")
        return int(ExitCode.PASSED)
    if (code := run_on_lab(hosts_to_reach(run.config for run in plan.runs), args.words)) is not None:
        return code
    missing = False
    for run in fetch_outstanding(plan, directory.path, find_engine()):
        held = "no transactions" if run.transactions is None else f"{run.transactions:,} transactions"
        print(f"run {run.run}: {held} in the results")
        for line in run.missing:
            print(f"run {run.run}: not fetched: {line}")
        missing |= bool(run.missing)
    print(f"update the report with: plimsoll analyse {args.directory}")
    return int(ExitCode.AGENTS_LOST if missing else ExitCode.PASSED)
