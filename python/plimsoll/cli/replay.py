"""`plimsoll replay`: does to a file system what a trace tells, and says how it went."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from plimsoll.errors import BadInput, ExitCode
from plimsoll.trace import replay
from plimsoll.trace.replay import Answer, ReplayRequest

EXAMPLES = """examples:
  plimsoll replay job.trace --root /mnt/new --check          what is missing there
  plimsoll replay job.trace --root /mnt/new --prepare        make it
  plimsoll replay job.trace --root /mnt/new                  replay it, with the think times of the program
  plimsoll replay job.trace --root /mnt/new --timing afap    as fast as possible
  plimsoll replay job.trace --root /mnt/new --clean          take away what was made
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is replayed, where, how fast."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("trace", type=Path, help="trace file")
    parser.add_argument("--root", type=Path, required=True, metavar="DIR", help="all happens beneath it")
    parser.add_argument(
        "--timing", choices=("diff", "exact", "afap"), default="diff",
        help="diff: think times are kept (default); exact: starts are; afap: as fast as possible",
    )  # fmt: skip
    parser.add_argument(
        "--scale", type=float, default=1.0, help="what computing is multiplied by in diff (default: 1)"
    )
    parser.add_argument(
        "--order", choices=("resource", "trace"), default="resource",
        help="threads wait where they share something (default), or strictly as recorded",
    )  # fmt: skip
    parser.add_argument("--map", type=Path, metavar="FILE", help="rules for names: /data => /scratch/data")
    parser.add_argument("--ignore", type=Path, metavar="FILE", help="names to leave out")
    what = parser.add_argument_group("before and after")
    what.add_argument("--check", action="store_true", help="say what the directory lacks, replay nothing")
    what.add_argument("--prepare", action="store_true", help="make what it lacks, replay nothing")
    what.add_argument("--clean", action="store_true", help="remove what was made there")
    what.add_argument("--run", action="store_true", help="replay as well: between --prepare and --clean")
    what.add_argument("--force", action="store_true", help="--prepare also removes what must not be there")
    what.add_argument("--sparse", action="store_true", help="--prepare makes holes instead of data")
    parser.add_argument(
        "--compressible", default="0%", metavar="PERCENT", help="share of data that compresses to nothing"
    )
    parser.add_argument("--read-maps", action="store_true", help="read what the program had mapped")
    parser.add_argument("--allow-root", action="store_true", help="it may run as root")
    parser.add_argument("--json", action="store_true", help="all of it as JSON")


def main(args: argparse.Namespace) -> int:
    """99 where results are not those of the trace, or the directory lacks something."""
    if not args.root.is_dir():
        raise BadInput(f"{args.root} is no directory: make it, or give another --root")
    if not 0 <= args.scale < float("inf"):
        raise BadInput(f"--scale {args.scale:g}: a number from 0 on is expected")
    asked = ReplayRequest(
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
    answer = replay.replay(asked)
    if args.json:
        json.dump(answer.document, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        print(replay.in_words(answer))
    return int(_verdict(answer))


def _percent(text: str) -> float:
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        share = -1.0
    if not text.endswith("%") or not 0 <= share <= 100:
        raise BadInput(f"--compressible {text}: a share between 0% and 100% is expected")
    return share


def _verdict(answer: Answer) -> ExitCode:
    document: dict[str, Any] = answer.document
    replayed = document.get("replayed")
    if replayed is not None:
        if replayed["stopped"]:
            return ExitCode.INTERRUPTED
        return ExitCode.PASSED if replayed["is_faithful"] else ExitCode.THRESHOLD_FAILED
    left = document["prepared"]["left"] if "prepared" in document else document.get("check", {}).get("causes")
    return ExitCode.THRESHOLD_FAILED if left else ExitCode.PASSED
