"""The result of one run, computed from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from plimsoll.analyse.answer.worded import (
    worded_run,
)
from plimsoll.analyse.components.cpu_series import whole_seconds
from plimsoll.analyse.components.sessions import database_sessions
from plimsoll.analyse.components.utilization_hosts import HostsUsed
from plimsoll.analyse.design.caches import cache_times
from plimsoll.analyse.design.capacity.ramp import ramp, ramp_step
from plimsoll.analyse.hosts.clocks import clock_notes, greatest_bound
from plimsoll.analyse.hosts.coverage import loss
from plimsoll.analyse.hosts.hosts import (
    RoundTrips,
    TesterPlacement,
    hosts_result,
    named_testers,
    tester_placement,
)
from plimsoll.analyse.results.actions import ActionsResult
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import CacheTimes, FewTransactions, OperationResult
from plimsoll.analyse.run.changes import run_changes
from plimsoll.analyse.run.few import few_transactions
from plimsoll.analyse.run.parts import OfParts, by_part
from plimsoll.analyse.run.runs import RunFacts, run_result
from plimsoll.analyse.run.seconds import REMARK, summarise_seconds
from plimsoll.analyse.run.staleness import HISTOGRAM, remark
from plimsoll.analyse.run.summary import RunSummary, of_changing_load
from plimsoll.analyse.run.tester_sessions import HISTOGRAM as SESSIONS
from plimsoll.analyse.run.tester_sessions import remark as session_remark
from plimsoll.analyse.run.validity.own_delays import own_delays
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.analyse.window.load_profile import load_bins
from plimsoll.analyse.window.transactions import Stage, Window
from plimsoll.assemble.facts import facts_of, has_balanced_counts
from plimsoll.assemble.run.actions import availability_limit, has_acted, result_of_actions, with_phases
from plimsoll.assemble.run.asked import AnalysisRequest
from plimsoll.assemble.run.component_series import component_series
from plimsoll.assemble.run.components import components_in, conditions_in, cpu_in, hosts_used_in
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.run.round_trips import missing_round_trips, round_trips_of
from plimsoll.assemble.run.window import (
    at_peak,
    layout_of,
    planned_load,
    ramp_steps,
    read_connections,
    read_staleness,
    read_tester_sessions,
    summarise_transactions,
    transactions_of,
)
from plimsoll.collect.columns.caches import NONE, read_caches
from plimsoll.collect.hosts import RunAgents, owners, read_agents, read_round_trips
from plimsoll.collect.live import seconds_of
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.watched import service_readings, watched_readings
from plimsoll.errors import BadInput


def measured_window(run: RunFiles, options: Options) -> Window | None:
    """The measured window of a run; None if the run ended within its warm-up.

    Raises BadInput if that is due to the warm-up of the options.
    """
    start = round(_warmup_s(run, options) * 1e9)
    end = int((run.summary or {})["measured_end_ns"])
    if end > start:
        return Window(start, end)
    if options.warmup_s is not None and end > round(run.record["warmup_s"] * 1e9):
        raise BadInput(
            f"run {run.id}: a warm-up of {options.warmup_s:g} s is not shorter than the run of {end / 1e9:g} s"
        )
    return None


def _warmup_s(run: RunFiles, options: Options) -> float:
    return float(run.record["warmup_s"]) if options.warmup_s is None else options.warmup_s


def one_run(
    run: RunFiles, results: Results, options: Options, measured: Window, rules: AnalysisRequest
) -> tuple[RunResult, Mapping[str, Histogram], OfParts]:
    """The result of a run, its histograms by name, and its results by workload and operation. The run must have a
    summary."""
    assert run.summary is not None
    record, summary = run.record, run.summary
    stages = _stages(record, measured)
    remarks: tuple[str, ...] = ()
    acts: ActionsResult | None = None
    run_agents, placement, trips = read_agents(run), None, None
    if run.transactions is None:
        run_summary = summarise_seconds(
            seconds_of(run.live),
            measured,
            stages=stages,
            in_flight=int(summary["in_flight"]),
            bound_ns=greatest_bound(run_agents),
            chart_quantum_s=options.chart_quantum_s,
        )
        remarks = (REMARK,)
    else:
        trips = round_trips_of(run, rules.less_rtt)
        file = transactions_of(run, connected=bool(rules.first), round_trips=trips)
        placement = (
            tester_placement(run_agents, owners(run.transactions, file.testers))
            if run_agents.several
            else None
        )
        limit = availability_limit(rules, record["cell"])
        layout = layout_of(file, run, options, measured, stages, run_agents, placement, rules.first)
        layout = with_phases(layout, record, limit)
        run_summary = summarise_transactions(file, layout, options)
        acts = result_of_actions(run, run_summary, layout, limit)
        run_summary = replace(
            run_summary, operations=in_file_order(run_summary.operations, record.get("operations", {}))
        )
    # An action changes the service, so that throughput is not steady by plan.
    changes_by_plan = record.get("load_changes", len(record["stages"]) > 1) or has_acted(record)
    if changes_by_plan:
        rising = [number for number, stage in enumerate(record["stages"]) if stage.get("changes")]
        run_summary = of_changing_load(run_summary, rising)
    if rules.less_rtt and (missing := missing_round_trips(run, run_summary.traffic)):
        remarks = (*remarks, missing)
    live = seconds_of(run.live)
    used = hosts_used_in(run, results, measured, run_agents)
    facts = facts_of(run, measured, _warmup_s(run, options), remarks, used)
    own = own_delays(live, measured, run_summary.histograms, rules.quantiles)
    is_only = len(results.plan["runs"]) == 1
    facts = replace(facts, components=components_in(run, results, measured, run_agents, used))
    facts = replace(facts, caches=_caches(run, measured), own=own, actions=acts, is_only=is_only)
    if run_agents.several:
        facts, run_summary = _with_hosts(facts, run_summary, run, run_agents, placement, measured, used)
    versions = read_staleness(run, measured, greatest_bound(run_agents))
    histograms = dict(run_summary.histograms)
    opened = read_connections(run)
    if opened is not None:
        facts = replace(facts, connections=opened.connections)
        histograms |= opened.histograms
    jobs = read_tester_sessions(run, measured)
    if jobs is not None:
        notes = [*facts.notes, *filter(None, [session_remark(jobs.sessions, measured)])]
        facts = replace(facts, tester_sessions=jobs.sessions, notes=notes)
        histograms[SESSIONS] = jobs.durations
    if versions is not None:
        notes = [*facts.notes, *filter(None, [remark(versions.staleness)])]
        facts = replace(facts, staleness=versions.staleness, notes=notes)
        histograms[HISTOGRAM] = versions.ages
    result = _with_ramp(run_result(facts, run_summary, rules.validity), run, measured, run_summary, rules)
    result = replace(result, few=_few(result, record))
    if not changes_by_plan and facts.loss is None:
        # From the one-second counts, which exist whether or not single transactions were kept.
        cpu = cpu_in(run, measured, run_agents)
        result = replace(result, changes=run_changes(live, whole_seconds(measured), cpu))
    result = replace(result, conditions=conditions_in(run, measured, run_agents, result.traffic))
    shown = component_series(run, results, options, run_agents, run_summary.series)
    readings = (*service_readings(run), *watched_readings(run))
    result = replace(result, component_series=shown, sessions=database_sessions(readings, measured))
    parts = run_summary.parts
    if rules.at_peak:
        peak = at_peak(
            run, results, options, measured, run_summary.peak, run_agents, placement, rules.first, trips
        )
        if peak is not None:
            result, histograms = replace(result, at_peak=peak[0]), {**histograms, **peak[1]}
            parts = {part: {**own, **peak[2].get(part, {})} for part, own in parts.items()}
    return worded_run(result), {**histograms, **by_part(parts)}, parts


def in_file_order(
    operations: Sequence[OperationResult], names: Mapping[str, Sequence[str]]
) -> tuple[OperationResult, ...]:
    """Operations in the order of the experiment file. The transactions have that of their first occurrence, which
    differs from run to run. `names`: of the operations of each workload, from run.json."""
    positions = {(workload, name): index for workload in names for index, name in enumerate(names[workload])}
    workloads = list(names)

    def position(operation: OperationResult) -> tuple[int, int]:
        key = (operation.workload, operation.operation)
        if key not in positions:
            return len(workloads), 0
        return workloads.index(operation.workload), positions[key]

    return tuple(sorted(operations, key=position))


def _with_hosts(
    facts: RunFacts,
    run_summary: RunSummary,
    run: RunFiles,
    run_agents: RunAgents,
    placement: TesterPlacement | None,
    measured: Window,
    used: HostsUsed,
) -> tuple[RunFacts, RunSummary]:
    """The additional results of a run with several agents."""
    tester, value = read_round_trips(run.path / "metrics.parquet", measured.start, measured.end)
    trips = RoundTrips(
        tester, value, services_here=any(not service.get("host") for service in run.record["services"])
    )
    shares = facts.open_load != "all"
    hosts = hosts_result(
        run_agents,
        placement,
        run_summary,
        measured,
        trips,
        shares=shares,
        cpu=used.cpu,
        configuration=run.record["effective"],
    )
    if placement is not None:
        run_summary = replace(
            run_summary,
            testers=named_testers(run_summary.testers, placement, run_summary, trips, hosts.rtt_source),
        )
    widened_s = run_summary.series.quantum_s if run_summary.widened else None
    notes = [*facts.notes, *clock_notes(hosts, widened_s, measured)]
    last = {agent.agent: round(agent.last_s * 1e9) for agent in hosts.lost if agent.last_s is not None}
    lost = loss(run_agents, last, measured)
    counts = replace(
        facts.counts, balanced=facts.counts.balanced or (lost is not None and has_balanced_counts(run))
    )
    return replace(facts, hosts=hosts, loss=lost, counts=counts, notes=notes), run_summary


def _caches(run: RunFiles, measured: Window) -> tuple[CacheTimes, ...]:
    if run.transactions is None:
        return ()
    times = cache_times(read_caches(run.transactions, measured.start, measured.end))
    return () if [entry.cache for entry in times] == [NONE] else times


def _few(result: RunResult, record: Mapping[str, Any]) -> FewTransactions | None:
    each_tester = (record["effective"].get("run", {}).get("until") or {}).get("each_tester")
    return few_transactions(result.testers, result.open_load, result.traffic.window_s, each_tester)


def _with_ramp(
    run: RunResult,
    files: RunFiles,
    measured: Window,
    run_summary: RunSummary,
    rules: AnalysisRequest,
) -> RunResult:
    profile = planned_load(files.record)
    if profile is None or not run_summary.bins:
        return run
    steps = tuple(
        ramp_step(step, traffic)
        for step, traffic in zip(ramp_steps(files, profile, measured), run_summary.steps, strict=True)
    )
    judged_rules = [
        threshold.rule
        for threshold in rules.thresholds
        if threshold.applies(run.cell) and not threshold.parts
    ]
    judged_rules += [
        rule
        for rule in (rules.capacity.response, rules.capacity.errors)
        if rule is not None and not rules.capacity.parts
    ]
    judged_rules += [threshold.rule for threshold in rules.capacity.usable if not threshold.parts]
    result = ramp(run, profile, load_bins(profile, measured), run_summary.bins, judged_rules)
    return replace(run, ramp=replace(result, steps=steps))


def _stages(record: Mapping[str, Any], measured: Window) -> list[Stage]:
    """The stages, cut to the measured window. Stages outside the window are left out."""
    stages = []
    for number, stage in enumerate(record["stages"]):
        start = max(round(stage["start_s"] * 1e9), measured.start)
        end = min(round(stage["end_s"] * 1e9), measured.end)
        if end > start:
            stages.append(Stage(number, stage["name"], Window(start, end)))
    return stages
