"""Tables of stale answers of concurrently written objects, and of the cost of consistency."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import CellResult, Consistency
from plimsoll.analyse.results.run import Readers
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    count,
    factor_word,
    percent,
    percent_range,
    plus_minus,
)
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.labels import Labels
from plimsoll.report.tables.analysis import cell_heads, cell_words, milliseconds
from plimsoll.report.tables.table import Column, Table

TERMS: Final = (
    (
        "Stale",
        "An answer is stale if a newer version of its object was acknowledged to its writer before the read started. "
        "Its age is the time between the two.",
    ),
    (
        "Origin fetch, needless fetch",
        "A read that the origin answered, because a cache missed it or there is no cache. Needless: the fetched "
        "version is that of the previous answer for the same object.",
    ),
)
"""Definitions for the list of terms, if the report shows stale answers."""
NOTE: Final = (
    "Stale: answers whose version was superseded before the read started. Age: time since it was superseded, over "
    "the stale answers of all runs."
)
COSTS: Final = (
    "Fetches: share of the answers that came from the origin. Needless: share of the fetches whose version is that of "
    "the previous answer."
)


def has_readers(labels: Labels) -> bool:
    """Whether at least one tester read versions."""
    return labels.analysis.consistency is not None


def of_cell(labels: Labels, cell: CellResult) -> Consistency | None:
    """The staleness of the answers in a cell; None if no tester of the cell read versions."""
    result = labels.analysis.consistency
    return (
        next((candidate for candidate in result.cells if candidate.cell == cell.cell), None)
        if result
        else None
    )


def share_words(interval: Interval | None, digits: int = 3) -> str:
    """The two ends of the interval of a share (0 to 1): `2.1 to 2.4 %`."""
    if interval is None or interval.low is None or interval.high is None:
        return UNKNOWN
    return percent_range(interval.low, interval.high, digits)


def cells(labels: Labels) -> Table:
    """A row for each cell: throughput of its readers, share of stale answers, and their age."""
    shown = _shown(labels)
    rows = [
        (
            *cell_words(labels, cell),
            plus_minus(cell.responses.get("reads_per_s"), "rate"),
            percent(consistency.stale_share.mean if consistency.stale_share else None),
            share_words(consistency.stale_share, 2),
            *map(
                milliseconds,
                (consistency.stale_age_ms_p50, consistency.stale_age_ms_p95, consistency.stale_age_ms_max),
            ),
        )
        for cell, consistency in shown
    ]
    heads = ("Reads/s", "Stale", "Interval", "Median age", "p95", "Oldest")
    columns = (*map(Column, cell_heads(labels).split("|")), *(Column(name, numeric=True) for name in heads))
    return Table("Stale answers, per cell", columns, tuple(rows), f"{NOTE} {_methods(shown)}".strip())


def costs(labels: Labels) -> Table:
    """A row for each cell with the cost of its consistency: origin fetches, and utilization of the services."""
    shown = _shown(labels)
    services = list(dict.fromkeys(name for _, consistency in shown for name in consistency.busy))
    rows = [
        (
            *cell_words(labels, cell),
            plus_minus(cell.responses.get("writes_per_s"), "rate"),
            percent(consistency.fetches_per_answer),
            percent(consistency.needless_share),
            *(percent(consistency.busy.get(name), 2) for name in services),
        )
        for cell, consistency in shown
    ]
    heads = ("Writes/s", "Fetches", "Needless", *services)
    columns = (*map(Column, cell_heads(labels).split("|")), *(Column(name, numeric=True) for name in heads))
    note = f"{COSTS} By service: its utilization, mean over the runs." if services else COSTS
    return Table("Cost of the answers, per cell", columns, tuple(rows), note)


def _shown(labels: Labels) -> list[tuple[CellResult, Consistency]]:
    return [
        (cell, consistency) for cell in labels.cells() if (consistency := of_cell(labels, cell)) is not None
    ]


def _methods(shown: list[tuple[CellResult, Consistency]]) -> str:
    known = {
        consistency.stale_share.method
        for _, consistency in shown
        if consistency.stale_share and consistency.stale_share.low is not None
    }
    return f"Interval of the stale: {'; '.join(sorted(known))}." if known else ""


def levels(labels: Labels) -> Table | None:
    """A row for each level of the first factor, over all other factors. None if each level is one cell."""
    result = labels.analysis.consistency
    if result is None or result.factor is None or len(result.levels) == len(result.cells):
        return None
    rows = [
        (
            level.cell[result.factor],
            count(level.answers),
            percent(level.stale_share.mean if level.stale_share else None),
            share_words(level.stale_share),
            milliseconds(level.stale_age_ms_p95),
            _relative(level.relative_reads),
            percent(level.fetches_per_answer),
            percent(level.needless_share),
        )
        for level in result.levels
    ]
    heads = ("Answers", "Stale", "Interval", "Age p95", "Relative reads/s", "Fetches", "Needless")
    columns = (Column(factor_word(result.factor)), *(Column(name, numeric=True) for name in heads))
    note = "Over all other factors. Relative: to the level with the most reads per second, compared cell by cell."
    return Table(f"Stale answers, per level of {factor_word(result.factor)}", columns, tuple(rows), note)


def _relative(reads: Interval | None) -> str:
    """Relative reads per second of a level; `most` for the level that the others are compared with."""
    itself = reads is not None and reads.low == reads.high == 1
    return "most" if itself else plus_minus(reads, "number")


def runs(labels: Labels) -> Table:
    """A row for each run, or for each workload of a run with several workloads."""
    rows = []
    for run in labels.runs():
        if run.staleness is None:
            continue
        staleness = run.staleness
        for readers in staleness.workloads or (staleness.readers,):
            rows.append((run.id, labels.cell(run.cell), readers.workload or "all", *_numbers(readers)))
    heads = (
        "Answers",
        "Stale",
        "Interval",
        "Mean age",
        "Hits",
        "Revalidations",
        "Fetches",
        "Needless",
        "Interval",
    )
    columns = (
        *map(Column, ("Run", "Cell", "Workload")),
        *(Column(name, numeric=True) for name in heads),
    )
    note = (
        "Mean age: over all answers, 0 where not stale. Interval of the stale: by batch means within the run."
    )
    return Table("Stale answers, per run", columns, tuple(rows), note)


def _numbers(readers: Readers) -> tuple[str, ...]:
    return (
        count(readers.answers),
        count(readers.stale),
        share_words(readers.stale_share),
        milliseconds(readers.stale_age_ms_mean),
        *map(count, (readers.hits, readers.revalidations, readers.fetches, readers.needless)),
        share_words(readers.needless_share),
    )


def line(labels: Labels, cell: CellResult) -> tuple[str, ...] | None:
    """The cells of a row of the terminal's table, whose columns are `LINE`. None if the cell has no readers."""
    consistency = of_cell(labels, cell)
    if consistency is None:
        return None
    share = consistency.stale_share
    bound = share.high if share is not None and not consistency.stale else None
    stale = f"≤ {percent(bound, 2)}" if bound is not None else plus_minus(share, "fraction")
    return (
        labels.cell(cell.cell),
        plus_minus(cell.responses.get("reads_per_s"), "rate"),
        stale,
        milliseconds(consistency.stale_age_ms_p95),
        percent(consistency.fetches_per_answer, 2),
        percent(consistency.needless_share, 2),
    )


LINE: Final = (
    Column("readers"),
    *(Column(name, numeric=True) for name in ("reads/s", "stale", "p95 age", "fetched", "needless")),
)
