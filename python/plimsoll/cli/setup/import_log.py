"""`plimsoll import access-log FILE`: an experiment that follows the requests of an access log."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plimsoll.cli.setup.init import name
from plimsoll.errors import BadInput, ExitCode
from plimsoll.plan.queries.access_line import UNITS_NS, LineFormat
from plimsoll.plan.queries.log_fields import FormatError
from plimsoll.plan.queries.log_format import NAMES, line_format
from plimsoll.printable import printable

if TYPE_CHECKING:
    from plimsoll.access_log.experiment import ExperimentFiles
    from plimsoll.plan.queries.access_log import AccessLog, LineCounts

MAX_MALFORMED: Final = 0.01
"""Share of lines that cannot be read above which the exit code is 97, as for logs of strace."""
EXAMPLES = """examples:
  plimsoll import access-log access.log --target http://test.example:8080
  plimsoll import access-log access.log.gz --format nginx --duration s
  plimsoll import access-log squid.log -o squid.yaml
  plimsoll import access-log access.log --format '$remote_addr $msec "$request" $status $bytes_sent $request_time'
  plimsoll import access-log access_log --format '%h %{usec}t %D "%r" %>s %b'
  plimsoll import access-log squid.log --format '%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares a verb for each kind of input."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(dest="what", required=True, metavar="KIND")
    log = verbs.add_parser("access-log", help="log of nginx, Apache, Squid or Traffic Server, plain or gzip")
    log.add_argument("file", type=Path, metavar="FILE", help="the log")
    log.add_argument(
        "-o", "--output", type=Path, metavar="YAML",
        help="experiment file to write (default: the name of the log with suffix .yaml, in this directory); files of "
        "paths are written next to it",
    )  # fmt: skip
    log.add_argument(
        "--target", default="http://localhost:8080", metavar="URL",
        help="target of the experiment (default: http://localhost:8080)",
    )  # fmt: skip
    log.add_argument(
        "--format", default="auto", metavar="NAME|TEXT",
        help=f"program that wrote the log: {', '.join(NAMES)} (default: auto, from the form of each line); or the text "
        "of nginx's log_format, Apache's LogFormat or Squid's logformat",
    )  # fmt: skip
    log.add_argument(
        "--duration", choices=tuple(UNITS_NS),
        help="unit of the duration that is the last field of each line; needs --format nginx (times of the end) or "
        "apache (times of the start)",
    )  # fmt: skip
    log.add_argument("--objects", type=int, metavar="N", help="number of objects of the site, if it is known")
    log.add_argument("--force", action="store_true", help="overwrite existing files")


def main(args: argparse.Namespace) -> int:
    """Reads the log, writes the experiment, and prints the laws; returns 97 if more than 1 % of the lines cannot be
    read."""
    if args.duration is not None and args.format in ("auto", "squid", "trafficserver"):
        raise BadInput("--duration needs --format nginx or --format apache")
    if args.objects is not None and args.objects < 1:
        raise BadInput(f"--objects: expected a number of at least 1, got {args.objects}")
    try:
        form = line_format(args.format, args.duration)
    except FormatError as error:
        raise BadInput(f"--format: {printable(str(error))}") from error
    log = read(args.file, form)

    from plimsoll.access_log.experiment import experiment_files
    from plimsoll.access_log.model import model_of
    from plimsoll.access_log.sentences import sentences

    output: Path = args.output or Path(f"{name(Path(args.file.name.removesuffix('.gz')))}.yaml")
    model = model_of(log, args.objects)
    place = os.path.relpath(args.file, output.parent)
    try:
        files = experiment_files(model, log.paths, name(output), args.target, place, form)
    except UnicodeEncodeError as error:
        raise BadInput(f"{printable(str(args.file))}: the name of the log is not UTF-8; rename it") from error
    write(output, files, args.force)
    for line in sentences(model, printable(args.file.name)):
        print(line)
    print(f"wrote {output} and {', '.join(files.paths)}; next: plimsoll plan {output}")
    return verdict(log.counts, args.file.name)


def read(path: Path, form: LineFormat) -> AccessLog:
    """The requests of a log. Raises BadInput if it cannot be read, or has none."""
    from plimsoll.plan.queries.access_log import read_access_log

    shown = printable(str(path))
    try:
        if path.exists() and not path.is_file():
            raise BadInput(f"{shown}: expected a file")
        log = read_access_log(path, form)
    except OSError as error:
        raise BadInput(f"{shown}: cannot be read: {error.strerror or error}") from error
    if not log.start_ns:
        raise BadInput(
            f"the log contains no GET or HEAD request that can be used: {log.counts.remark(shown)}"
        )
    return log


def write(output: Path, files: ExperimentFiles, is_forced: bool) -> None:
    """Writes the experiment file and the files of paths next to it. Raises BadInput if one exists, unless forced."""
    listed = {
        output: files.text.encode(),
        **{
            output.parent / each: b"".join(line + b"\n" for line in lines)
            for each, lines in files.paths.items()
        },
    }
    for path in listed:
        if path.exists() and not is_forced:
            raise BadInput(f"{path}: the file exists; give another name with -o, or --force to overwrite it")
    for path, content in listed.items():
        try:
            path.write_bytes(content)
        except OSError as error:
            raise BadInput(f"{path}: cannot be written: {error.strerror}") from error


def verdict(counts: LineCounts, log: str) -> int:
    """The exit code, with a message if it is not 0."""
    if counts.all_malformed <= MAX_MALFORMED * counts.lines:
        return int(ExitCode.PASSED)
    text = f"{counts.all_malformed:,} of {counts.lines:,} lines cannot be read; check --format"
    print(printable(f"plimsoll: {log}: {text}"), file=sys.stderr)
    return int(ExitCode.MEASUREMENT_INVALID)
