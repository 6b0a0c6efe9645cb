"""`plimsoll stop DIR|--all`: end a running experiment cleanly, as Ctrl-C at its terminal would."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from plimsoll.drive.registry import running
from plimsoll.errors import BadInput, ExitCode, PlimsollError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A directory, or all."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("directory", nargs="?", type=Path, help="results directory of the experiment")
    which.add_argument("--all", action="store_true", help="every experiment of this user on this host")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="how long to wait for the end (60)"
    )


def main(args: argparse.Namespace) -> int:
    """Signals, then waits until they are gone, and what was brought up for them."""
    wanted = [one for one in running() if args.all or one.directory == args.directory.resolve()]
    if not wanted:
        if args.all:
            print("nothing runs on this host")
            return int(ExitCode.PASSED)
        raise BadInput(
            f"{args.directory}: no experiment of yours runs there on this host (see plimsoll status)"
        )
    for one in wanted:
        one.stop()
    deadline = time.monotonic() + args.wait
    while alive := [one for one in wanted if not one.over()]:
        if time.monotonic() > deadline:
            names = ", ".join(f"{one.directory} (pid {one.pid})" for one in alive)
            raise PlimsollError(
                f"still running after {args.wait:g} s: {names}; wait longer with --wait, or kill the pid"
            )
        time.sleep(0.1)
    for one in wanted:
        print(f"stopped {one.directory}")
    return int(ExitCode.PASSED)
