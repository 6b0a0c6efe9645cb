"""`plimsoll serve NAME`: runs one reference service on its own, until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.errors import BadInput
from plimsoll.plan.services.table import SERVICE_KINDS

NAMES = tuple(kind for kind, section in SERVICE_KINDS.items() if section.runs_in_engine)
EXAMPLES = """The settings have the JSON form of runs/NNNN/services/NAME/config in a results directory.

examples:
  plimsoll serve echo --listen 127.0.0.1:8080
  plimsoll serve delay --set '{"servers": 2, "service": {"law": "exponential", "mean_s": 0.01}}'
  plimsoll serve frontier --set '{"database": "conditions.sqlite"}'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the name, the address and the settings."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("name", choices=NAMES, help="service to run")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="ADDRESS:PORT",
        help="address to listen on (default: a free port of 127.0.0.1)",
    )
    parser.add_argument("--set", default="{}", metavar="JSON", help="settings of the service (default: {})")
    parser.add_argument("--config", type=Path, metavar="FILE", help="file that contains the settings as JSON")


def main(args: argparse.Namespace) -> int:
    """Replaces this process by the engine, so that signals and exit status are those of the engine."""
    try:
        text = args.config.read_text(encoding="utf-8") if args.config else args.set
        settings = json.loads(text)
    except OSError as error:
        raise BadInput(f"--config {args.config}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{args.config or '--set'}: not valid JSON: {error}") from error
    if not isinstance(settings, dict):
        raise BadInput(f"{args.config or '--set'}: expected a JSON object of settings")
    engine = find_engine()
    reader, writer = os.pipe()
    os.write(writer, (json.dumps(settings) + "\n").encode())
    os.close(writer)
    os.dup2(reader, 0)
    os.execv(engine, [str(engine), "serve", args.name, "--listen", args.listen, "--config", "-"])
