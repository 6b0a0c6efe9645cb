"""Tables of one run, which the page shows for the selected run. Pure."""

from __future__ import annotations

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import count, listing, number, percent, quantity
from plimsoll.collect.hosts import TCP_RTT
from plimsoll.report import counted
from plimsoll.report.table import Table, table_of
from plimsoll.report.tables import LATENCY_COLUMNS, latency_cells, milliseconds


def run_tables(run: RunResult) -> list[Table]:
    """The tables that have rows, in the order of the page."""
    tables = [
        stages(run) if run.stages or run.workloads else None,
        connections(run),
        metrics(run) if run.metrics else None,
        counted.counted(run) if run.services else None,
        counted.statements(run),
    ]
    return [table for table in tables if table is not None]


def stages(run: RunResult) -> Table:
    """The stages of a staged load, or the populations of a run with several."""
    parts = [(stage.name or f"stage {stage.stage}", stage.traffic) for stage in run.stages]
    parts += [(workload.workload, workload.traffic) for workload in run.workloads]
    rows = [
        (
            name,
            quantity(traffic.throughput_per_s, "rate", "/s"),
            quantity(traffic.offered_per_s, "rate", "/s"),
            percent(traffic.error_rate),
            *latency_cells(traffic.response_ms),
        )
        for name, traffic in parts
    ]
    heads = "|".join(("Throughput", "Offered", "Error rate", *LATENCY_COLUMNS))
    return table_of(f"Stages and workloads of run {run.id}", "Part", heads, rows)


def connections(run: RunResult) -> Table | None:
    """Durations of TCP connect and TLS handshake; None if no connection was opened."""
    result = run.connections
    if result is None:
        return None
    parts = (("TCP connect", result.connect_ms), ("TLS handshake", result.tls_handshake_ms))
    rows = [(name, count(times.count), *latency_cells(times)) for name, times in parts if times.count]
    lookups = listing(
        f"{lookup.name} on {lookup.agent} {milliseconds(lookup.ms)}" for lookup in result.lookups
    )
    note = "All connections of the run, warm-up included." + (f" Name lookups: {lookups}." if lookups else "")
    heads = "|".join(("Connections", *LATENCY_COLUMNS))
    return table_of(f"Connections of run {run.id}", "Step", heads, rows, note)


def metrics(run: RunResult) -> Table:
    """Named metrics of the run's driver, in the units of the driver."""
    rows = [
        (
            f"{metric.name} (s)" if metric.name == TCP_RTT else metric.name,
            count(metric.count),
            number(metric.mean),
            number(metric.sd),
            number(metric.p50),
            number(metric.p95),
            number(metric.max),
        )
        for metric in run.metrics
    ]
    heads = "Transactions|Mean|Standard deviation|p50|p95|Max"
    return table_of(f"Named metrics of run {run.id}", "Metric", heads, rows)
