"""`plimsoll history DIR...`: the levels of one experiment over time, and when they changed."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from plimsoll.assemble.history import history_of, read_marks
from plimsoll.cli.results.compare import parse_margin
from plimsoll.cli.screen import WIDTH_WITHOUT_TERMINAL, wants_colour
from plimsoll.compare.history.result import HistoryResult, as_document
from plimsoll.drive.directory import write_text
from plimsoll.errors import ExitCode
from plimsoll.report.compare.history import history_lines

SLOWER = "slower"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the directories, the marks, the margin and the form of the output."""
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR", help="results directories of one experiment"
    )
    parser.add_argument(
        "--marks",
        type=Path,
        metavar="FILE",
        help="marked changes, such as history.yaml: new levels begin there",
    )
    parser.add_argument(
        "--metric", metavar="NAME", action="append", default=[],
        help="only this metric, such as response_p95; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--margin", metavar="SHARE", default="3%", help="smallest change that matters (default: 3%%)"
    )
    parser.add_argument(
        "--accept", metavar="PATH", action="append", default=[],
        help="use results although they differ at this path, or below it; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", choices=(SLOWER,), help="exit code 99 if the newest level of a metric is slower or worse"
    )
    parser.add_argument("--json", action="store_true", help="print the history as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with charts")


def main(args: argparse.Namespace) -> int:
    """Computes the history, prints or writes it, and returns the exit code."""
    marks = read_marks(args.marks) if args.marks is not None else ()
    result = history_of(args.directories, parse_margin(args.margin), marks, args.accept, args.metric)
    if args.html is not None:
        from plimsoll.report.compare.history_page import history_page

        write_text(args.html, history_page(result))
    if args.json:
        print(json.dumps(as_document(result), ensure_ascii=False, allow_nan=False))
    else:
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
        for line in history_lines(result, width, wants_colour(sys.stdout)):
            print(line)
        if args.html is not None:
            print(f"\n  written...........: {args.html}")
    return exit_code(result, fails_on_slower=args.fail_on == SLOWER)


def exit_code(result: HistoryResult, *, fails_on_slower: bool = False) -> int:
    """97: not comparable; 99, only if wanted: the newest level of a metric is slower than the one before; 0."""
    if not result.is_comparable:
        return int(ExitCode.MEASUREMENT_INVALID)
    return int(ExitCode.THRESHOLD_FAILED if fails_on_slower and result.became_slower else ExitCode.PASSED)
