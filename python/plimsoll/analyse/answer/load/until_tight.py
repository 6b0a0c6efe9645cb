"""Whether the cells of `repetitions: {until: ...}` are tight, in sentences."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.until_tight import TightCell, UntilTightResult
from plimsoll.analyse.results.metrics import canonical
from plimsoll.analyse.results.verdicts import Finding, Topic
from plimsoll.analyse.results.wording import describe, level_words, listing, plural
from plimsoll.search.until_tight import CellWidths, too_wide

MAX_NAMED: Final = 3
CONVERGED: Final = "converged"
NOT_CONVERGED: Final = "not converged"


def of_until_tight(analysis: Analysis) -> tuple[Finding, ...]:
    """One sentence; none while repetitions are still to come, or if their number is fixed."""
    result = analysis.until
    if result is None or not result.cells or not analysis.experiment.complete:
        return ()
    wide = [cell for cell in result.cells if not cell.is_tight]
    verdict = NOT_CONVERGED if wide else CONVERGED
    text = _not_converged(result, wide) if wide else _converged(result)
    return (
        Finding(
            Topic.REPETITIONS, text, verdict, {"cells": len(result.cells), "wide": len(wide)}, result.rule
        ),
    )


def _converged(result: UntilTightResult) -> str:
    numbers = sorted(cell.repetitions for cell in result.cells)
    spread = f"{numbers[0]}" if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"
    wanted = listing(f"{_title(metric)} (+/- {100 * share:g} %)" for metric, share in result.wanted.items())
    cells = {1: "The cell is", 2: "Both cells are"}.get(len(numbers), f"All {len(numbers)} cells are")
    return f"{cells} as tight as wanted after {spread} repetitions: {wanted}."


def _not_converged(result: UntilTightResult, wide: list[TightCell]) -> str:
    texts = [
        f"{level_words(cell.cell) or 'the cell'} ({'; '.join(_wide(result, cell))})"
        for cell in wide[:MAX_NAMED]
    ]
    more = f" and {len(wide) - MAX_NAMED} more" if len(wide) > MAX_NAMED else ""
    return (
        f"Not converged: after {result.at_most} repetitions, {len(wide)} of {plural(len(result.cells), 'cell')} "
        f"{'has' if len(wide) == 1 else 'have'} wider intervals than wanted: {', '.join(texts)}{more}."
    )


def _wide(result: UntilTightResult, cell: TightCell) -> list[str]:
    return too_wide(result.wanted, CellWidths(cell.repetitions, cell.widths)) or ["too few valid repetitions"]


def _title(metric: str) -> str:
    return describe(canonical(metric) or metric).title
