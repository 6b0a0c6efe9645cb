"""Tables of one run, which the page shows for whichever run its reader selects. Pure."""

from __future__ import annotations

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.wording import count, listing, number, percent, quantity
from plimsoll.collect.hosts import TCP_RTT
from plimsoll.report import counted
from plimsoll.report.table import Table, table_of
from plimsoll.report.tables import LATENCY_COLUMNS, latency_cells, milliseconds


def run_tables(run: RunResult) -> list[Table]:
    """Those that have a row, in the order of the page."""
    found = [
        stages(run) if run.stages or run.workloads else None,
        connections(run),
        metrics(run) if run.metrics else None,
        counted.counted(run) if run.services else None,
        counted.statements(run),
    ]
    return [each for each in found if each is not None]


def stages(run: RunResult) -> Table:
    """The stages of a staged load, or the populations of a run with several."""
    parts = [(each.name or f"stage {each.stage}", each.traffic) for each in run.stages]
    parts += [(each.workload, each.traffic) for each in run.workloads]
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
    """How long the testers' new connections took; None where none was opened."""
    found = run.connections
    if found is None:
        return None
    parts = (("TCP connect", found.connect_ms), ("TLS handshake", found.tls_handshake_ms))
    rows = [(name, count(times.count), *latency_cells(times)) for name, times in parts if times.count]
    lookups = listing(f"{each.name} on {each.agent} {milliseconds(each.ms)}" for each in found.lookups)
    note = "All connections of the run, warm-up included." + (f" Name lookups: {lookups}." if lookups else "")
    heads = "|".join(("Connections", *LATENCY_COLUMNS))
    return table_of(f"Connections of run {run.id}", "Step", heads, rows, note)


def metrics(run: RunResult) -> Table:
    """Named metrics of the run's driver, in their own units."""
    rows = [
        (
            f"{each.name} (s)" if each.name == TCP_RTT else each.name,
            count(each.count),
            number(each.mean),
            number(each.sd),
            number(each.p50),
            number(each.p95),
            number(each.max),
        )
        for each in run.metrics
    ]
    heads = "Transactions|Mean|Standard deviation|p50|p95|Max"
    return table_of(f"Named metrics of run {run.id}", "Metric", heads, rows)
