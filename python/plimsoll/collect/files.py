"""Reads JSON files and files of JSON lines of a results directory, and checks their format versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plimsoll.errors import DamagedResults

READABLE = {
    "plimsoll.plan": 1,
    "plimsoll.run-record": 1,
    "plimsoll.environment": 1,
    "plimsoll.baseline": 1,
    "plimsoll.summary": 1,
    "plimsoll.live": 1,
    "plimsoll.transactions": 1,
    "plimsoll.samples": 1,
    "plimsoll.clock": 1,
    "plimsoll.clock-map": 1,
    "plimsoll.probes": 1,
    "plimsoll.metrics": 1,
    "plimsoll.analysis": 1,
    "plimsoll.counters": 1,
    "plimsoll.runs": 1,
    "plimsoll.suite": 1,
    "plimsoll.trials": 1,
    "plimsoll.compared-runs": 1,
}
"""Formats and their greatest major version that this release reads."""


def require_readable(stated_format: object, name: str, path: Path) -> None:
    """Raises DamagedResults unless `stated_format` is "NAME/MAJOR" with a major version that this release reads."""
    kind, _, major = str(stated_format).partition("/")
    if kind != name or not major.isdigit():
        raise DamagedResults(f"{path}: not a {name} file (its format is {stated_format!r})")
    if int(major) > READABLE[name]:
        raise DamagedResults(
            f"{path}: its format is version {major} of {name}; this release reads up to version "
            f"{READABLE[name]}: use a newer Plimsoll"
        )


def read_json(path: Path, name: str) -> dict[str, Any]:
    """Reads a JSON file of Plimsoll; raises DamagedResults if it is missing, invalid or has a newer format."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DamagedResults(f"{path} is missing") from error
    except (OSError, ValueError) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise DamagedResults(f"{path}: expected a JSON object")
    require_readable(document.get("format"), name, path)
    return document


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one per line; empty if there is no file. Invalid lines are left out: a killed process
    leaves its last line incomplete."""
    objects = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            objects.append(value)
    return objects
