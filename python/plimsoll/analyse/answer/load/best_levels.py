"""The level of the first factor with the most reads in each combination of the other factors, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.answer.words import MAX_SENTENCES, capital
from plimsoll.analyse.results.analysis import Analysis, CellResult
from plimsoll.analyse.results.wording import factor_word, level_words, listing

METRIC: Final = "reads_per_s"
Best = tuple[str, ...]
"""The levels with the most reads, the highest mean first: one, or several between which no difference was detected."""


def of_best_levels(analysis: Analysis) -> list[str]:
    """A sentence for each set of best levels, with the combinations in which they are the best. Empty without readers
    of versions, without `reads_per_s` among the responses, and for a single combination."""
    factor = analysis.consistency.factor if analysis.consistency is not None else None
    if factor is None:
        return []
    combinations: dict[tuple[tuple[str, str], ...], list[CellResult]] = {}
    for cell in analysis.cells:
        if cell.valid and METRIC in cell.responses and factor in cell.cell:
            rest = tuple((name, level) for name, level in cell.cell.items() if name != factor)
            combinations.setdefault(rest, []).append(cell)
    compared = {rest: cells for rest, cells in combinations.items() if len(cells) > 1}
    places: dict[Best, list[str]] = {}
    for rest, cells in compared.items():
        places.setdefault(_best(cells, factor), []).append(level_words(dict(rest)))
    if len(compared) < 2 or len(places) > MAX_SENTENCES:
        return []
    if len(places) == 1:
        return [_sentence(next(iter(places)), "in each combination of the other factors", factor)]
    return [_sentence(best, "with " + "; with ".join(where), factor) for best, where in places.items()]


def _best(cells: Sequence[CellResult], factor: str) -> Best:
    """Intervals that do not overlap are a difference; without intervals, the highest mean is the best."""
    first, *others = sorted(cells, key=lambda cell: -cell.responses[METRIC].mean)
    low = first.responses[METRIC].low
    if low is None:
        return (first.cell[factor],)
    ends = [(cell, cell.responses[METRIC].high) for cell in others]
    same = [cell for cell, high in ends if high is None or high >= low]
    return tuple(cell.cell[factor] for cell in (first, *same))


def _sentence(best: Best, where: str, factor: str) -> str:
    if len(best) == 1:
        return f"{capital(level_words({factor: best[0]}))} has the most reads/s {where}."
    return (
        f"No difference in reads/s between the levels {listing(best)} of {factor_word(factor)} was detected, and no "
        f"other level has more, {where}."
    )
