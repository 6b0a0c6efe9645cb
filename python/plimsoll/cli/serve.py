"""`plimsoll serve NAME`: one of our reference services by itself, until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from plimsoll.deploy.binary import find_engine
from plimsoll.errors import BadInput

NAMES = ("frontier", "echo", "delay", "null")
EXAMPLES = """settings are those of the engine's service, as JSON, as they stand in runs/NNNN/services/NAME/config:
  plimsoll serve echo --listen 127.0.0.1:8080
  plimsoll serve delay --set '{"servers": 2, "service": {"law": "exponential", "mean_s": 0.01}}'
  plimsoll serve frontier --set '{"database": "conditions.sqlite"}'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A name, an address, settings."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("name", choices=NAMES)
    parser.add_argument(
        "--listen", default="127.0.0.1:0", metavar="ADDRESS:PORT", help="default: a free port of loopback"
    )
    parser.add_argument("--set", default="{}", metavar="JSON", help="the service's settings")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the same from a file")


def main(args: argparse.Namespace) -> int:
    """Becomes the engine, so that signals and exit status are its own."""
    try:
        text = args.config.read_text(encoding="utf-8") if args.config else args.set
        settings = json.loads(text)
    except OSError as error:
        raise BadInput(f"--config {args.config}: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"{args.config or '--set'} is no JSON: {error}") from error
    if not isinstance(settings, dict):
        raise BadInput(f"{args.config or '--set'}: expected a JSON object of settings")
    engine = find_engine()
    reader, writer = os.pipe()
    os.write(writer, (json.dumps(settings) + "\n").encode())
    os.close(writer)
    os.dup2(reader, 0)
    os.execv(engine, [str(engine), "serve", args.name, "--listen", args.listen, "--config", "-"])
