"""`plimsoll schema`: the JSON Schema of the experiment file, for editors."""

from __future__ import annotations

import argparse
import json

from plimsoll.errors import ExitCode
from plimsoll.plan import json_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares no option."""
    parser.epilog = (
        "To use it in an editor, save it as plimsoll.schema.json and begin the experiment file with: "
        "# yaml-language-server: $schema=./plimsoll.schema.json"
    )


def main(args: argparse.Namespace) -> int:
    """Prints the schema."""
    print(json.dumps(json_schema(), indent=2))
    return int(ExitCode.PASSED)
