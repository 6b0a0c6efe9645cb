"""`plimsoll compare OLD NEW`: is the new one slower? Ratios with intervals, and verdicts against a margin."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from plimsoll import __version__
from plimsoll.analyse.results.wording import plural
from plimsoll.assemble.compare import compare_levels, compare_paths, stored_runs
from plimsoll.assemble.sources import baseline_sources
from plimsoll.cli.screen import WIDTH_WITHOUT_TERMINAL, wants_colour
from plimsoll.compare.model import Verdict
from plimsoll.compare.result import ComparisonResult, as_document
from plimsoll.compare.stored import baseline_document
from plimsoll.drive.directory import write_json, write_text
from plimsoll.errors import BadInput, ExitCode
from plimsoll.foreign.table import titles
from plimsoll.plan.source.units import UnitError, parse_fraction
from plimsoll.report.compare.comparison import comparison_lines, comparison_markdown
from plimsoll.report.compare.junit import comparison_junit

UNDECIDED = "undecided"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the two sides, the margin and the form of the output."""
    parser.epilog = f"Files of other tools that can be compared: {titles()}."
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS",
        help="results directories, baselines, or files of other tools: OLD NEW; with --to those of the old side; with "
        "--baseline those of the new side; with --by the only directory",
    )  # fmt: skip
    parser.add_argument(
        "--to", nargs="+", type=Path, metavar="NEW", default=[], help="results of the new side"
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="compare with the runs that --save-baseline stored in FILE",
    )
    parser.add_argument(
        "--save-baseline", type=Path, metavar="FILE",
        help="store the runs of RESULTS in FILE, for later comparisons without the directories; compares nothing",
    )  # fmt: skip
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
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the comparison as an HTML page")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE",
        help="also write JUnit XML: a test case for each metric and cell; slower or worse is a failure",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the comparison as JSON")
    form.add_argument("--markdown", action="store_true", help="print a comment for a pull request")


def main(args: argparse.Namespace) -> int:
    """Compares the sides, prints and writes the comparison, and returns the exit code."""
    if args.save_baseline is not None:
        return _save_baseline(args)
    result = _result(args)
    fails_on_undecided = args.fail_on == UNDECIDED
    if args.junit is not None:
        write_text(args.junit, comparison_junit(result, fails_on_undecided=fails_on_undecided))
    if args.html is not None:
        from plimsoll.report.compare.comparison_page import comparison_page  # Altair takes a second to import

        write_text(args.html, comparison_page(result))
    if args.json:
        print(json.dumps(as_document(result), ensure_ascii=False, allow_nan=False))
    elif args.markdown:
        sys.stdout.write(comparison_markdown(result))
    else:
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
        for line in comparison_lines(result, width, wants_colour(sys.stdout)):
            print(line)
    return exit_code(result, fails_on_undecided=fails_on_undecided)


def exit_code(result: ComparisonResult, *, fails_on_undecided: bool = False) -> int:
    """97: not comparable, or a cell has no valid run on a side; 99: a metric is slower or worse; 0."""
    if not result.is_comparable or result.without_valid:
        return int(ExitCode.MEASUREMENT_INVALID)
    failing = (Verdict.SLOWER, Verdict.UNDECIDED) if fails_on_undecided else (Verdict.SLOWER,)
    return int(ExitCode.THRESHOLD_FAILED if result.with_verdict(*failing) else ExitCode.PASSED)


def _save_baseline(args: argparse.Namespace) -> int:
    """Stores one side, and prints what was stored."""
    path: Path = args.save_baseline
    if args.to or args.by is not None or args.baseline is not None or args.html or args.junit or args.json:
        raise BadInput(
            "--save-baseline compares nothing, so it allows no other option: "
            "plimsoll compare DIR... --save-baseline FILE"
        )
    sources = stored_runs(args.results)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(path, baseline_document(created, __version__, sources))
    valid = sum(run.is_valid for source in sources for run in source.runs)
    print(f"{path}: {plural(valid, 'valid run')} of {', '.join(source.setup.name for source in sources)}")
    print(f"compare with it: plimsoll compare --baseline {path} NEW")
    return int(ExitCode.PASSED)


def _result(args: argparse.Namespace) -> ComparisonResult:
    margin = parse_margin(args.margin)
    results: list[Path] = args.results
    if args.by is not None:
        if args.to or args.baseline is not None or len(results) != 1:
            raise BadInput("--by compares two levels in one directory: plimsoll compare DIR --by FACTOR")
        if args.accept:
            raise BadInput("--accept is for two directories: the levels of --by differ only in their factor")
        return compare_levels(results[0], args.by, margin)
    if args.baseline is not None:
        if args.to:
            raise BadInput("--baseline is the old side: plimsoll compare --baseline FILE NEW...")
        baseline_sources(args.baseline)  # another file is no baseline
        return compare_paths([args.baseline], results, margin, args.accept)
    if args.to:
        return compare_paths(results, args.to, margin, args.accept)
    if len(results) != 2:
        raise BadInput(
            f"expected the results of two sides, got {len(results)} path{'s' * (len(results) != 1)}: "
            "plimsoll compare OLD NEW, plimsoll compare OLD... --to NEW..., plimsoll compare --baseline FILE NEW, "
            "or plimsoll compare DIR --by FACTOR"
        )
    return compare_paths(results[:1], results[1:], margin, args.accept)


def parse_margin(text: str) -> float:
    """The value of --margin. Raises BadInput."""
    try:
        margin = parse_fraction(text)
    except UnitError as error:
        raise BadInput(f"--margin: {error}") from error
    if not 0 < margin < 1:
        raise BadInput(f"--margin: expected a percentage between 0% and 100%, got {text}")
    return margin
