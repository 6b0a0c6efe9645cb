"""Tables of one run, which the page shows for the selected run. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import OutsideCpu, RunChange
from plimsoll.analyse.results.verdicts import ChangedSeries
from plimsoll.analyse.results.wording import (
    capitalized,
    count,
    listing,
    number,
    p_value,
    percent,
    quantity,
    with_unit,
)
from plimsoll.collect.hosts import TCP_RTT
from plimsoll.report.tables.actions import action_tables
from plimsoll.report.tables.analysis import LATENCY_COLUMNS, latency_cells, milliseconds
from plimsoll.report.tables.resources import counted
from plimsoll.report.tables.resources.sessions import sessions
from plimsoll.report.tables.table import Column, Table, table_of


def run_tables(run: RunResult) -> list[Table]:
    """The tables that have rows, in the order of the page."""
    tables = [
        *action_tables(run),
        stages(run) if run.stages or run.workloads else None,
        changes(run) if run.changes else None,
        conditions(run) if run.conditions else None,
        kernel_figures(run),
        tester_sessions(run),
        connections(run),
        metrics(run) if run.metrics else None,
        sessions(run),
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


def changes(run: RunResult) -> Table:
    """The changes of the run that no plan of the load explains, in order of time."""
    rows = [
        (
            _series(change),
            with_unit(count(round(change.at_s)), "s"),
            number(change.before),
            number(change.after),
            "–" if change.ratio is None else f"{100 * change.ratio:+.0f} %",
            change.unit,
            p_value(change.p),
            listing(_outside_words(other) for other in change.outside),
        )
        for change in run.changes or ()
    ]
    note = (
        "Throughput and mean response time by second, and the CPU of the components of the target. Outside: share of "
        "all cores of a host that processes outside the experiment used, near the time of the change."
    )
    heads = (
        ("Series", False),
        ("From", True),
        ("Before", True),
        ("After", True),
        ("Change", True),
        ("Unit", False),
    )
    columns = (*heads, ("p", True), ("Outside the experiment", False))
    return Table(
        f"Changes during run {run.id}",
        tuple(Column(name, numeric=numeric) for name, numeric in columns),
        tuple(rows),
        note,
    )


def _series(change: RunChange) -> str:
    if change.series == ChangedSeries.CPU:
        return f"CPU of {' on '.join(filter(None, (change.component, change.host))) or 'the host'}"
    return "mean response time" if change.series == ChangedSeries.RESPONSE else "throughput"


def _outside_words(other: OutsideCpu) -> str:
    on = other.host or "the host"
    return f"{on}: {percent(other.before, 2)} to {percent(other.after, 2)} at {count(round(other.at_s))} s"


def conditions(run: RunResult) -> Table:
    """The conditions that can explain slow or failed transactions."""
    rows = [
        (capitalized(entry.kind), entry.component, capitalized(entry.text) + ".") for entry in run.conditions
    ]
    columns = (Column("Condition"), Column("Component"), Column("In the window"))
    note = "They can explain slow or failed transactions, and are no reason against the run."
    return Table(f"Conditions of hosts and services in run {run.id}", columns, tuple(rows), note)


def kernel_figures(run: RunResult) -> Table | None:
    """Events and queues of hosts and listening services, without columns of zeros; None if nothing is left."""
    cells = [
        (
            part.component,
            *(
                show(value) if (value := getattr(part.kernel, name)) else ""
                for name, _, show in _KERNEL_COLUMNS
            ),
        )
        for part in run.components
        if part.kernel is not None
    ]
    heads = ("Component", *(head for _, head, _ in _KERNEL_COLUMNS))
    kept = [0, *(at for at in range(1, len(heads)) if any(row[at] for row in cells))]
    rows = tuple(tuple(row[at] for at in kept) for row in cells if any(row[1:]))
    if not rows:
        return None
    note = (
        "Means of the window; an empty cell is zero, or not measured. Local ports: greatest share in use toward one "
        "address. Disk: the one with the longest queue. CPU outside: share of the CPU that processes outside the "
        "experiment used."
    )
    columns = tuple(Column(heads[at], numeric=at > 0) for at in kept)
    return Table(f"Queues and events of the kernel in run {run.id}", columns, rows, note)


_KERNEL_COLUMNS: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("run_queue", "Tasks ready", number),
    ("disk_iops", "Disk requests/s", number),
    ("disk_wait_ms", "Disk wait", milliseconds),
    ("disk_queue", "Disk queue", number),
    ("sockets", "TCP sockets", number),
    ("ports", "Local ports", lambda share: percent(share, 2)),
    ("listen_queue", "Listen queue", number),
    ("listen_drops", "Requests dropped/s", number),
    ("listen_overflows", "Overflows/s", number),
    ("syn_retransmits", "SYN repeated/s", number),
    ("packet_drops", "Packets dropped/s", number),
    ("outside_cpu", "CPU outside", lambda share: percent(share, 2)),
)
"""Fields of `KernelFigures`, their heads, and their form."""


def tester_sessions(run: RunResult) -> Table | None:
    """The sessions of the testers; None if they carried out single transactions."""
    result = run.tester_sessions
    if result is None:
        return None
    row = (
        quantity(result.per_s, "rate", "/s"),
        count(result.succeeded),
        count(result.query_failed),
        count(result.work_failed),
        count(result.unfinished),
        *latency_cells(result.duration_ms),
    )
    note = (
        "In the window. Sessions/s: each session counts by the part of its duration in the window. Program failed: the "
        "program of the session failed or could not be started. Times: of the successful sessions."
    )
    heads = ("Sessions/s", "Succeeded", "Query failed", "Program failed", "Unfinished", *LATENCY_COLUMNS)
    columns = tuple(Column(head, numeric=True) for head in heads)
    return Table(f"Sessions of run {run.id}", columns, (row,), note)


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
