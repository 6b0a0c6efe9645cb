"""Tables of what services counted of themselves."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import CountedService
from plimsoll.analyse.results.wording import count, number, percent
from plimsoll.report.labels import Labels
from plimsoll.report.table import Column, Table
from plimsoll.report.tables import milliseconds

NOTE = "Over the whole run, with warm-up and drain. The names are those of the service; zeros are left out."

STAMPS: Final = ("clock_ns",)
"""Time stamps of counters: useful beside the other counters of samples.parquet, but not shown."""


def derived(labels: Labels) -> Table | None:
    """What follows from the counters, all runs side by side; None where no service counted."""
    rows = [
        (run.id, labels.cell(run.cell), one.name, spoken(name), figure(name, value))
        for run in labels.runs()
        for one in run.services
        for name, value in one.derived.items()
    ]
    heads = (*map(Column, ("Run", "Cell", "Service", "Figure")), Column("Value", numeric=True))
    return Table("Counters of the services", heads, tuple(rows), "Over the whole run.") if rows else None


def counted(run: RunResult) -> Table:
    """All counters of the services of a run."""
    rows = [row for one in run.services for row in _rows(one)]
    heads = (*map(Column, ("Service", "What")), Column("In the run", numeric=True))
    return Table(f"Counters of the services in run {run.id}", heads, tuple(rows), NOTE)


def statements(run: RunResult) -> Table | None:
    """The slowest statements of the databases of a run."""
    rows = [
        (
            one.name,
            each.statement,
            count(each.calls),
            milliseconds(each.total_s * 1000),
            milliseconds(each.mean_ms),
            count(each.rows),
        )
        for one in run.services
        for each in one.statements
    ]
    heads = (
        *map(Column, ("Service", "Statement")),
        *(Column(name, numeric=True) for name in ("Calls", "Total time", "Mean time", "Rows")),
    )
    return Table(f"Slowest statements of run {run.id}", heads, tuple(rows)) if rows else None


def spoken(name: str) -> str:
    """The name of a counter in words: `hit_ratio` -> `hit ratio`."""
    return name.replace("_", " ").capitalize()


def figure(name: str, value: float | None) -> str:
    """A derived figure: ratios are shares, the rest are counts."""
    if name.endswith("_ratio"):
        return percent(value)
    return number(value) if value is None else count(round(value))


def _rows(one: CountedService) -> list[tuple[str, str, str]]:
    rows = [(one.name, spoken(name), figure(name, value)) for name, value in one.derived.items()]
    rows += [(one.name, name, _plain(value)) for name, value in one.counters.items() if value]
    gauges = (("at the end", one.gauges), ("mean", one.means), ("greatest", one.peaks))
    return rows + [
        (one.name, f"{name} ({which})", _plain(value))
        for which, values in gauges
        for name, value in values.items()
        if value and name not in STAMPS
    ]


def _plain(value: float) -> str:
    return count(int(value)) if float(value).is_integer() else number(value)
