"""Cache hits and misses, as a table."""

from __future__ import annotations

from plimsoll.analyse.design.caches import HIT, MISS, miss_ratios, of
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import UNKNOWN, number, percent
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.labels import Labels
from plimsoll.report.table import Column, Table
from plimsoll.report.tables import cell_heads, cell_words, milliseconds

NOTE = (
    "Hits and misses as the caches reported them in their answers. Times: mean response times over the runs of a cell. "
    "Ratio: of the means of each run, with the interval of its logarithm, pooled over the cells."
)


def by_cache(labels: Labels) -> Table | None:
    """Every cell whose caches reported hits or misses; None where none did."""
    told = [
        (cell, [run for run in labels.runs() if run.valid and run.cell == cell.cell])
        for cell in labels.cells()
    ]
    told = [(cell, runs) for cell, runs in told if any(run.caches for run in runs)]
    ratios = miss_ratios([runs for _, runs in told])
    rows = [
        (
            *cell_words(labels, cell),
            percent(_share(runs)),
            *(milliseconds(_mean(runs, said)) for said in (HIT, MISS)),
            _ratio_words(ratio),
        )
        for (cell, runs), ratio in zip(told, ratios, strict=True)
    ]
    if not rows:
        return None
    heads = ("Hits", "Hit", "Miss", "Miss / hit")
    columns = (*map(Column, cell_heads(labels).split("|")), *(Column(name, numeric=True) for name in heads))
    return Table("Cache hits and misses", columns, tuple(rows), NOTE)


def _share(runs: list[RunResult]) -> float:
    return sum(found.share if (found := of(run, HIT)) else 0.0 for run in runs) / len(runs)


def _mean(runs: list[RunResult], said: str) -> float | None:
    known = [found.response_ms.mean for run in runs if (found := of(run, said)) is not None]
    told = [value for value in known if value is not None]
    return sum(told) / len(told) if told else None


def _ratio_words(ratio: Interval | None) -> str:
    if ratio is None:
        return UNKNOWN
    if ratio.low is None or ratio.high is None:
        return number(ratio.mean, 2)
    return f"{number(ratio.mean, 2)} ({number(ratio.low, 2)} to {number(ratio.high, 2)})"
