"""Tables of the counters that services keep."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import CountedService, SentAndReceived
from plimsoll.analyse.results.wording import count, listing, number, percent
from plimsoll.report.labels import Labels
from plimsoll.report.tables.analysis import milliseconds
from plimsoll.report.tables.table import Column, Table

NOTE = "Over the whole run, with warm-up and drain. The names are those of the service; zeros are left out."

TIERS_NOTE: Final = (
    "Over the whole run, without readiness checks and the readings of the counters. Unsure: requests that failed, were "
    "cut off at the end or repeated; they may or may not have arrived. Difference: what they do not explain."
)

STAMPS: Final = ("clock_ns",)
"""Time stamps of counters. samples.parquet contains them, the tables do not."""


def derived(labels: Labels) -> Table | None:
    """The figures derived from the counters, for all runs; None if no service has counters."""
    rows = [
        (run.id, labels.cell(run.cell), service.name, spoken(name), figure(name, value))
        for run in labels.runs()
        for service in run.services
        for name, value in service.derived.items()
    ]
    heads = (*map(Column, ("Run", "Cell", "Service", "Figure")), Column("Value", numeric=True))
    return Table("Counters of the services", heads, tuple(rows), "Over the whole run.") if rows else None


def tiers(labels: Labels) -> Table | None:
    """The requests that the services counted against those that the tier before sent, for all runs; None if there is
    nothing to compare."""
    with_bytes = any(tier.bytes for run in labels.runs() for tier in run.tiers)
    rows = [
        (
            run.id,
            labels.cell(run.cell),
            tier.service,
            listing(tier.before) + (f", through {listing(tier.through)}" if tier.through else ""),
            count(tier.sent),
            count(tier.unsure),
            count(tier.counted),
            f"{tier.difference:+,}" if tier.difference else "0",
            f"{100 * tier.share:+.1f} %" if tier.share else "–" if tier.share is None else "0 %",
            *((_bytes(tier.bytes, "sent"), _bytes(tier.bytes, "received")) if with_bytes else ()),
        )
        for run in labels.runs()
        for tier in run.tiers
    ]
    of_bytes = ("Bytes to testers", "Bytes received") if with_bytes else ()
    numbers = ("Sent", "Unsure", "Counted", "Difference", "Share", *of_bytes)
    heads = (
        *map(Column, ("Run", "Cell", "Service", "Clients")),
        *(Column(name, numeric=True) for name in numbers),
    )
    return Table("Requests sent and counted", heads, tuple(rows), TIERS_NOTE) if rows else None


def _bytes(both: SentAndReceived | None, name: str) -> str:
    return "–" if both is None else count(getattr(both, name))


def counted(run: RunResult) -> Table:
    """All counters of the services of a run."""
    rows = [row for service in run.services for row in _rows(service)]
    heads = (*map(Column, ("Service", "What")), Column("In the run", numeric=True))
    return Table(f"Counters of the services in run {run.id}", heads, tuple(rows), NOTE)


def statements(run: RunResult) -> Table | None:
    """The slowest statements of the databases of a run."""
    rows = [
        (
            service.name,
            statement.statement,
            count(statement.calls),
            milliseconds(statement.total_s * 1000),
            milliseconds(statement.mean_ms),
            count(statement.rows),
        )
        for service in run.services
        for statement in service.statements
    ]
    heads = (
        *map(Column, ("Service", "Statement")),
        *(Column(name, numeric=True) for name in ("Calls", "Total time", "Mean time", "Rows")),
    )
    return Table(f"Slowest statements of run {run.id}", heads, tuple(rows)) if rows else None


def spoken(name: str) -> str:
    """The name of a counter for people: `hit_ratio` -> `Hit ratio`."""
    return name.replace("_", " ").capitalize()


def figure(name: str, value: float | None) -> str:
    """A derived figure as text: a name that ends with `_ratio` is a share of 1, all others are counts."""
    if name.endswith("_ratio"):
        return percent(value)
    return number(value) if value is None else count(round(value))


def _rows(service: CountedService) -> list[tuple[str, str, str]]:
    rows = [(service.name, spoken(name), figure(name, value)) for name, value in service.derived.items()]
    rows += [(service.name, name, _plain(value)) for name, value in service.counters.items() if value]
    gauges = (("at the end", service.gauges), ("mean", service.means), ("greatest", service.peaks))
    return rows + [
        (service.name, f"{name} ({which})", _plain(value))
        for which, values in gauges
        for name, value in values.items()
        if value and name not in STAMPS
    ]


def _plain(value: float) -> str:
    return count(int(value)) if float(value).is_integer() else number(value)
