"""Cache hits and misses, as a table."""

from __future__ import annotations

from plimsoll.analyse.design.caches import HIT, MISS, miss_ratios, of
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import UNKNOWN, number, percent
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.labels import Labels
from plimsoll.report.tables.analysis import cell_heads, cell_words, milliseconds
from plimsoll.report.tables.table import Column, Table

NOTE = (
    "Hits and misses as the caches reported them in their answers. Times: mean response times over the runs of a cell. "
    "Ratio: of the means of each run, with the interval of its logarithm, pooled over the cells."
)


def by_cache(labels: Labels) -> Table | None:
    """A row for each cell whose caches reported hits or misses; None if no cache did."""
    cells = [
        (cell, [run for run in labels.runs() if run.valid and run.cell == cell.cell])
        for cell in labels.cells()
    ]
    cells = [(cell, runs) for cell, runs in cells if any(run.caches for run in runs)]
    ratios = miss_ratios([runs for _, runs in cells])
    rows = [
        (
            *cell_words(labels, cell),
            percent(_share(runs)),
            *(milliseconds(_mean(runs, kind)) for kind in (HIT, MISS)),
            _ratio_words(ratio),
        )
        for (cell, runs), ratio in zip(cells, ratios, strict=True)
    ]
    if not rows:
        return None
    heads = ("Hits", "Hit", "Miss", "Miss / hit")
    columns = (*map(Column, cell_heads(labels).split("|")), *(Column(name, numeric=True) for name in heads))
    return Table("Cache hits and misses", columns, tuple(rows), NOTE)


def _share(runs: list[RunResult]) -> float:
    return sum(times.share if (times := of(run, HIT)) else 0.0 for run in runs) / len(runs)


def _mean(runs: list[RunResult], kind: str) -> float | None:
    means = [times.response_ms.mean for run in runs if (times := of(run, kind)) is not None]
    known = [value for value in means if value is not None]
    return sum(known) / len(known) if known else None


def _ratio_words(ratio: Interval | None) -> str:
    if ratio is None:
        return UNKNOWN
    if ratio.low is None or ratio.high is None:
        return number(ratio.mean, 2)
    return f"{number(ratio.mean, 2)} ({number(ratio.low, 2)} to {number(ratio.high, 2)})"
