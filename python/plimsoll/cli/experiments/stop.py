"""`plimsoll stop DIR|--all`: stop a running experiment cleanly, as Ctrl-C in its terminal does."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from plimsoll.drive.registry import running_experiments
from plimsoll.errors import BadInput, ExitCode, PlimsollError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directory, or --all."""
    selection = parser.add_mutually_exclusive_group(required=True)
    selection.add_argument("directory", nargs="?", type=Path, help="results directory of the experiment")
    selection.add_argument(
        "--all", action="store_true", help="stop every experiment of this user on this host"
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="maximum time to wait for the end (default: 60)",
    )


def main(args: argparse.Namespace) -> int:
    """Sends the signal, then waits until the experiments and what was started for them have ended."""
    experiments = [
        experiment
        for experiment in running_experiments()
        if args.all or experiment.directory == args.directory.resolve()
    ]
    if not experiments:
        if args.all:
            print("no experiment of yours runs on this host")
            return int(ExitCode.PASSED)
        raise BadInput(
            f"{args.directory}: no running experiment of yours uses this directory; plimsoll status lists them"
        )
    for experiment in experiments:
        experiment.stop()
    deadline = time.monotonic() + args.wait
    while alive := [experiment for experiment in experiments if not experiment.has_ended()]:
        if time.monotonic() > deadline:
            names = ", ".join(f"{experiment.directory} (pid {experiment.pid})" for experiment in alive)
            raise PlimsollError(
                f"still running after {args.wait:g} s: {names}; wait longer with --wait, or kill the process"
            )
        time.sleep(0.1)
    for experiment in experiments:
        print(f"stopped {experiment.directory}")
    return int(ExitCode.PASSED)
