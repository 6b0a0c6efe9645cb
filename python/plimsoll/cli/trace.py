"""`plimsoll trace record|import|show|compare|export`: what an application does to its files."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from plimsoll.cli.quantity import quantity
from plimsoll.cli.screen import WIDTH_WITHOUT_TERMINAL, wants_colour
from plimsoll.errors import BadInput, ExitCode
from plimsoll.plan.source import units
from plimsoll.trace import engine, words
from plimsoll.trace.engine import TraceSelection, TraceSummary

EXAMPLES = """examples:
  plimsoll trace record -o job.trace -- ./analysis input.root
  plimsoll trace record -p 4711 --for 60s -o job.trace
  plimsoll trace import strace.log
  plimsoll trace show job.trace --html job.html
  plimsoll trace show job.trace --file '\\.root$' --from 10s --to 20s
  plimsoll trace compare before.trace after.trace
  plimsoll trace export job.trace --to parquet -o job.parquet
"""
SUFFIXES = {"fio": ".fio", "parquet": ".parquet", "csv": ".csv", "dxt": ".dxt.txt"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A verb of its own for each thing to do."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="VERB")
    _record(verbs.add_parser("record", help="run a program, or attach to one, and record what it does"))
    _import(verbs.add_parser("import", help="turn logs of strace that others made into a trace file"))
    _show(verbs.add_parser("show", help="say what was done to which files; write it as a page"))
    compare = verbs.add_parser("compare", help="two traces side by side")
    compare.add_argument("a", type=Path, metavar="A.trace")
    compare.add_argument("b", type=Path, metavar="B.trace")
    _export(verbs.add_parser("export", help="write a trace for other tools"))


def _record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the trace file")
    parser.add_argument(
        "--source", choices=("strace", "preload"), default="strace",
        help="what records: strace sees every program, preload costs a hundredth of it (default: strace)",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--pid", type=int, action="append", default=[],
        help="attach to this process instead of running a program; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--for",
        dest="length",
        type=quantity(units.parse_duration),
        metavar="DURATION",
        help="stop after this",
    )
    parser.add_argument(
        "--uncalibrated", action="store_true", help="do not measure first what tracing costs here"
    )
    parser.add_argument(
        "--one-core", action="store_true",
        help="keep strace and the program on one core, where a traced call costs a fraction",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("command", nargs="*", metavar="CMD", help="after --: program and arguments")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs", nargs="+", type=Path, metavar="LOG", help="also .gz, .zst; several: a set of strace -ff"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: name of the log with .trace"
    )
    parser.add_argument(
        "--directory", type=Path, help="where the program was started, if the log does not tell"
    )


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="trace file")
    parser.add_argument("--file", metavar="REGEX", help="only files of which a name, at any time, matches")
    window = quantity(units.parse_duration)
    parser.add_argument("--from", dest="start", type=window, metavar="TIME", help="from this time on, as 10s")
    parser.add_argument("--to", dest="end", type=window, metavar="TIME", help="before this time")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the profile as JSON")
    form.add_argument("--paths", action="store_true", help="all names, one a line")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as one page that works from disk")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="write every chart as a file")
    parser.add_argument(
        "--format", choices=("svg", "png", "pdf"), default="svg", help="form of the figures (default: svg)"
    )


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="trace file")
    parser.add_argument("--to", choices=tuple(SUFFIXES), required=True, help="what other tools read")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: beside the trace")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="fio only: the directory that all names are beneath"
    )


def main(args: argparse.Namespace) -> int:
    """Does it."""
    verbs = {"record": record, "import": import_, "show": show, "compare": compare, "export": export}
    return verbs[args.what](args)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def record(args: argparse.Namespace) -> int:
    """The program's exit status is ours, unless the recording itself failed."""
    if bool(args.command) == bool(args.pid):
        raise BadInput("give either a program (after --) or the process to attach to (-p PID)")
    if args.one_core and (args.pid or args.source != "strace"):
        raise BadInput("--one-core is for a program that strace records: leave it out")
    if args.length is not None and args.length <= 0:
        raise BadInput("--for: a duration above 0 is expected, such as 60s")
    if args.output.exists() and not args.force:
        raise BadInput(f"{args.output} is there already; give another name, or --force to write over it")
    status, made = engine.record(
        args.output,
        args.command,
        pids=args.pid,
        seconds=_seconds(args.length),
        source=args.source,
        calibrated=not args.uncalibrated,
        one_core=args.one_core,
        force=args.force,
    )
    if made is None:
        return status or int(ExitCode.ERROR)
    verdict = _said(args.output, made)
    return status or verdict


def import_(args: argparse.Namespace) -> int:
    """97 where more of the log was not understood than can be passed over."""
    output = args.output or trace_beside(args.logs[0])
    for log in args.logs:
        not_over(log, output)
    if args.output is None and output.exists():
        raise BadInput(f"{output} is there already; -o {output} writes over it")
    return _said(output, engine.import_logs(args.logs, output, args.directory))


def not_over(source: Path, output: Path) -> None:
    """Refuses to write over what is read, by whatever names."""
    if output.exists() and source.exists() and output.samefile(source):
        raise BadInput(f"the output {output} is the input {source}: give another name for the output")


def trace_beside(log: Path) -> Path:
    """`job.log`, `job.log.gz`, `job.log.4711` -> `job.trace` beside it; `.job.trace.4711`, a recorder's place, too."""
    if log.is_dir():
        name = re.sub(r"^\.(.+)\.\d+$", r"\1", log.name)
        return log.with_name(f"{Path(name).stem}.trace")
    name = re.sub(r"(\.\d+)?(\.(gz|zst))?$", "", log.name, count=1) or log.name
    return log.with_name(f"{Path(name).stem}.trace")


def _said(output: Path, made: TraceSummary) -> int:
    """Says on stderr what was recorded, as stdout may be the program's."""
    took = f" in {units.about_duration(made.elapsed_ns)}" if made.elapsed_ns is not None else ""
    print(
        f"{output}: {made.events:,} calls{took}, {units.about_size(made.bytes)}; "
        f"look at it with: plimsoll trace show {output}",
        file=sys.stderr,
    )
    for what, amount in (
        (f"of {made.lines:,} lines not understood", made.odd_lines),
        ("cut at the end of the log" if made.cut_lines == 1 else "cut at the ends of logs", made.cut_lines),
        ("calls of unknown name left out", made.unknown_calls),
        ("calls whose beginning is missing left out", made.halves),
        ("calls whose end is missing", made.endless),
    ):
        if amount:
            print(f"  {amount:,} {what}", file=sys.stderr)
    for example in made.examples[:3]:
        print(f"    > {example[:160]!r}", file=sys.stderr)
    return _verdict(made.odd_lines, made.unknown_calls, made.lines)


def _verdict(odd_lines: int, unknown_calls: int, lines: int) -> int:
    fine = words.understood(odd_lines, unknown_calls, lines)
    return int(ExitCode.PASSED if fine else ExitCode.MEASUREMENT_INVALID)


def show(args: argparse.Namespace) -> int:
    """The summary, unless something else is asked for."""
    if args.start is not None and args.end is not None and args.start >= args.end:
        raise BadInput("--from must be before --to: nothing would be left")
    wanted = TraceSelection(args.file, _seconds(args.start), _seconds(args.end))
    if args.html:
        not_over(args.trace, args.html)
    told = engine.profile(args.trace, wanted)
    if args.json:
        import json

        json.dump(told.document, sys.stdout, ensure_ascii=False, allow_nan=False)
        sys.stdout.write("\n")
    elif args.paths:
        # A dictionary keeps their order, and each once.
        for name in {name: None for each in told.profile.files for name in (each.path, *each.other_names)}:
            print(name)
    if args.html:
        from plimsoll.drive.directory import write_text
        from plimsoll.trace.html import page_of

        write_text(args.html, page_of(args.trace, told, wanted))
        print(args.html, file=sys.stderr)
    if args.figures:
        from plimsoll.trace.figures import write_figures

        for path in write_figures(args.trace, told, wanted, args.figures, args.format):
            print(path, file=sys.stderr)
    if not (args.json or args.paths or args.html or args.figures):
        from plimsoll.trace.terminal import summary_lines

        _print(summary_lines(told.profile, *_terminal()))
    unparsed = told.profile.unparsed
    return _verdict(unparsed.odd_lines, unparsed.unknown_calls, unparsed.lines)


def _terminal() -> tuple[int, bool]:
    return shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns, wants_colour(sys.stdout)


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        print(line)


def compare(args: argparse.Namespace) -> int:
    """Both, and B over A."""
    from plimsoll.trace.compare import comparison_lines

    a, b = (engine.profile(each, TraceSelection()).profile for each in (args.a, args.b))
    names = [f"{path} ({words.command(one.source)})" for path, one in ((args.a, a), (args.b, b))]
    _print(comparison_lines(a, b, (names[0], names[1]), *_terminal()))
    return int(ExitCode.PASSED)


def export(args: argparse.Namespace) -> int:
    """Writes and says where."""
    output = args.output or args.trace.with_suffix(SUFFIXES[args.to])
    not_over(args.trace, output)
    if args.root is not None and args.to != "fio":
        raise BadInput("--root goes with --to fio only: the other formats keep names as they were recorded")
    engine.export(args.trace, args.to, output, args.root)
    print(output)
    return int(ExitCode.PASSED)
