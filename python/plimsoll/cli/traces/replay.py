"""`plimsoll replay`: repeats the file accesses of a trace on a file system, and reports the result."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from plimsoll.errors import BadInput, ExitCode
from plimsoll.trace import replay
from plimsoll.trace.replay import ReplayOutput, ReplayRequest

EXAMPLES = """examples:
  plimsoll replay job.trace --root /mnt/new --check          list the files that are missing
  plimsoll replay job.trace --root /mnt/new --prepare        create them
  plimsoll replay job.trace --root /mnt/new                  replay with the program's think times
  plimsoll replay job.trace --root /mnt/new --timing afap    replay as fast as possible
  plimsoll replay job.trace --root /mnt/new --clean          remove the files that were created
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the trace, the directory and the timing."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("trace", type=Path, help="trace file")
    parser.add_argument(
        "--root",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory of the replay: no file outside it is accessed",
    )
    parser.add_argument(
        "--timing", choices=("diff", "exact", "afap"), default="diff",
        help="diff: keep the think times (default); exact: keep the start times; afap: as fast as possible",
    )  # fmt: skip
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for the think times with --timing diff (default: 1)"
    )
    parser.add_argument(
        "--order", choices=("resource", "trace"), default="resource",
        help="resource: threads wait only for shared resources (default); trace: the recorded order of all calls",
    )  # fmt: skip
    parser.add_argument(
        "--map", type=Path, metavar="FILE", help="file of renaming rules, such as: /data => /scratch/data"
    )
    parser.add_argument("--ignore", type=Path, metavar="FILE", help="file of path names to leave out")
    stages = parser.add_argument_group("before and after")
    stages.add_argument("--check", action="store_true", help="list what the directory lacks; replay nothing")
    stages.add_argument(
        "--prepare", action="store_true", help="create what the directory lacks; replay nothing"
    )
    stages.add_argument("--clean", action="store_true", help="remove what --prepare and the replay created")
    stages.add_argument(
        "--run", action="store_true", help="replay as well, after --prepare and before --clean"
    )
    stages.add_argument(
        "--force", action="store_true", help="--prepare also removes files that must not exist"
    )
    stages.add_argument("--sparse", action="store_true", help="--prepare writes sparse files instead of data")
    parser.add_argument(
        "--compressible",
        default="0%",
        metavar="PERCENT",
        help="compressible share of the written data (default: 0%%)",
    )
    parser.add_argument(
        "--read-maps", action="store_true", help="also read the memory-mapped ranges of files"
    )
    parser.add_argument("--allow-root", action="store_true", help="allow a replay as root")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def main(args: argparse.Namespace) -> int:
    """Returns 99 if a result differs from the trace, or if the directory lacks a file; 130 if the replay was
    stopped."""
    if not args.root.is_dir():
        raise BadInput(f"--root {args.root}: not a directory; create it, or give another one")
    if not 0 <= args.scale < float("inf"):
        raise BadInput(f"--scale {args.scale:g}: expected a finite number of at least 0")
    request = ReplayRequest(
        trace=args.trace,
        root=args.root,
        timing=args.timing,
        scale=args.scale,
        order=args.order,
        map=args.map,
        ignore=args.ignore,
        compressible=_percent(args.compressible),
        flags=tuple(
            flag
            for flag in ("check", "prepare", "clean", "run", "force", "sparse", "read_maps", "allow_root")
            if getattr(args, flag)
        ),
    )
    output = replay.replay(request)
    if args.json:
        json.dump(output.document, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        print(replay.summary_text(output))
    return int(_verdict(output))


def _percent(text: str) -> float:
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 <= share <= 100:
        raise BadInput(f"--compressible {text}: expected a percentage from 0% to 100%")
    return share


def _verdict(output: ReplayOutput) -> ExitCode:
    document: dict[str, Any] = output.document
    replayed = document.get("replayed")
    if replayed is not None:
        if replayed["stopped"]:
            return ExitCode.INTERRUPTED
        return ExitCode.PASSED if replayed["is_faithful"] else ExitCode.THRESHOLD_FAILED
    left = document["prepared"]["left"] if "prepared" in document else document.get("check", {}).get("causes")
    return ExitCode.THRESHOLD_FAILED if left else ExitCode.PASSED
