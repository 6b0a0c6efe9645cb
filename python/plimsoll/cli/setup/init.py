"""`plimsoll init [FILE]`: write a commented experiment file to start from."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from plimsoll.errors import BadInput, ExitCode
from plimsoll.plan.template import template


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the file."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=Path("experiment.yaml"),
        help="file to write (default: experiment.yaml)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def main(args: argparse.Namespace) -> int:
    """Writes the file and prints the next steps."""
    try:
        with args.file.open("w" if args.force else "x", encoding="utf-8") as file:
            file.write(template(name(args.file), str(args.file)))
    except FileExistsError as error:
        raise BadInput(
            f"{args.file}: the file exists; give another name, or --force to overwrite it"
        ) from error
    except OSError as error:
        raise BadInput(f"{args.file}: cannot be written: {error.strerror}") from error
    print(f"wrote {args.file}; next: plimsoll plan {args.file}, then plimsoll run {args.file}")
    return int(ExitCode.PASSED)


def name(path: Path) -> str:
    """The name of the experiment, derived from that of its file."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")
    return stem or "experiment"
