"""`plimsoll run FILE`: carry out an experiment file and report on it."""

from __future__ import annotations

import argparse
import datetime
import os
import secrets
import sys
from pathlib import Path

from plimsoll.cli.outcome import conclude
from plimsoll.cli.progress import Progress
from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed.inside import on_lab
from plimsoll.drive.bringing_in import bring_in
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.experiment import ExperimentRunner, Outcome
from plimsoll.drive.probe import IN_FILE, probe
from plimsoll.drive.registry import running
from plimsoll.drive.resume import done_runs, resumed_plan
from plimsoll.errors import BadInput
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A file, or a directory to go on with."""
    parser.add_argument("file", nargs="?", type=Path, help="experiment file")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), metavar="PARENT", help="where results go (results)"
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the runs that DIR lacks")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change a value of the file (may be repeated)",
    )
    parser.add_argument(
        "--no-probe", action="store_true", help="do not look at the targets before the first run"
    )
    parser.add_argument("--quiet", action="store_true", help="print only failed thresholds")
    parser.add_argument(
        "--json", action="store_true", help="the analysis as JSON on stdout instead of the summary"
    )


def main(args: argparse.Namespace) -> int:
    """Runs, analyses, reports; the exit code says how it went."""
    find_engine()  # before anything is made
    if args.resume is not None and args.file is not None:
        raise BadInput("--resume takes the experiment from the directory: give no file")
    if args.resume is not None:
        plan, directory = resumed_plan(args.resume, args.set)
    elif args.file is not None:
        plan, directory = make_plan(load_experiment(args.file, args.set), secrets.randbits(32)), None
    else:
        raise BadInput("give an experiment file, or --resume DIR (plimsoll init writes a file to start from)")
    if (code := on_lab([run.config.hosts for run in plan.runs], args.words)) is not None:
        return code
    done: frozenset[str] = frozenset()
    if directory is None:
        _probe(plan, done, args)
        now = datetime.datetime.now(datetime.UTC)
        directory = ResultsDirectory.create(args.out, plan.experiment.name, now)
    else:
        for run in bring_in(plan, directory.path, find_engine()):
            for line in run.missing:
                print(printable(f"run {run.run}: not brought in: {line}"), file=sys.stderr)
        done = done_runs(args.resume)
        _probe(plan, done, args)
    outcome = execute(
        plan, directory, done, quiet=args.quiet, prepare=args.resume is None, probe=not args.no_probe
    )
    return conclude(outcome, quiet=args.quiet, as_json=args.json)


def busy_host() -> list[str]:
    """A warning for each experiment of this user that runs on this host already: each is load on the other's host."""
    mine = {os.getpid(), os.getppid()}
    return [
        f"plimsoll: warning: another experiment runs on this host ({one.directory}, process {one.pid}): "
        "each changes the other's figures"
        for one in running()
        if one.pid not in mine
    ]


def _probe(plan: Plan, done: frozenset[str], args: argparse.Namespace) -> None:
    """Looks at the targets of the runs that are not done."""
    configs = {run.cell_index: run.config for run in plan.runs if run.id not in done}
    if not args.no_probe:
        probe(configs.values(), plan.experiment.redactor, IN_FILE)


def execute(
    plan: Plan,
    directory: ResultsDirectory,
    done: frozenset[str],
    *,
    quiet: bool,
    prepare: bool = True,
    kept: bool = True,
    probe: bool = True,
) -> Outcome:
    """Carries out what is not done, with progress on stderr. `kept`: whether the directory outlives the command;
    `probe`: the hosts of the testers try the targets first."""
    seconds = plan.seconds_left(done)
    progress = Progress(sys.stderr, seconds, quiet=quiet)
    for line in busy_host():
        print(printable(line), file=sys.stderr)
    driver = ExperimentRunner(plan, directory, find_engine(), progress, probe=probe)
    if prepare:
        driver.prepare(["plimsoll", *sys.argv[1:]])
    if not quiet and kept:
        runs = "1 run" if len(seconds) == 1 else f"{len(seconds)} runs"
        print(f"{plan.experiment.name}: {runs}, results in {directory.path}", file=sys.stderr)
    try:
        return driver.carry_out(done)
    finally:
        progress.clear()
