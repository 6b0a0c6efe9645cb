"""`plimsoll run FILE`: run an experiment file and write its report."""

from __future__ import annotations

import argparse
import datetime
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from plimsoll.assemble.adaptive.invalid_runs import invalid_runs
from plimsoll.assemble.adaptive.run_source import is_done, run_source
from plimsoll.assemble.like_search import earlier_cells, start_lines, starts_of
from plimsoll.cli.experiments.progress import Progress
from plimsoll.cli.results.outcome import conclude
from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed.inside import run_on_lab
from plimsoll.drive.bringing_in import fetch_outstanding
from plimsoll.drive.directory import ResultsDirectory
from plimsoll.drive.experiment import ExperimentRunner, Outcome
from plimsoll.drive.probe import IN_FILE, probe
from plimsoll.drive.registry import running_experiments
from plimsoll.drive.resume import done_runs, resumed_plan
from plimsoll.errors import BadInput
from plimsoll.plan import Plan, load_experiment, make_plan
from plimsoll.plan.model.cell import hosts_to_reach
from plimsoll.plan.source.units import NS, about_duration, about_size
from plimsoll.printable import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the file, or the directory to resume."""
    parser.add_argument("file", nargs="?", type=Path, help="experiment file")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="PARENT",
        help="parent of the new results directory (default: results)",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="run what is missing in results directory DIR"
    )
    parser.add_argument(
        "--repeat-invalid",
        action="store_true",
        help="with --resume: also repeat the runs that are invalid",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change a value of the file (may be repeated)",
    )
    parser.add_argument(
        "--no-probe",
        action="store_true",
        help="do not test the targets before the first run",
    )
    parser.add_argument(
        "--like",
        type=Path,
        metavar="DIR",
        help="begin a search at the brackets of earlier results",
    )
    parser.add_argument("--quiet", action="store_true", help="print only failed thresholds")
    parser.add_argument(
        "--json", action="store_true", help="print the analysis as JSON instead of the summary"
    )


def main(args: argparse.Namespace) -> int:
    """Runs the experiment, analyses it and writes the report."""
    find_engine()  # fails before a file is created
    if args.resume is not None and args.file is not None:
        raise BadInput("--resume reads the experiment from the results directory; do not give a file as well")
    if args.resume is not None and args.like is not None:
        raise BadInput("--resume continues the search where it began; do not give --like as well")
    if args.repeat_invalid and args.resume is None:
        raise BadInput("--repeat-invalid repeats runs of earlier results; give --resume DIR as well")
    if args.resume is not None:
        plan, directory = resumed_plan(args.resume, args.set)
    elif args.file is not None:
        plan, directory = make_plan(load_experiment(args.file, args.set), secrets.randbits(32)), None
        plan = plan if args.like is None else _like(plan, args.like, quiet=args.quiet)
    else:
        raise BadInput("give an experiment file, or --resume DIR; plimsoll init writes an example file")
    if (code := run_on_lab(hosts_to_reach(run.config for run in plan.runs), args.words)) is not None:
        return code
    done: frozenset[str] = frozenset()
    if directory is None:
        probe_targets(plan, done, skipped=args.no_probe)
        now = datetime.datetime.now(datetime.UTC)
        directory = ResultsDirectory.create(args.out, plan.experiment.name, now)
    else:
        for run in fetch_outstanding(plan, directory.path, find_engine()):
            for line in run.missing:
                print(printable(f"run {run.run}: not fetched: {line}"), file=sys.stderr)
        done = done_runs(args.resume)
        if args.repeat_invalid:
            done -= invalid_runs(plan, args.resume)
        probe_targets(plan, done, skipped=args.no_probe or is_done(plan, directory, done))
    outcome = execute(
        plan, directory, done, quiet=args.quiet, prepare=args.resume is None, probe=not args.no_probe
    )
    return conclude(outcome, quiet=args.quiet, as_json=args.json)


def _like(plan: Plan, earlier: Path, *, quiet: bool) -> Plan:
    """The plan of a search that begins at the brackets of earlier results. Raises PlimsollError."""
    cells = earlier_cells(plan, earlier)
    assert plan.experiment.search is not None, "earlier_cells has checked"
    for line in () if quiet else start_lines(plan.experiment.search, cells, earlier):
        print(printable(line), file=sys.stderr)
    return replace(plan, starts=starts_of(cells))


def busy_host_warnings() -> list[str]:
    """A warning for each other experiment of this user that runs on this host, because each disturbs the other."""
    mine = {os.getpid(), os.getppid()}
    return [
        f"plimsoll: warning: another experiment runs on this host ({experiment.directory}, process {experiment.pid}); "
        "the two disturb each other's measurements"
        for experiment in running_experiments()
        if experiment.pid not in mine
    ]


def announcement(plan: Plan, seconds: Mapping[str, float], directory: Path) -> list[str]:
    """What a run is about to do: the number of runs that are not done and their time, where their results will be and
    how large they are, and the kinds of services that it starts. `seconds`: estimated time of these runs, by id."""
    experiment = plan.experiment
    runs = "1 run" if len(seconds) == 1 else f"{len(seconds)} runs"
    at_most = "at most " if experiment.design.until is not None else ""
    what = f"{at_most}{runs}" if experiment.search is None else "a search"
    if experiment.search is None and not plan.estimate.unbounded:
        what += f", {about_duration(round(sum(seconds.values()) * NS['s']))}"
    if experiment.search is None and len(seconds) == len(plan.runs):
        what += f", {about_size(plan.estimate.disk_bytes)}"
    kinds = sorted({service.kind for run in plan.runs for service in run.config.services})
    starts = [f"starts {', '.join(kinds)}; installs nothing"] if kinds else []
    return [f"{experiment.name}: {what}; results in {directory}", *starts]


def probe_targets(plan: Plan, done: frozenset[str], *, skipped: bool) -> None:
    """Probes the targets of the runs that are not done, unless `skipped`."""
    configs = {run.cell_index: run.config for run in plan.runs if run.id not in done}
    if not skipped:
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
    """Executes the runs that are not done, with progress on stderr. `kept`: whether the directory remains after the
    command; `probe`: whether the hosts of the testers probe the targets first."""
    seconds = plan.seconds_left(done)
    progress = Progress(sys.stderr, seconds, quiet=quiet)
    for line in busy_host_warnings():
        print(printable(line), file=sys.stderr)
    driver = ExperimentRunner(plan, directory, find_engine(), progress, probe=probe)
    if prepare:
        driver.prepare(["plimsoll", *sys.argv[1:]])
    if not quiet and kept:
        for line in announcement(plan, seconds, directory.path):
            print(printable(line), file=sys.stderr)
    try:
        return driver.carry_out(done, run_source(plan, directory, done))
    finally:
        progress.clear()
