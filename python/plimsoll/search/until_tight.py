"""Repeat until tight: after each block, which cells are repeated again.

A cell stops when the half width of the interval of each named metric is at most the wanted share of its estimate, at
the earliest after `at_least` valid repetitions, and not before the cells with which it is compared. The intervals allow
for the looks (`analyse/stats/sequential.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


def decide_together(
    wanted_widths: Mapping[str, float], at_least: int, cells: Sequence[CellWidths]
) -> list[Decision]:
    """The decisions on cells that are compared with each other, such as those of a pair: a comparison uses the blocks
    that they have in common, so a tight cell is repeated as long as another one of them is."""
    own = [decide(wanted_widths, at_least, cell) for cell in cells]
    if not any(decision.repeat for decision in own):
        return own
    return [
        decision
        if decision.repeat
        else Decision(True, f"{decision.reason}; repeated with the cell that it is compared with")
        for decision in own
    ]


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
