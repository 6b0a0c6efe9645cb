"""The stored analysis of a results directory, written by this release or an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plimsoll.collect.files import read_json
from plimsoll.errors import DamagedResults


def read_earlier(directory: Path) -> dict[str, Any] | None:
    """analysis.json as it is stored; None if it does not exist. Raises DamagedResults if it cannot be read."""
    path = directory / "analysis.json"
    if not path.exists():
        return None
    try:
        return read_json(path, "plimsoll.analysis")
    except RecursionError as error:
        raise DamagedResults(f"{path} cannot be read: it is nested too deeply") from error
