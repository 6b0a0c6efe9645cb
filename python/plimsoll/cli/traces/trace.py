"""`plimsoll trace record|import|show|compare|export`: the file accesses of an application."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from plimsoll.cli.screen import WIDTH_WITHOUT_TERMINAL, wants_colour
from plimsoll.cli.setup.quantity import quantity
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
    """Declares a verb for each command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="VERB")
    _record(
        verbs.add_parser("record", help="run a program, or attach to a process, and record its file accesses")
    )
    _import(verbs.add_parser("import", help="convert logs of strace to a trace file"))
    _show(
        verbs.add_parser(
            "show", help="summarise the accesses to each file; also as an HTML page, JSON or charts"
        )
    )
    compare = verbs.add_parser("compare", help="show two traces side by side")
    compare.add_argument("a", type=Path, metavar="A.trace", help="first trace file")
    compare.add_argument("b", type=Path, metavar="B.trace", help="second trace file")
    _export(verbs.add_parser("export", help="convert a trace to the format of another tool"))


def _record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="trace file to write"
    )
    parser.add_argument(
        "--source", choices=("strace", "preload"), default="strace",
        help="strace: any program (default); preload: dynamically linked programs, at 1/100 of the tracing cost",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--pid", type=int, action="append", default=[],
        help="attach to this process instead of starting a program (may be repeated)",
    )  # fmt: skip
    parser.add_argument(
        "--for",
        dest="length",
        type=quantity(units.parse_duration),
        metavar="DURATION",
        help="stop recording after this time, such as 60s",
    )
    parser.add_argument(
        "--uncalibrated", action="store_true", help="do not measure the cost of tracing on this host first"
    )
    parser.add_argument(
        "--one-core", action="store_true",
        help="run strace and the program on one core, which lowers the cost of each traced call",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("command", nargs="*", metavar="CMD", help="after --: program and arguments")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        type=Path,
        metavar="LOG",
        help="log of strace, also compressed (.gz, .zst); several logs: those of one strace -ff",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="trace file to write (default: the name of the log with suffix .trace)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="working directory of the program at its start, if the log does not contain it",
    )


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="trace file")
    parser.add_argument("--file", metavar="REGEX", help="only files that had a matching name at any time")
    window = quantity(units.parse_duration)
    parser.add_argument(
        "--from", dest="start", type=window, metavar="TIME", help="only calls from this time on, such as 10s"
    )
    parser.add_argument("--to", dest="end", type=window, metavar="TIME", help="only calls before this time")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the profile as JSON")
    form.add_argument("--paths", action="store_true", help="print the path names of all files, one per line")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained HTML page")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="write each chart as a file below DIR")
    parser.add_argument(
        "--format", choices=("svg", "png", "pdf"), default="svg", help="format of the charts (default: svg)"
    )


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="trace file")
    parser.add_argument("--to", choices=tuple(SUFFIXES), required=True, help="output format")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file to write (default: next to the trace)"
    )
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="with --to fio: directory that contains all files"
    )


def main(args: argparse.Namespace) -> int:
    """Runs the chosen verb."""
    verbs = {"record": record, "import": import_, "show": show, "compare": compare, "export": export}
    return verbs[args.what](args)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def record(args: argparse.Namespace) -> int:
    """Records a program; returns its exit status, unless the recording failed."""
    if bool(args.command) == bool(args.pid):
        raise BadInput("give either a program (after --) or a process to attach to (-p PID)")
    if args.one_core and (args.pid or args.source != "strace"):
        raise BadInput("--one-core needs --source strace and a program to start; leave it out")
    if args.length is not None and args.length <= 0:
        raise BadInput("--for: expected a duration greater than 0, such as 60s")
    if args.output.exists() and not args.force:
        raise BadInput(f"{args.output}: the file exists; give another name, or --force to overwrite it")
    status, summary = engine.record(
        args.output,
        args.command,
        pids=args.pid,
        seconds=_seconds(args.length),
        source=args.source,
        calibrated=not args.uncalibrated,
        one_core=args.one_core,
        force=args.force,
    )
    if summary is None:
        return status or int(ExitCode.ERROR)
    verdict = _report_summary(args.output, summary)
    return status or verdict


def import_(args: argparse.Namespace) -> int:
    """Converts the logs; returns 97 if too many lines were not understood."""
    output = args.output or trace_path_for(args.logs[0])
    for log in args.logs:
        refuse_overwrite(log, output)
    if args.output is None and output.exists():
        raise BadInput(f"{output}: the file exists; to overwrite it, give -o {output}")
    return _report_summary(output, engine.import_logs(args.logs, output, args.directory))


def refuse_overwrite(source: Path, output: Path) -> None:
    """Raises BadInput if both paths are the same file, also under different names."""
    if output.exists() and source.exists() and output.samefile(source):
        raise BadInput(
            f"output {output} and input {source} are the same file; give another name for the output"
        )


def trace_path_for(log: Path) -> Path:
    """`job.log`, `job.log.gz`, `job.log.4711`, a recorder's directory `.job.trace.4711` -> `job.trace` in the same
    directory."""
    if log.is_dir():
        name = re.sub(r"^\.(.+)\.\d+$", r"\1", log.name)
        return log.with_name(f"{Path(name).stem}.trace")
    name = re.sub(r"(\.\d+)?(\.(gz|zst))?$", "", log.name, count=1) or log.name
    return log.with_name(f"{Path(name).stem}.trace")


def _report_summary(output: Path, summary: TraceSummary) -> int:
    """Reports the recording on stderr, because stdout may belong to the program."""
    took = f" in {units.about_duration(summary.elapsed_ns)}" if summary.elapsed_ns is not None else ""
    print(
        f"{output}: {summary.events:,} calls{took}, {units.about_size(summary.bytes)}; "
        f"show it with: plimsoll trace show {output}",
        file=sys.stderr,
    )
    for text, amount in (
        (f"of {summary.lines:,} lines not understood", summary.odd_lines),
        (f"{'line' if summary.cut_lines == 1 else 'lines'} cut off at the end of a log", summary.cut_lines),
        ("calls with an unknown name left out", summary.unknown_calls),
        ("calls without a recorded start left out", summary.halves),
        ("calls without a recorded end", summary.endless),
    ):
        if amount:
            print(f"  {amount:,} {text}", file=sys.stderr)
    for example in summary.examples[:3]:
        print(f"    > {example[:160]!r}", file=sys.stderr)
    return _verdict(summary.odd_lines, summary.unknown_calls, summary.lines)


def _verdict(odd_lines: int, unknown_calls: int, lines: int) -> int:
    fine = words.understood(odd_lines, unknown_calls, lines)
    return int(ExitCode.PASSED if fine else ExitCode.MEASUREMENT_INVALID)


def show(args: argparse.Namespace) -> int:
    """Prints the summary, unless another output is requested."""
    if args.start is not None and args.end is not None and args.start >= args.end:
        raise BadInput("--from must be before --to")
    selection = TraceSelection(args.file, _seconds(args.start), _seconds(args.end))
    if args.html:
        refuse_overwrite(args.trace, args.html)
    document = engine.profile(args.trace, selection)
    if args.json:
        import json

        json.dump(document.document, sys.stdout, ensure_ascii=False, allow_nan=False)
        sys.stdout.write("\n")
    elif args.paths:
        # A dictionary keeps the order and removes duplicates.
        for name in {
            name: None for file in document.profile.files for name in (file.path, *file.other_names)
        }:
            print(name)
    if args.html:
        from plimsoll.drive.directory import write_text
        from plimsoll.trace.html import page_of

        write_text(args.html, page_of(args.trace, document, selection))
        print(args.html, file=sys.stderr)
    if args.figures:
        from plimsoll.trace.figures import write_figures

        for path in write_figures(args.trace, document, selection, args.figures, args.format):
            print(path, file=sys.stderr)
    if not (args.json or args.paths or args.html or args.figures):
        from plimsoll.trace.terminal import summary_lines

        _print(summary_lines(document.profile, *_terminal()))
    unparsed = document.profile.unparsed
    return _verdict(unparsed.odd_lines, unparsed.unknown_calls, unparsed.lines)


def _terminal() -> tuple[int, bool]:
    return shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns, wants_colour(sys.stdout)


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        print(line)


def compare(args: argparse.Namespace) -> int:
    """Prints both profiles and the ratio B/A."""
    from plimsoll.trace.compare import comparison_lines

    a, b = (engine.profile(path, TraceSelection()).profile for path in (args.a, args.b))
    names = [f"{path} ({words.command(profile.source)})" for path, profile in ((args.a, a), (args.b, b))]
    _print(comparison_lines(a, b, (names[0], names[1]), *_terminal()))
    return int(ExitCode.PASSED)


def export(args: argparse.Namespace) -> int:
    """Writes the file and prints its path."""
    output = args.output or args.trace.with_suffix(SUFFIXES[args.to])
    refuse_overwrite(args.trace, output)
    if args.root is not None and args.to != "fio":
        raise BadInput("--root is valid only with --to fio; the other formats keep the recorded names")
    engine.export(args.trace, args.to, output, args.root)
    print(output)
    return int(ExitCode.PASSED)
