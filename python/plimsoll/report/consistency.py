"""Stale answers of concurrently written objects and their cost, as tables."""

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
from plimsoll.report.table import Column, Table
from plimsoll.report.tables import cell_heads, cell_words, milliseconds

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
"""For the words of the report, where it shows any of them."""
NOTE: Final = (
    "Stale: answers whose version was superseded before the read started. Age: time since it was superseded, over "
    "the stale answers of all runs."
)
COSTS: Final = (
    "Fetches: share of the answers that came from the origin. Needless: share of the fetches whose version is that of "
    "the previous answer."
)


def worth_showing(labels: Labels) -> bool:
    """Whether anybody read versions."""
    return labels.analysis.consistency is not None


def of_cell(labels: Labels, cell: CellResult) -> Consistency | None:
    """What the readers of a cell got."""
    found = labels.analysis.consistency
    return next((each for each in found.cells if each.cell == cell.cell), None) if found else None


def share_words(interval: Interval | None, digits: int = 3) -> str:
    """The two ends of a share, `2.1 to 2.4 %`."""
    if interval is None or interval.low is None or interval.high is None:
        return UNKNOWN
    return percent_range(interval.low, interval.high, digits)


def cells(labels: Labels) -> Table:
    """Every cell: throughput of its readers, stale answers, and how old these were."""
    shown = _shown(labels)
    rows = [
        (
            *cell_words(labels, cell),
            plus_minus(cell.responses.get("reads_per_s"), "rate"),
            percent(got.stale_share.mean if got.stale_share else None),
            share_words(got.stale_share, 2),
            *map(milliseconds, (got.stale_age_ms_p50, got.stale_age_ms_p95, got.stale_age_ms_max)),
        )
        for cell, got in shown
    ]
    heads = ("Reads/s", "Stale", "Interval", "Median age", "p95", "Oldest")
    columns = (*map(Column, cell_heads(labels).split("|")), *(Column(name, numeric=True) for name in heads))
    return Table("Stale answers, per cell", columns, tuple(rows), f"{NOTE} {_methods(shown)}".strip())


def costs(labels: Labels) -> Table:
    """Every cell: what its consistency took: origin fetches, and how busy the services were."""
    shown = _shown(labels)
    services = list(dict.fromkeys(name for _, got in shown for name in got.busy))
    rows = [
        (
            *cell_words(labels, cell),
            plus_minus(cell.responses.get("writes_per_s"), "rate"),
            percent(got.fetches_per_answer),
            percent(got.needless_share),
            *(percent(got.busy.get(name), 2) for name in services),
        )
        for cell, got in shown
    ]
    heads = ("Writes/s", "Fetches", "Needless", *services)
    columns = (*map(Column, cell_heads(labels).split("|")), *(Column(name, numeric=True) for name in heads))
    note = f"{COSTS} By service: its utilization, mean over the runs." if services else COSTS
    return Table("Cost of the answers, per cell", columns, tuple(rows), note)


def _shown(labels: Labels) -> list[tuple[CellResult, Consistency]]:
    return [(cell, got) for cell in labels.cells() if (got := of_cell(labels, cell)) is not None]


def _methods(shown: list[tuple[CellResult, Consistency]]) -> str:
    known = {
        got.stale_share.method for _, got in shown if got.stale_share and got.stale_share.low is not None
    }
    return f"Interval of the stale: {'; '.join(sorted(known))}." if known else ""


def levels(labels: Labels) -> Table | None:
    """The levels of the first factor, over all other factors; None where these are the cells."""
    found = labels.analysis.consistency
    if found is None or found.factor is None or len(found.levels) == len(found.cells):
        return None
    rows = [
        (
            each.cell[found.factor],
            count(each.answers),
            percent(each.stale_share.mean if each.stale_share else None),
            share_words(each.stale_share),
            milliseconds(each.stale_age_ms_p95),
            _relative(each.relative_reads),
            percent(each.fetches_per_answer),
            percent(each.needless_share),
        )
        for each in found.levels
    ]
    heads = ("Answers", "Stale", "Interval", "Age p95", "Relative reads/s", "Fetches", "Needless")
    columns = (Column(factor_word(found.factor)), *(Column(name, numeric=True) for name in heads))
    note = "Over all other factors. Relative: to the level with the most reads per second, compared cell by cell."
    return Table(f"Stale answers, per level of {factor_word(found.factor)}", columns, tuple(rows), note)


def _relative(reads: Interval | None) -> str:
    """Of the level that the others are compared with, the word for it."""
    itself = reads is not None and reads.low == reads.high == 1
    return "most" if itself else plus_minus(reads, "number")


def runs(labels: Labels) -> Table:
    """What the readers of every run got, workload by workload where there are several."""
    rows = []
    for run in labels.runs():
        if run.staleness is None:
            continue
        got = run.staleness
        for each in got.workloads or (got.readers,):
            rows.append((run.id, labels.cell(run.cell), each.workload or "all", *_numbers(each)))
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


def _numbers(each: Readers) -> tuple[str, ...]:
    return (
        count(each.answers),
        count(each.stale),
        share_words(each.stale_share),
        milliseconds(each.stale_age_ms_mean),
        *map(count, (each.hits, each.revalidations, each.fetches, each.needless)),
        share_words(each.needless_share),
    )


def line(labels: Labels, cell: CellResult) -> tuple[str, ...] | None:
    """A cell in short, for the terminal: under the heads of `LINE`."""
    got = of_cell(labels, cell)
    if got is None:
        return None
    share = got.stale_share
    bound = share.high if share is not None and not got.stale else None
    stale = f"≤ {percent(bound, 2)}" if bound is not None else plus_minus(share, "fraction")
    return (
        labels.cell(cell.cell),
        plus_minus(cell.responses.get("reads_per_s"), "rate"),
        stale,
        milliseconds(got.stale_age_ms_p95),
        percent(got.fetches_per_answer, 2),
        percent(got.needless_share, 2),
    )


LINE: Final = (
    Column("readers"),
    *(Column(name, numeric=True) for name in ("reads/s", "stale", "p95 age", "fetched", "needless")),
)
