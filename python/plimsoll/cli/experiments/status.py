"""`plimsoll status [DIR]`: the experiments running on this host, or the progress of one."""

from __future__ import annotations

import argparse
from pathlib import Path

from plimsoll.collect.results import open_results
from plimsoll.drive.registry import running_experiments
from plimsoll.drive.resume import KEPT
from plimsoll.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the optional directory."""
    parser.add_argument(
        "directory",
        nargs="?",
        type=Path,
        help="results directory (default: all experiments running on this host)",
    )


def main(args: argparse.Namespace) -> int:
    """Prints a line per experiment."""
    experiments = running_experiments()
    if args.directory is None:
        for experiment in experiments:
            print(_line(experiment.directory, experiment.pid))
        if not experiments:
            print("no experiment of yours runs on this host")
        return int(ExitCode.PASSED)
    pid = next(
        (experiment.pid for experiment in experiments if experiment.directory == args.directory.resolve()),
        None,
    )
    print(_line(args.directory, pid))
    return int(ExitCode.PASSED)


def _line(directory: Path, pid: int | None) -> str:
    if pid and not (directory / "environment.json").exists():
        return f"{directory}: in preparation, or waiting for its hosts (pid {pid})"
    results = open_results(directory)
    done = sum(run.record.get("status") in KEPT for run in results.runs)
    ended_early = len(results.runs) - done
    is_complete = done == results.planned
    state = f"running (pid {pid})" if pid else ("complete" if is_complete else "not running")
    text = f"{directory}: {state}, {done} of {results.planned} runs"
    if ended_early:
        text += f", {ended_early} ended early"
    if not is_complete and not pid:
        text += f"; resume with: plimsoll run --resume {directory}"
    return text
