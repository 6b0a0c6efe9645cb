"""What is valid in an experiment file and probably a mistake. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plimsoll.plan.model import Cell

TABLES = (".csv", ".tsv")


def unused_targets(tree: Mapping[str, Any], cells: Iterable[Cell]) -> tuple[str, ...]:
    """A warning for each target that no workload of any cell uses."""
    written = tree.get("targets")
    if not isinstance(written, Mapping):
        return ()
    used = {work.target.name for cell in cells for work in cell.config.workloads}
    return tuple(f"targets.{name}: no workload uses this target" for name in written if name not in used)


def header_as_value(name: str, file: str, items: Sequence[str]) -> tuple[str, ...]:
    """A warning where the first line of a table seems to be a header: it would be sent as a value."""
    if not file.lower().endswith(TABLES) or len(items) < 2:
        return ()
    first, rest = items[0], items[1:]
    columns = any(mark in first for mark in ",;\t")
    words = not _has_digit(first) and sum(map(_has_digit, rest)) * 2 > len(rest)
    if not (columns or words or first.strip(' "').lower() == name.lower()):
        return ()
    whole = ", and each line is one value with all its columns" if columns else ""
    return (
        f'values.{name}: the first line of {file}, "{first[:60]}", is used as a value{whole}: '
        "a file of values has no header line",
    )


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)
