"""What a transaction costs each component: CPU time, requests, bytes, time in a gateway, and money. The service demands
of operational analysis (Jain 33.3): busy time and counts per completed transaction.

A gateway counts the times of its requests and of their steps. Results of gateways that did not have only the numbers of
requests at a place, every second. The mean times then follow from Little's law (Jain 30.3): the mean number of requests
at a place is their rate times their mean time there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from plimsoll.analyse.design.across import Group, intervals_of, metric_intervals
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.load.demands import CellDemand, ComponentDemand, FanOut, GatewayTimes
from plimsoll.analyse.results.run import ComponentResources, CountedService
from plimsoll.analyse.stats.interval import Interval
from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.source.price import Price
from plimsoll.plan.topology import Topology

MIN_REQUESTS: Final = 100
"""Requests of the service in front below which a fan-out is not computed: sessions begin with statements of their own,
which are then a large part."""
_MILLION_PER_HOUR: Final = 1e6 / 3600
_IN_GATEWAY: Final = "in_progress"
_POOL: Final = "connections_waiting"
_HELD: Final = "connections_in_use"
_ENDED: Final = "request_count"
_STEPS: Final = ("request", "pool", "query", "compression", "sending")
"""The steps of a request whose times a gateway counts, as STEP_ns."""
_TIMES: Final = (
    "pool_ms",
    "connection_ms",
    "rest_ms",
    *(f"gateway {step}" for step in _STEPS),
    "gateway requests",
)
"""Their scatter increases with the load, so each cell has its own error."""

Figure = Callable[[RunResult], float | None]


def cell_demands(
    groups: Sequence[Group], prices: Mapping[str, Price], topology: Topology | None
) -> tuple[CellDemand, ...]:
    """The demands of each cell with a valid run. `prices`: by component; `topology`: its order is that of the
    components."""
    throughput = metric_intervals("throughput", groups)
    known = [rate.mean for rate in throughput if rate is not None and rate.mean > 0]
    names = _names(groups, topology)
    counters = {name: _request_counter(name, groups) for name in names}
    figures = {name: _figures(name, counters[name]) for name in names}
    intervals = {
        (name, field): intervals_of(
            [_values(figure, group) for group in groups], groups, separate=field in _TIMES
        )
        for name, of_component in figures.items()
        for field, figure in of_component.items()
    }
    out = []
    is_found = False
    for at, (group, rate) in enumerate(zip(groups, throughput, strict=True)):
        if rate is None or rate.mean <= 0:
            continue
        components = []
        for name in names:
            host = _host(name, group)
            if host is None:
                continue
            price = _price(name, prices)
            values = {field: intervals[name, field][at] for field in figures[name]}
            gateway = _gateway([values.pop(f"gateway {step}") for step in (*_STEPS, "requests")])
            if price is None and gateway is None and not any(values.values()):
                continue
            components.append(
                ComponentDemand(
                    component=name,
                    host=host,
                    request_counter=counters[name] if values["requests"] is not None else "",
                    price_per_hour=None if price is None else price.per_hour,
                    cost_per_million=None if price is None else cost_per_million(price.per_hour, rate),
                    gateway=gateway,
                    **values,
                )
            )
        per_hour = [entry.price_per_hour for entry in components if entry.price_per_hour is not None]
        is_highest = rate.mean == max(known) and not is_found
        is_found = is_found or is_highest
        out.append(
            CellDemand(
                cell=group.cell,
                runs=len(group.valid),
                throughput_per_s=rate,
                is_highest=is_highest,
                components=tuple(components),
                currency=next(iter(prices.values())).currency if per_hour else "",
                cost_per_million=cost_per_million(sum(per_hour), rate) if per_hour else None,
            )
        )
    return tuple(out)


def cost_per_million(per_hour: float, throughput: Interval) -> Interval:
    """Cost of a million transactions at a throughput per second. The ends of its interval are those of the throughput;
    there is none if that interval reaches 0."""
    cost = per_hour * _MILLION_PER_HOUR
    has_ends = throughput.low is not None and throughput.high is not None and throughput.low > 0
    return Interval(
        cost / throughput.mean,
        cost / throughput.high if has_ends and throughput.high else None,
        cost / throughput.low if has_ends and throughput.low else None,
        throughput.level,
        throughput.df if has_ends else None,
        throughput.method,
    )


def fan_outs(groups: Sequence[Group], topology: Topology | None) -> tuple[FanOut, ...]:
    """The fan-out of each service behind services, in the cell with the highest throughput. Empty without topology. A
    run with further instances of the clients, which the topology of another cell lacks, is left out."""
    throughput = metric_intervals("throughput", groups)
    rates = [0.0 if rate is None else rate.mean for rate in throughput]
    if topology is None or not any(rates):
        return ()
    group = groups[rates.index(max(rates))]
    out = []
    for component in topology.components:
        before = tuple(pair.source for pair in topology.connections if pair.to == component.name)
        roles = {entry.role for entry in topology.components if entry.name in before}
        if component.role != "service" or roles != {"service"}:
            continue
        pairs = [
            (run.block, received / sent)
            for run in group.valid
            if (received := _total(component.name, run)) is not None
            and not _has_further_instances(before, topology, run)
            and (sent := _clients_total(before, topology, run)) is not None
            and sent >= MIN_REQUESTS
        ]
        ratio = intervals_of([pairs], [group])[0]
        if ratio is not None:
            out.append(FanOut(component.name, component.kind, before, group.cell, len(pairs), ratio))
    return tuple(out)


def _has_further_instances(names: Sequence[str], topology: Topology, run: RunResult) -> bool:
    """Whether a run has services of the same kinds as `names` that are not in the topology."""
    known = {entry.name for entry in topology.components}
    kinds = {entry.kind for entry in topology.components if entry.name in names}
    return any(service.kind in kinds and service.name not in known for service in run.services)


def _clients_total(names: Sequence[str], topology: Topology, run: RunResult) -> float | None:
    """The requests that services received in a run; None if one of them did not count them. A service that counts
    nothing receives all transactions if testers are its only clients."""
    totals = [_total(name, run) for name in names]
    if len(names) == 1 and totals[0] is None:
        sources = {pair.source for pair in topology.connections if pair.to == names[0]}
        roles = {entry.role for entry in topology.components if entry.name in sources}
        return float(run.counts.succeeded + run.counts.failed) if roles == {"testers"} else None
    return sum(total for total in totals if total is not None) if None not in totals else None


def _total(name: str, run: RunResult) -> float | None:
    """The requests or statements that a service received in the whole run."""
    service = _service(name, run)
    section = None if service is None else SERVICE_KINDS.get(service.kind)
    if service is None or section is None:
        return None
    counts = {**service.gauges, **service.counters}
    return next((counts[counter] for counter in _counters_of(section) if counter in counts), None)


def _counters_of(section: type[ServiceSection]) -> tuple[str, ...]:
    """Counters of requests, the most exact first."""
    return tuple(name for name in (section.arrival_counter, section.request_counter) if name is not None)


def _names(groups: Sequence[Group], topology: Topology | None) -> list[str]:
    """The components of all runs: as in the topology, then the others."""
    found = dict.fromkeys(
        name
        for group in groups
        for run in group.valid
        for name in (*(c.component for c in run.components), *(s.name for s in run.services))
    )
    order = ["testers", *(() if topology is None else (entry.name for entry in topology.components))]
    first = [name for name in dict.fromkeys(order) if name in found]
    return first + [name for name in found if name not in first]


def _host(name: str, group: Group) -> str | None:
    """The host of a component, empty if it is that of the lab or not known; None: no run of the cell has it."""
    for run in group.valid:
        entry = _resources(name, run)
        if entry is not None:
            return entry.host
    return "" if any(_service(name, run) for run in group.valid) else None


def _resources(name: str, run: RunResult) -> ComponentResources | None:
    return next((entry for entry in run.components if entry.component == name), None)


def _service(name: str, run: RunResult) -> CountedService | None:
    return next((service for service in run.services if service.name == name), None)


def _request_counter(name: str, groups: Sequence[Group]) -> str:
    """The counter of requests of a component; empty if it has none."""
    for service in (_service(name, run) for group in groups for run in group.valid):
        section = None if service is None else SERVICE_KINDS.get(service.kind)
        if service is None or section is None:
            continue
        for counter in _counters_of(section):
            if counter in service.window or counter in service.gauges:
                return counter
    return ""


def _price(name: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a component: its own, or that of the service whose instance it is."""
    service, _, number = name.rpartition(".")
    return prices.get(name) or (prices.get(service) if number.isdecimal() else None)


def _values(figure: Figure, group: Group) -> list[tuple[str | None, float]]:
    return [(run.block, value) for run in group.valid if (value := figure(run)) is not None]


def _figures(name: str, request_counter: str) -> dict[str, Figure]:
    """The figures of a component, by field of ComponentDemand: of one run, per transaction."""
    return {
        "cpu_ms": lambda run: _used(name, "cpu", run, 1e3),
        "requests": lambda run: _requests(name, request_counter, run),
        "bytes_in": lambda run: _bytes(name, "received_bytes", "network_in", run),
        "bytes_out": lambda run: _bytes(name, "sent_bytes", "network_out", run),
        "disk_read": lambda run: _used(name, "disk_read", run),
        "disk_write": lambda run: _used(name, "disk_write", run),
        "pool_ms": lambda run: _in_gateway(name, run, _POOL),
        "connection_ms": lambda run: _in_gateway(name, run, _HELD),
        "rest_ms": lambda run: _in_gateway(name, run, _IN_GATEWAY, less=(_POOL, _HELD)),
        **{f"gateway {step}": partial(_per_request, name, f"{step}_ns", factor=1e-6) for step in _STEPS},
        "gateway requests": lambda run: _requests(name, _ENDED, run),
    }


def _gateway(values: Sequence[Interval | None]) -> GatewayTimes | None:
    """The times of the steps, and the requests per transaction; None if a time is not known."""
    request, pool, query, compression, sending, requests = values
    if request is None or pool is None or query is None or compression is None or sending is None:
        return None
    return GatewayTimes(request, pool, query, compression, sending, requests)


def _per_request(name: str, counter: str, run: RunResult, *, factor: float) -> float | None:
    """A counter of a gateway per request that ended in the window."""
    service = _service(name, run)
    if service is None or service.kind != "frontier" or counter not in service.window:
        return None
    ended = service.window.get(_ENDED, 0.0)
    return factor * service.window[counter] / ended if ended > 0 else None


def _used(name: str, resource: str, run: RunResult, factor: float = 1.0) -> float | None:
    """A resource per transaction."""
    entry, rate = _resources(name, run), run.traffic.throughput_per_s
    used: float | None = None if entry is None else getattr(entry, resource)
    return None if used is None or rate <= 0 else factor * used / rate


def _requests(name: str, counter: str, run: RunResult) -> float | None:
    """Requests per transaction, in the window. A counter that is only read at the end: in the whole run."""
    service = _service(name, run)
    if service is None or not counter:
        return None
    if counter in service.window:
        return service.window[counter] / run.traffic.transactions if run.traffic.transactions else None
    total = service.gauges.get(counter)
    return None if total is None or not run.counts.succeeded else total / run.counts.succeeded


def _bytes(name: str, counted: str, measured: str, run: RunResult) -> float | None:
    """Bytes per transaction: of a service by its counter, of a host by its network interface, of the testers what they
    received."""
    service, rate = _service(name, run), run.traffic.throughput_per_s
    if name == "testers":
        received = run.traffic.wire_bytes_per_s
        return received / rate if counted == "received_bytes" and received > 0 and rate > 0 else None
    section = None if service is None else SERVICE_KINDS.get(service.kind)
    counter = None if section is None else getattr(section, counted)
    if service is None or counter is None:
        return _used(name, measured, run)
    increase = service.window.get(counter.counter)
    if increase is None or not run.traffic.transactions:
        return None
    return float(increase * counter.unit / run.traffic.transactions)


def _in_gateway(name: str, run: RunResult, gauge: str, less: Sequence[str] = ()) -> float | None:
    """Mean time at a place in a gateway per transaction, ms, by Little's law."""
    service, rate = _service(name, run), run.traffic.throughput_per_s
    if service is None or service.kind != "frontier" or rate <= 0:
        return None
    gauges = service.window_gauges
    if any(each not in gauges for each in (gauge, *less)):
        return None
    return 1e3 * max(0.0, gauges[gauge] - sum(gauges[each] for each in less)) / rate
