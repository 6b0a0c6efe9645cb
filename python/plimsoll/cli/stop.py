"""`plimsoll stop DIR|--all`: stop a running experiment cleanly, as Ctrl-C in its terminal does."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from plimsoll.drive.registry import running
from plimsoll.errors import BadInput, ExitCode, PlimsollError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directory, or --all."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("directory", nargs="?", type=Path, help="results directory of the experiment")
    which.add_argument("--all", action="store_true", help="stop every experiment of this user on this host")
    parser.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="maximum time to wait for the end (default: 60)",
    )


def main(args: argparse.Namespace) -> int:
    """Sends the signal, then waits until the experiments and what was started for them have ended."""
    wanted = [one for one in running() if args.all or one.directory == args.directory.resolve()]
    if not wanted:
        if args.all:
            print("no experiment of yours runs on this host")
            return int(ExitCode.PASSED)
        raise BadInput(
            f"{args.directory}: no running experiment of yours uses this directory; plimsoll status lists them"
        )
    for one in wanted:
        one.stop()
    deadline = time.monotonic() + args.wait
    while alive := [one for one in wanted if not one.over()]:
        if time.monotonic() > deadline:
            names = ", ".join(f"{one.directory} (pid {one.pid})" for one in alive)
            raise PlimsollError(
                f"still running after {args.wait:g} s: {names}; wait longer with --wait, or kill the process"
            )
        time.sleep(0.1)
    for one in wanted:
        print(f"stopped {one.directory}")
    return int(ExitCode.PASSED)
