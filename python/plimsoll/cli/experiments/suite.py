"""`plimsoll suite DIR|FILES --target URL`: run a set of experiment files against an existing service."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll.assemble.adaptive.run_source import is_done
from plimsoll.cli.experiments.run import execute, probe_targets
from plimsoll.cli.results.outcome import exit_code, write_files
from plimsoll.deploy.binary import find_engine
from plimsoll.drive.bringing_in import fetch_outstanding
from plimsoll.drive.resume import done_runs
from plimsoll.errors import BadInput
from plimsoll.printable import printable

if TYPE_CHECKING:
    from plimsoll.analyse.results.analysis import Analysis
    from plimsoll.drive.directory import ResultsDirectory
    from plimsoll.drive.experiment import Outcome
    from plimsoll.plan import Plan
    from plimsoll.suite.conduct import Steps, Suite
    from plimsoll.suite.summary import SuiteResult

RESULTS = Path("results")
QUICK = (
    "short form of each file: the options of its line `# quick: --set PATH=VALUE ...`; without this line, one "
    "repetition, and at most 1s of warm-up, 5s of duration and 2s for each stage"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the files and the target."""
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="DIR|FILE",
        help="experiment files; of a directory, its files *.yaml and *.yml",
    )  # fmt: skip
    parser.add_argument("--target", metavar="URL", help="the service; replaces the target of each file")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR",
        help="continue the suite in DIR: finished experiments are kept; the files, the target, --quick and --ceiling "
        "are those of its start",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help=QUICK)
    parser.add_argument(
        "--ceiling", action="append", default=[], metavar="RULE",
        help='a rule that stops every run, in addition to those of its file, such as "errors rate>20%%" or '
        '"response p(95)>2s for 20s"; can be repeated',
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="PARENT",
        help="parent of the new directory of the suite (default: results)",
    )  # fmt: skip
    parser.add_argument(
        "--no-probe", action="store_true", help="do not test the target before each experiment"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--json", action="store_true", help="print suite.json instead of the summary")


def main(args: argparse.Namespace) -> int:
    """Examines the files, runs those that can be run, and writes the page; returns the worst exit code."""
    from plimsoll.suite.conduct import PAGE, Steps

    find_engine()  # fails before a file is created
    _check(args)

    def run(plan: Plan, create: Callable[[], ResultsDirectory], earlier: ResultsDirectory | None) -> Outcome:
        done: frozenset[str] = frozenset()
        if earlier is not None:
            for fetched in fetch_outstanding(plan, earlier.path, find_engine()):
                for line in fetched.missing:
                    note(f"run {fetched.run}: not fetched: {line}")
            done = done_runs(earlier.path)
        is_over = earlier is not None and is_done(plan, earlier, done)
        probe_targets(plan, done, skipped=args.no_probe or is_over)
        return execute(
            plan,
            earlier or create(),
            done,
            quiet=args.quiet,
            prepare=earlier is None,
            probe=not args.no_probe,
        )

    def note(text: str) -> None:
        if not args.quiet:
            print(printable(f"suite: {text}"), file=sys.stderr)

    suite = _suite(args, Steps(run, _analyse, note))
    result = suite.carry_out()
    if args.json:
        print(json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False))
    elif not args.quiet:
        for line in summary_lines(result):
            print(printable(line))
        print(f"\nwrote {os.path.relpath(suite.path / PAGE)}")
    if any(row.state in ("interrupted", "not run") for row in result.rows):
        text = f"plimsoll: resume with: plimsoll suite --resume {os.path.relpath(suite.path)}"
        print(printable(text), file=sys.stderr)
    return result.exit_code


def _check(args: argparse.Namespace) -> None:
    """Raises BadInput if the arguments contradict each other."""
    if args.resume is not None:
        if args.paths or args.target is not None or args.quick or args.ceiling or args.out is not None:
            raise BadInput(
                "--resume reads the files, the target, --quick and --ceiling from the directory of the suite; do not "
                "give them as well"
            )
    elif not args.paths:
        raise BadInput("give experiment files or a directory of them, or --resume DIR")
    elif args.target is None:
        raise BadInput("give the service with --target URL")


def _suite(args: argparse.Namespace, steps: Steps) -> Suite:
    """The suite that was stopped, or a new one. Raises PlimsollError."""
    from plimsoll.analyse.results.wording import plural
    from plimsoll.suite.conduct import new_suite
    from plimsoll.suite.existing import ceiling_rules
    from plimsoll.suite.resume import resumed_suite
    from plimsoll.suite.selection import Request, check_target, listed_files, select

    if args.resume is not None:
        return resumed_suite(args.resume, steps)
    check_target(args.target)
    files = listed_files(args.paths)
    wanted = Request(args.target, args.quick, ceiling_rules(args.ceiling))
    selections = [select(file, is_named, wanted) for file, is_named in files]
    for selection in selections:
        if selection.plan is None:
            steps.note(f"{selection.file}: {selection.state}: {selection.reason}")
    unbounded = [
        one
        for one in selections
        if one.plan is not None and not all(run.config.ceiling for run in one.plan.runs)
    ]
    if unbounded:
        steps.note(
            f"{plural(len(unbounded), 'file')} without `ceiling`: no rule stops a run that harms the target; --ceiling "
            "adds one"
        )
    name = args.paths[0].resolve().name if len(args.paths) == 1 else "Suite"
    return new_suite(args.out or RESULTS, name, wanted, selections, steps)


def _analyse(directory: Path, outcome: Outcome | None) -> tuple[Analysis, int]:
    from plimsoll.assemble.whole import analysis_of
    from plimsoll.collect.results import open_results

    results = open_results(directory)
    analysis = analysis_of(results)
    write_files(results, analysis)
    interrupted, lost = (False, False) if outcome is None else (outcome.interrupted, outcome.agents_lost)
    return analysis, exit_code(analysis, interrupted=interrupted, agents_lost=lost)


def summary_lines(result: SuiteResult) -> list[str]:
    """The rows as text: state, validity and thresholds of each file, and the first sentence of its answer."""
    lines = [f"{result.name}: experiments against {result.target}"]
    for row in result.rows:
        state = row.state if row.state != "done" or not row.runs else row.validity
        failed = [threshold.text for threshold in row.thresholds if threshold.passed is False]
        lines += ["", f"{row.name or row.file}: {state}" + (f" ({row.file})" if row.name else "")]
        lines += [f"  {row.reason}"] if row.reason else []
        lines += [f"  {row.question}"] if row.question else []
        lines += [f"  {sentence}" for sentence in row.answer[:1]]
        lines += [f"  ✗ {text}" for text in failed]
        lines += [f"  {remark}" for remark in row.remarks]
    return lines
