"""The response time of cache misses relative to that of hits, in sentences."""

from __future__ import annotations

from plimsoll.analyse.design.caches import miss_ratios
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.wording import level_words, number
from plimsoll.analyse.stats.interval import Interval

_SUBJECT = "Cache misses took"


def of_caches(analysis: Analysis) -> list[str]:
    """One sentence on the cells whose runs have enough hits and misses: the lowest and the highest ratio."""
    runs = [[run for run in analysis.runs if run.valid and run.cell == cell.cell] for cell in analysis.cells]
    ratios = zip(analysis.cells, miss_ratios(runs), strict=True)
    known = [(cell, ratio) for cell, ratio in ratios if ratio is not None]
    if not known:
        return []
    known.sort(key=lambda item: item[1].mean)
    (lowest_cell, lowest), (highest_cell, highest) = known[0], known[-1]
    if len(known) == 1:
        where = f" with {level_words(lowest_cell.cell)}" if lowest_cell.cell else ""
        return [f"{_SUBJECT} {_times(lowest)} as long as cache hits{where} (means of the response time)."]
    return [
        f"{_SUBJECT} between {_times(lowest)} ({level_words(lowest_cell.cell)}) and {_times(highest)} "
        f"({level_words(highest_cell.cell)}) as long as cache hits (means of the response time)."
    ]


def _times(ratio: Interval) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{number(ratio.mean, 2)} times"
    return f"{number(ratio.mean, 2)} times ({number(ratio.low, 2)} to {number(ratio.high, 2)})"
