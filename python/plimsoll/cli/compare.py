"""`plimsoll compare OLD NEW`: is the new one slower? Ratios with intervals, and verdicts against a margin."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from plimsoll.assemble.compare import compare_directories, compare_levels
from plimsoll.cli.screen import WIDTH_WITHOUT_TERMINAL, wants_colour
from plimsoll.compare.model import Verdict
from plimsoll.compare.result import ComparisonResult, as_document
from plimsoll.errors import BadInput, ExitCode
from plimsoll.plan.source.units import UnitError, parse_fraction
from plimsoll.report.comparison import comparison_lines, comparison_markdown

UNDECIDED = "undecided"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the two sides, the margin and the form of the output."""
    parser.add_argument(
        "directories", nargs="+", type=Path, metavar="DIR",
        help="results directories: OLD NEW; with --to those of the old side; with --by the only one",
    )  # fmt: skip
    parser.add_argument(
        "--to", nargs="+", type=Path, metavar="NEW", default=[], help="results directories of the new side"
    )
    parser.add_argument(
        "--by", metavar="FACTOR",
        help="compare two levels of a factor in one directory: FACTOR (the first level is the old one), or "
        "FACTOR=OLD,NEW",
    )  # fmt: skip
    parser.add_argument(
        "--margin", metavar="SHARE", default="3%", help="smallest change that matters (default: 3%%)"
    )
    parser.add_argument(
        "--accept", metavar="PATH", action="append", default=[],
        help="compare although the results differ at this path, or below it; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", choices=(UNDECIDED,), help="exit code 99 also if a comparison is undecided"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the comparison as JSON")
    form.add_argument("--markdown", action="store_true", help="print a comment for a pull request")


def main(args: argparse.Namespace) -> int:
    """Compares the sides, prints the comparison and returns the exit code."""
    result = _result(args)
    if args.json:
        print(json.dumps(as_document(result), ensure_ascii=False, allow_nan=False))
    elif args.markdown:
        sys.stdout.write(comparison_markdown(result))
    else:
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
        for line in comparison_lines(result, width, wants_colour(sys.stdout)):
            print(line)
    return exit_code(result, fails_on_undecided=args.fail_on == UNDECIDED)


def exit_code(result: ComparisonResult, *, fails_on_undecided: bool = False) -> int:
    """97: not comparable, or a cell has no valid run on a side; 99: a metric is slower or worse; 0."""
    if not result.is_comparable or result.without_valid:
        return int(ExitCode.MEASUREMENT_INVALID)
    failing = (Verdict.SLOWER, Verdict.UNDECIDED) if fails_on_undecided else (Verdict.SLOWER,)
    return int(ExitCode.THRESHOLD_FAILED if result.with_verdict(*failing) else ExitCode.PASSED)


def _result(args: argparse.Namespace) -> ComparisonResult:
    margin = _margin(args.margin)
    if args.by is not None:
        if args.to or len(args.directories) != 1:
            raise BadInput("--by compares two levels in one directory: plimsoll compare DIR --by FACTOR")
        if args.accept:
            raise BadInput("--accept is for two directories: the levels of --by differ only in their factor")
        return compare_levels(args.directories[0], args.by, margin)
    if args.to:
        return compare_directories(args.directories, args.to, margin, args.accept)
    if len(args.directories) != 2:
        raise BadInput(
            f"expected two results directories, got {len(args.directories)}: plimsoll compare OLD NEW, "
            "plimsoll compare OLD... --to NEW..., or plimsoll compare DIR --by FACTOR"
        )
    return compare_directories(args.directories[:1], args.directories[1:], margin, args.accept)


def _margin(text: str) -> float:
    try:
        margin = parse_fraction(text)
    except UnitError as error:
        raise BadInput(f"--margin: {error}") from error
    if not 0 < margin < 1:
        raise BadInput(f"--margin: expected a percentage between 0% and 100%, got {text}")
    return margin
