"""Tables of what a transaction costs each component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.load.demands import CellDemand, ComponentDemand, GatewayTimes
from plimsoll.analyse.results.wording import UNKNOWN, Kind, plus_minus, quantity
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.labels import ONLY, Labels
from plimsoll.report.tables.table import Column, Table

NOTE: Final = (
    "Per successful transaction; ± is the 95 % interval over repetitions. CPU time of the host includes that of its "
    "components. Bytes: of a service by its own counters (of a gateway, out: result sets before compression), of a "
    "host its busiest network interface except loopback, of the testers what they received. –: not measured, or not "
    "counted by this component; PostgreSQL and nginx count no bytes."
)
OF_COSTS: Final = (
    " Cost: price per hour / throughput of the cell. The total contains the components that have a price."
)
OF_GATEWAYS: Final = (
    "Mean time of a request of the gateway, by its own counters. Query: waiting for the database and reading the rows. "
    "Sending: writing to the client, with waiting for a client that reads slowly. The steps of a long result overlap, "
    "so their sum can exceed the whole time. Requests: of the gateway, per successful transaction."
)
ESTIMATED: Final = (
    "Per transaction, by Little's law: mean number of requests at the place / throughput, from a reading of the "
    "gateway every second. With a connection: the query, and its rows as they arrive, compressed and sent. The gateway "
    "of these results did not count the times."
)
_FIGURES: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("CPU time", "cpu_ms", "ms"),
    ("Requests, statements", "requests", "number"),
    ("Bytes in", "bytes_in", "bytes"),
    ("Bytes out", "bytes_out", "bytes"),
    ("Disk read", "disk_read", "bytes"),
    ("Disk write", "disk_write", "bytes"),
)
_PLACES: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("Waiting for a connection", "pool_ms", "ms"),
    ("With a connection", "connection_ms", "ms"),
    ("Rest", "rest_ms", "ms"),
)
_STEPS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("Waiting for a connection", "pool_ms", "ms"),
    ("Query", "query_ms", "ms"),
    ("Compression", "compression_ms", "ms"),
    ("Sending", "sending_ms", "ms"),
    ("In all", "request_ms", "ms"),
    ("Requests", "per_transaction", "number"),
)


def shown(labels: Labels) -> tuple[Table, ...]:
    """The tables of the cell with the highest throughput; empty if nothing was measured."""
    highest = [demand for demand in labels.analysis.demands if demand.is_highest and demand.components]
    return _tables(labels, highest, is_single=True)


def others(labels: Labels) -> tuple[Table, ...]:
    """The tables of all cells; empty if there is only one."""
    demands = [demand for demand in labels.analysis.demands if demand.components]
    return _tables(labels, demands, is_single=False) if len(demands) > 1 else ()


def _tables(labels: Labels, demands: list[CellDemand], *, is_single: bool) -> tuple[Table, ...]:
    made = (_components(labels, demands, is_single), _gateways(labels, demands, is_single))
    return tuple(table for table in made if table is not None)


def _components(labels: Labels, demands: list[CellDemand], is_single: bool) -> Table | None:
    entries = [entry for demand in demands for entry in demand.components]
    figures = [figure for figure in _FIGURES if any(getattr(entry, figure[1]) for entry in entries)]
    currency = next((demand.currency for demand in demands if demand.currency), "")
    rows = []
    for demand in demands:
        head = () if is_single else (labels.cell(demand.cell),)
        for entry in demand.components:
            costs = (_price(entry), _cost(entry.cost_per_million)) if currency else ()
            rows.append((*head, entry.component, *_cells(entry, figures), *costs))
        if demand.cost_per_million is not None:
            blank = ("",) * (len(figures) + 1)
            rows.append((*head, "Total", *blank, _cost(demand.cost_per_million)))
    if not rows:
        return None
    heads = [*([] if is_single else [Column("Cell")]), Column("Component")]
    heads += [Column(name, numeric=True) for name, _, _ in figures]
    if currency:
        heads += [Column(f"{currency}/h", True), Column(f"{currency} per million", True)]
    title = f"Per transaction{_of_cell(labels, demands)}" if is_single else "Per transaction, of each cell"
    return Table(title, tuple(heads), tuple(rows), NOTE + (OF_COSTS if currency else ""))


def _gateways(labels: Labels, demands: list[CellDemand], is_single: bool) -> Table | None:
    entries = [(demand, entry) for demand in demands for entry in demand.components]
    if any(entry.gateway for _, entry in entries):
        known = [(demand, entry, _cells(entry.gateway, _STEPS)) for demand, entry in entries if entry.gateway]
        figures, note = _STEPS, OF_GATEWAYS
    else:
        known = [(demand, entry, _cells(entry, _PLACES)) for demand, entry in entries if entry.rest_ms]
        figures, note = _PLACES, ESTIMATED
    if not known:
        return None
    rows = [
        (*(() if is_single else (labels.cell(demand.cell),)), entry.component, *cells)
        for demand, entry, cells in known
    ]
    heads = [*([] if is_single else [Column("Cell")]), Column("Gateway")]
    heads += [Column(name, numeric=True) for name, _, _ in figures]
    title = "Time in the gateway" + (_of_cell(labels, demands) if is_single else ", of each cell")
    return Table(title, tuple(heads), tuple(rows), note)


def _of_cell(labels: Labels, demands: list[CellDemand]) -> str:
    cell = labels.cell(demands[0].cell)
    return "" if cell == ONLY else f", at the highest throughput ({cell})"


def _cells(entry: ComponentDemand | GatewayTimes, figures: Sequence[tuple[str, str, Kind]]) -> list[str]:
    return [_shown(getattr(entry, field), kind) for _, field, kind in figures]


def _shown(interval: Interval | None, kind: Kind) -> str:
    """A figure without its interval if all runs have the same value: ± 0 would be read as an exact result."""
    if interval is None or interval.mean == 0:
        return UNKNOWN if interval is None else "0"
    return quantity(interval.mean, kind) if interval.low == interval.high else plus_minus(interval, kind)


def _price(entry: ComponentDemand) -> str:
    return UNKNOWN if entry.price_per_hour is None else f"{entry.price_per_hour:,.6f}".rstrip("0").rstrip(".")


def _cost(cost: Interval | None) -> str:
    return plus_minus(cost, "number")
