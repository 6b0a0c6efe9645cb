"""The figures of one window of a run, computed from its files: of the measured window, and of the peak window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plimsoll.analyse.hosts.clocks import greatest_bound
from plimsoll.analyse.hosts.hosts import TesterPlacement, places_of
from plimsoll.analyse.results.run import NameLookup, Peak, WindowResult
from plimsoll.analyse.run.connections import HISTOGRAMS, RunConnections, connections
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.run.staleness import HISTOGRAM, RunStaleness, staleness
from plimsoll.analyse.run.summary import Accumulator, Layout, RunSummary
from plimsoll.analyse.run.tester_sessions import RunSessions, session_figures
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.analyse.window.load_profile import Joins, Piece, Profile, load_bins
from plimsoll.analyse.window.steps import Step, merged_steps, planned_steps
from plimsoll.analyse.window.transactions import Stage, Window
from plimsoll.assemble.facts import (
    metrics_of,
    open_workloads,
    services_of,
)
from plimsoll.assemble.run.components import components_in, hosts_used_in
from plimsoll.assemble.run.options import Options
from plimsoll.collect.columns.parquet import TransactionFile, read_metrics, read_whole_metrics
from plimsoll.collect.columns.round_trips import RoundTrips
from plimsoll.collect.columns.sessions import read_sessions
from plimsoll.collect.columns.versions import READ, READ_REPLICA, read_versioned
from plimsoll.collect.hosts import RunAgents
from plimsoll.collect.live import seconds_of
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.watched import watched_readings
from plimsoll.plan.metrics.catalogue import PEAK

ONLY_AGENT = "local"


def read_connections(run: RunFiles, window: Window | None = None) -> RunConnections | None:
    """New connections and their times; None if the driver opens none, or if single transactions were not kept.
    `window`: only those of transactions that started in it (None: of the whole run)."""
    metrics = run.path / "metrics.parquet"
    if not metrics.exists():
        return None
    lookups = tuple(
        NameLookup(agent["name"], lookup["name"], lookup["took_ns"] / 1e6)
        for agent in (run.summary or {}).get("agents", ())
        for lookup in agent["books"].get("lookups", ())
    )
    if window is None:
        return connections(read_whole_metrics(metrics, HISTOGRAMS), lookups)
    seconds = read_metrics(metrics, window.start, window.end)
    return connections({name: values for name, values in seconds.items() if name in HISTOGRAMS})


def read_staleness(run: RunFiles, window: Window, bound_ns: int) -> RunStaleness | None:
    """Ages of the versions that readers received. None if no operation reads versions, or if single transactions were
    not kept."""
    versions, metrics = run.record.get("versions", {}), run.path / "metrics.parquet"
    reads = any({READ, READ_REPLICA}.intersection(operations.values()) for operations in versions.values())
    if not reads or run.transactions is None or not metrics.exists():
        return None
    return staleness(read_versioned(run.transactions, metrics, versions), window, bound_ns)


def read_tester_sessions(run: RunFiles, window: Window) -> RunSessions | None:
    """The sessions of the testers. None if they carried out single transactions, or these were not kept."""
    metrics = run.path / "metrics.parquet"
    effective = run.record["effective"]
    workloads = [effective.get("workload") or {}, *(effective.get("workloads") or {}).values()]
    if not any("session" in work for work in workloads) or run.transactions is None or not metrics.exists():
        return None
    return session_figures(read_sessions(metrics), window)


def layout_of(
    file: TransactionFile,
    run: RunFiles,
    options: Options,
    measured: Window,
    stages: list[Stage],
    run_agents: RunAgents,
    placement: TesterPlacement | None,
    first: Sequence[str] = (),
    first_window: Window | None = None,
) -> Layout:
    """The layout with `measured` as the measured window. `first`, `first_window`: as in `Layout`."""
    record, summary = run.record, run.summary or {}
    return Layout(
        measured=measured,
        length_ns=max(int(summary["rows"]["last_end_ns"]), measured.end),
        codes=file.names["code"].texts,
        workloads=file.names["workload"].texts,
        tester_agents=[(record["agents"] or [ONLY_AGENT])[0]] * file.testers
        if placement is None
        else placement.names,
        stages=stages,
        by_workload=len(record["workloads"]) > 1,
        operations=file.names["operation"].texts if "operations" in record else None,
        open_loads=open_workloads(record),
        not_started=starts_not_made(run),
        bins=load_bins(profile, measured) if (profile := planned_load(record)) is not None else (),
        steps=[Window(step.start, step.end) for step in ramp_steps(run, profile, measured)],
        quantum_ns=_ns(options.quantum_s),
        chart_quantum_ns=_ns(options.chart_quantum_s),
        places=None if placement is None else places_of(placement, run_agents),
        first=first,
        first_window=first_window,
    )


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def summarise_transactions(file: TransactionFile, layout: Layout, options: Options) -> RunSummary:
    """The summary of all transactions of a run."""
    accumulator = Accumulator(layout, exact=options.exact)
    for chunk in file.chunks():
        accumulator.add(chunk)
    return accumulator.result()


def starts_not_made(run: RunFiles) -> list[tuple[int, int]]:
    """Times at which starts of open loads were dropped (the middle of the second, ns), and their number."""
    return [
        (second.number * 10**9 + 5 * 10**8, second.dropped)
        for second in seconds_of(run.live)
        if second.dropped
    ]


def planned_load(record: Mapping[str, Any]) -> Profile | None:
    """The planned load over time; None if it does not change."""
    load_profile = record.get("load_profile")
    if load_profile is None:
        return None
    pieces = (
        Piece(round(piece["start_s"] * 1e9), round(piece["end_s"] * 1e9), piece["first"], piece["last"])
        for piece in load_profile["pieces"]
    )
    joins = load_profile.get("joins")
    return Profile(
        load_profile["unit"],
        tuple(pieces),
        None
        if joins is None
        else Joins(
            joins["testers"],
            round(joins["every_s"] * 1e9),
            None if joins["life_s"] is None else round(joins["life_s"] * 1e9),
        ),
    )


def ramp_steps(run: RunFiles, profile: Profile | None, measured: Window) -> list[Step]:
    """The parts of a ramp with the same number of active testers, merged by the one-second counts of the run. Empty if
    the load is not a ramp."""
    if profile is None or profile.joins is None:
        return []
    steps = planned_steps(profile.joins, measured)
    ended = np.zeros(measured.end // 10**9 + 2)
    for second in seconds_of(run.live) if steps else ():
        if second.number < len(ended) - 1:
            ended[second.number + 1] = second.succeeded + second.failed
    totals = np.cumsum(ended)
    edges = np.arange(len(totals)) * 1e9
    return merged_steps(steps, lambda start, end: float(np.diff(np.interp([start, end], edges, totals))[0]))


def at_peak(
    run: RunFiles,
    results: Results,
    options: Options,
    measured: Window,
    peak: Peak | None,
    run_agents: RunAgents,
    placement: TesterPlacement | None,
    first: Sequence[str] = (),
    round_trips: RoundTrips | None = None,
) -> tuple[WindowResult, Mapping[str, Histogram], OfParts] | None:
    """The figures of the part of the peak window in `measured`, and its histograms by the names of the metrics: of all
    transactions, and of each part. None if there is no such part, or if single transactions were not kept. `first`:
    as in `Layout`."""
    if peak is None or run.transactions is None:
        return None
    start, end = max(measured.start, round(peak.start_s * 1e9)), min(measured.end, round(peak.end_s * 1e9))
    if end <= start:
        return None
    window = Window(start, end)
    file = transactions_of(run, connected=bool(first), round_trips=round_trips)
    layout = layout_of(file, run, options, window, [], run_agents, placement, first, window)
    summary = summarise_transactions(file, layout, options)
    used = hosts_used_in(run, results, window, run_agents)
    opened = read_connections(run, window)
    versions = read_staleness(run, window, greatest_bound(run_agents))
    histograms = dict(summary.histograms)
    histograms |= {} if opened is None else opened.histograms
    histograms |= {} if versions is None else {HISTOGRAM: versions.ages}
    result = WindowResult(
        start_s=start / 1e9,
        end_s=end / 1e9,
        traffic=summary.traffic,
        jain_index=summary.fairness.jain,
        share_cv=summary.fairness.cv,
        components=components_in(run, results, window, run_agents, used),
        services=services_of(run, window, watched_readings(run)),
        metrics=metrics_of(run, window),
        staleness=None if versions is None else versions.staleness,
        connections=None if opened is None else opened.connections,
        workloads=summary.workloads,
        operations=summary.operations,
        first=summary.first,
        share_min=summary.fairness.ends[0],
        share_max=summary.fairness.ends[1],
    )
    return result, _of_peak(histograms), {part: _of_peak(own) for part, own in summary.parts.items()}


def _of_peak(histograms: Mapping[str, Histogram]) -> dict[str, Histogram]:
    return {f"{name}{PEAK.suffix}": histogram for name, histogram in histograms.items()}


def transactions_of(
    run: RunFiles, *, connected: bool = False, round_trips: RoundTrips | None = None
) -> TransactionFile:
    """The transactions of a run that kept them. `connected`: whether to read when connections were opened;
    `round_trips`: those of its connections."""
    assert run.transactions is not None
    return TransactionFile(
        run.transactions,
        tuple(run.record["workloads"]),
        operations="operations" in run.record,
        connected=connected,
        round_trips=round_trips,
    )
