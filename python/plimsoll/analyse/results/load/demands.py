"""What a transaction costs each component, a part of `analysis.json`."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class GatewayTimes:
    """Mean times of a request in a gateway, ms, by its own counters: waiting for a connection to the database; the
    query, with reading its rows; compression; sending. `request_ms`: the whole time in the gateway. A step of a
    long result may overlap another one. `per_transaction`: requests of the gateway per transaction."""

    request_ms: Interval
    pool_ms: Interval
    query_ms: Interval
    compression_ms: Interval
    sending_ms: Interval
    per_transaction: Interval | None


@dataclass(frozen=True, slots=True)
class ComponentDemand:
    """What one component uses for one successful transaction, as means over the valid runs of a cell. None: not
    measured, or not counted by this component.

    `requests`: increase of `request_counter`, its requests or statements; `bytes_in`, `bytes_out`: of a service its own
    counters, of a host its busiest network interface, of the testers what they received. `pool_ms`: the time that
    requests wait in a gateway for a connection to the database, per transaction; `connection_ms`: the time that they
    hold a connection; `rest_ms`: the other time in the gateway. These three are estimates from gauges; `gateway`: the
    times that the gateway counted, None if it did not.
    """

    component: str
    host: str
    cpu_ms: Interval | None = None
    requests: Interval | None = None
    request_counter: str = ""
    bytes_in: Interval | None = None
    bytes_out: Interval | None = None
    disk_read: Interval | None = None
    disk_write: Interval | None = None
    pool_ms: Interval | None = None
    connection_ms: Interval | None = None
    rest_ms: Interval | None = None
    price_per_hour: float | None = None
    cost_per_million: Interval | None = None
    """Cost of a million transactions at the throughput of the cell."""
    gateway: GatewayTimes | None = None


@dataclass(frozen=True, slots=True)
class CellDemand:
    """The demands of one cell. `is_highest`: no cell has a higher throughput."""

    cell: dict[str, str]
    runs: int
    throughput_per_s: Interval
    is_highest: bool
    components: tuple[ComponentDemand, ...]
    currency: str = ""
    """Code of the currency of the prices; empty: no component of the cell has a price."""
    cost_per_million: Interval | None = None
    """Of all components with a price."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """Requests or statements that a service received for each request that the services before it, `before`, received,
    over the valid runs of the cell with the highest throughput. Both are counts of the whole run."""

    service: str
    kind: str
    before: tuple[str, ...]
    cell: dict[str, str]
    runs: int
    ratio: Interval
