"""`plimsoll collect DIR`: bring in what agents on other hosts have kept of runs that ended without them."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed.inside import on_lab
from plimsoll.drive.bringing_in import bring_in, outstanding
from plimsoll.drive.resume import resumed_plan
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A results directory."""
    parser.add_argument("directory", type=Path, help="a results directory")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="a secret that the experiment was given by --set",
    )


def main(args: argparse.Namespace) -> int:
    """98 where something is still missing."""
    plan, directory = resumed_plan(args.directory, args.set)
    if not outstanding(directory.path):
        print(f"{args.directory}: nothing is outstanding")
        return int(ExitCode.PASSED)
    if (code := on_lab([run.config.hosts for run in plan.runs], args.words)) is not None:
        return code
    missing = False
    for run in bring_in(plan, directory.path, find_engine()):
        held = "nothing" if run.transactions is None else f"{run.transactions:,} transactions"
        print(f"run {run.run}: its books hold {held}")
        for line in run.missing:
            print(f"run {run.run}: not brought in: {line}")
        missing |= bool(run.missing)
    print(f"compute the results anew with: plimsoll analyse {args.directory}")
    return int(ExitCode.AGENTS_LOST if missing else ExitCode.PASSED)
