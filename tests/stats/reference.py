"""Reads the data sets of `data/`."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Table:
    """A response and its factors, one entry per run."""

    y: list[float]
    factors: dict[str, list[str]]

    @property
    def signs(self) -> dict[str, list[str]]:
        """Order of levels for factors coded -1 and 1."""
        return {name: ["-1", "1"] for name in self.factors}


def table(name: str, *, leave_out: tuple[str, ...] = ()) -> Table:
    """The table of that name; every column except `y` is a factor."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = [c for c in rows[0] if c != "y" and c not in leave_out]
    return Table([float(row["y"]) for row in rows], {c: [row[c] for row in rows] for c in columns})
