"""Repeat until tight: after each block, which cells are repeated again.

A cell stops when the half width of the interval of each named metric is at most the wanted share of its estimate, at
the earliest after `at_least` valid repetitions. The intervals allow for the looks (`analyse/stats/sequential.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellWidths:
    """Relative half widths of a cell by metric after this number of valid repetitions; None: there is no interval."""

    repetitions: int
    widths: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a cell is repeated in the next block, and why."""

    repeat: bool
    reason: str


def decide(wanted_widths: Mapping[str, float], at_least: int, cell: CellWidths) -> Decision:
    """The decision on one cell before the next block."""
    if cell.repetitions < at_least:
        return Decision(True, f"{cell.repetitions} of at least {at_least} valid repetitions")
    wide = too_wide(wanted_widths, cell)
    if not wide:
        return Decision(False, f"tight after {cell.repetitions} valid repetitions")
    return Decision(True, "; ".join(wide))


def too_wide(wanted_widths: Mapping[str, float], cell: CellWidths) -> list[str]:
    """A text for each metric whose interval is wider than wanted: "throughput: +/- 8.1 %, 5 % wanted"."""
    texts = []
    for metric, wanted in wanted_widths.items():
        width = cell.widths.get(metric)
        if width is None:
            texts.append(f"{metric}: no interval")
        elif width > wanted:
            shown = "over 1,000 %" if not math.isfinite(width) or width > 10 else f"{100 * width:.2g} %"
            texts.append(f"{metric}: +/- {shown}, {100 * wanted:g} % wanted")
    return texts
