"""How far the cells of `repetitions: {until: ...}` came, as a table. Pure."""

from __future__ import annotations

from plimsoll.analyse.results.load.until_tight import TightCell, UntilTightResult
from plimsoll.analyse.results.metrics import canonical
from plimsoll.analyse.results.wording import UNKNOWN, count, describe, level_words, percent
from plimsoll.report.tables.table import Table, table_of


def table(result: UntilTightResult) -> Table:
    """A row for each cell: its valid repetitions, the half width of each interval against the wanted one, and the
    decision."""
    has_cells = any(cell.cell for cell in result.cells)
    rows = [
        (
            *((level_words(cell.cell),) if has_cells else ()),
            _decision(result, cell),
            count(cell.repetitions),
            *(_width(cell.widths.get(metric), wanted) for metric, wanted in result.wanted.items()),
        )
        for cell in result.cells
    ]
    heads = "|".join(
        f"{describe(canonical(metric) or metric).title} (± {100 * wanted:g} %)"
        for metric, wanted in result.wanted.items()
    )
    note = (
        f"Each cell is repeated {result.at_least} to {result.at_most} times, until the half width of the interval of "
        "each metric is at most the share of its estimate in the head of the column. * wider than wanted."
    )
    words = "Cell|Decision" if has_cells else "Decision"
    return table_of("Repeat until tight", words, f"Valid repetitions|{heads}", rows, note)


def _decision(result: UntilTightResult, cell: TightCell) -> str:
    if cell.is_tight:
        return "tight"
    return "not converged" if cell.repetitions >= result.at_most else "not tight yet"


def _width(width: float | None, wanted: float) -> str:
    if width is None:
        return UNKNOWN
    return f"± {percent(width)}" + (" *" if width > wanted else "")
