"""`plimsoll schema`: the JSON Schema of the experiment file, for editors."""

from __future__ import annotations

import argparse
import json

from plimsoll.errors import ExitCode
from plimsoll.plan import json_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to choose."""
    parser.epilog = "Use it in an editor: # yaml-language-server: $schema=./plimsoll.schema.json"


def main(args: argparse.Namespace) -> int:
    """Prints it."""
    print(json.dumps(json_schema(), indent=2))
    return int(ExitCode.PASSED)
