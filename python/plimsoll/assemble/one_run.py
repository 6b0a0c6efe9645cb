"""One run: its files are read, summed and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plimsoll.analyse.answer.worded import (
    worded_run,
)
from plimsoll.analyse.components.utilization import monitor_cpu, utilizations
from plimsoll.analyse.components.utilization_hosts import HostsUsed, greatest, of_hosts
from plimsoll.analyse.design.caches import cache_times
from plimsoll.analyse.design.ramp import ramp
from plimsoll.analyse.hosts.clocks import about_time, greatest_bound
from plimsoll.analyse.hosts.coverage import loss
from plimsoll.analyse.hosts.hosts import (
    RoundTrips,
    TesterPlacement,
    hosts_result,
    named_testers,
    placed,
    places_of,
)
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.run import CacheTimes, NameLookup
from plimsoll.analyse.run.connections import HISTOGRAMS, RunConnections, connections
from plimsoll.analyse.run.own_delays import own_delays
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.run.runs import RunFacts, run_result
from plimsoll.analyse.run.seconds import REMARK, summarise_seconds
from plimsoll.analyse.run.staleness import HISTOGRAM, RunStaleness, remark, staleness
from plimsoll.analyse.run.summary import Accumulator, Layout, RunSummary, of_changing_load
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.analyse.window.load_profile import Piece, Profile, load_bins
from plimsoll.analyse.window.transactions import Stage, Window
from plimsoll.assemble.asked import AnalysisRequest
from plimsoll.assemble.facts import adds_up, cores_of, facts_of, open_workloads, together
from plimsoll.assemble.options import Options
from plimsoll.collect.caches import NONE, read_caches
from plimsoll.collect.hosts import (
    RunAgents,
    cores_of_hosts,
    links_of_hosts,
    owners,
    read_agents,
    read_round_trips,
)
from plimsoll.collect.live import seconds_of
from plimsoll.collect.parquet import TransactionFile, read_samples, read_whole_metrics
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.versions import READ, read_versioned
from plimsoll.errors import BadInput

ONLY_AGENT = "local"


def measured_window(run: RunFiles, options: Options) -> Window | None:
    """What is measured of a run; None if it ended within its warm-up. BadInput where the user's cut does it."""
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
    assert run.summary is not None
    record, summary = run.record, run.summary
    stages = _stages(record, measured)
    remarks: tuple[str, ...] = ()
    crew, where = read_agents(run), None
    if run.transactions is None:
        found = summarise_seconds(
            seconds_of(run.live),
            measured,
            stages=stages,
            in_flight=int(summary["in_flight"]),
            bound_ns=greatest_bound(crew),
        )
        remarks = (REMARK,)
    else:
        file = TransactionFile(
            run.transactions, tuple(record["workloads"]), operations="operations" in record
        )
        where = placed(crew, owners(run.transactions, file.testers)) if crew.several else None
        found = _from_transactions(file, run, options, measured, stages, crew, where)
    if record.get("load_changes", len(record["stages"]) > 1):
        rising = [number for number, told in enumerate(record["stages"]) if told.get("changes")]
        found = of_changing_load(found, rising)
    used = _used(run, results, measured, crew)
    facts = facts_of(run, measured, _warmup_s(run, options), remarks, used)
    own = own_delays(seconds_of(run.live), measured, found.histograms, rules.quantiles)
    is_only = len(results.plan["runs"]) == 1
    facts = replace(facts, caches=_caches(run, measured), own=own, is_only=is_only)
    if crew.several:
        facts, found = _with_hosts(facts, found, run, crew, where, measured, used)
    versions = _staleness(run, measured, greatest_bound(crew))
    histograms = dict(found.histograms)
    opened = _connections(run)
    if opened is not None:
        facts = replace(facts, connections=opened.connections)
        histograms |= opened.histograms
    if versions is not None:
        notes = [*facts.notes, *filter(None, [remark(versions.staleness)])]
        facts = replace(facts, staleness=versions.staleness, notes=notes)
        histograms[HISTOGRAM] = versions.ages
    result = _with_ramp(run_result(facts, found, rules.validity), record, measured, found, rules)
    return worded_run(result), histograms, found.parts


def _with_hosts(
    facts: RunFacts,
    found: RunSummary,
    run: RunFiles,
    crew: RunAgents,
    where: TesterPlacement | None,
    measured: Window,
    used: HostsUsed,
) -> tuple[RunFacts, RunSummary]:
    """The additional results of a run with several agents."""
    tester, value = read_round_trips(run.path / "metrics.parquet", measured.start, measured.end)
    trips = RoundTrips(tester, value, services_here=bool(run.record["services"]))
    shares = facts.open_load != "all"
    hosts = hosts_result(crew, where, found, measured, trips, shares=shares, cpu=used.cpu)
    if where is not None:
        found = replace(found, testers=named_testers(found.testers, where, found, trips, hosts.rtt_source))
    widened_s = found.series.quantum_s if found.widened else None
    notes = [*facts.notes, *about_time(hosts, widened_s, measured)]
    last = {one.agent: round(one.last_s * 1e9) for one in hosts.lost if one.last_s is not None}
    lost = loss(crew, last, measured)
    counts = replace(facts.counts, balanced=facts.counts.balanced or (lost is not None and adds_up(run)))
    return replace(facts, hosts=hosts, loss=lost, counts=counts, notes=notes), found


def _used(run: RunFiles, results: Results, measured: Window, crew: RunAgents) -> HostsUsed:
    samples = read_samples(run.samples) if run.samples is not None else []
    cores, shared = cores_of(run.record, results), together(run.record)
    if crew.several:
        elsewhere = cores_of_hosts(results.environment)
        links = links_of_hosts(results.environment)
        return of_hosts(samples, measured, crew.agents, cores, elsewhere, shared, links)
    link = links_of_hosts(results.environment).get(crew.agents[0].host) if crew.agents else None
    shown = utilizations(samples, measured, cores, shared, link_bytes_s=link)
    testers = [one for one in shown if one.role == "testers"]
    busiest, demand = (greatest(testers, detail) for detail in ("busiest_thread", "thread_demand"))
    return HostsUsed(shown, busiest, demand, None, {}, monitor_cpu(samples, measured))


def _caches(run: RunFiles, measured: Window) -> tuple[CacheTimes, ...]:
    if run.transactions is None:
        return ()
    found = cache_times(read_caches(run.transactions, measured.start, measured.end))
    return () if [each.cache for each in found] == [NONE] else found


def _connections(run: RunFiles) -> RunConnections | None:
    """New connections and their times; None where the driver opens none, or not every transaction was kept."""
    metrics = run.path / "metrics.parquet"
    if not metrics.exists():
        return None
    lookups = tuple(
        NameLookup(agent["name"], one["name"], one["took_ns"] / 1e6)
        for agent in (run.summary or {}).get("agents", ())
        for one in agent["books"].get("lookups", ())
    )
    return connections(read_whole_metrics(metrics, HISTOGRAMS), lookups)


def _staleness(run: RunFiles, measured: Window, bound_ns: int) -> RunStaleness | None:
    """How old the versions were that readers got; None where no operation reads any, or not every transaction was
    kept."""
    does, metrics = run.record.get("versions", {}), run.path / "metrics.parquet"
    reads = any(READ in operations.values() for operations in does.values())
    if not reads or run.transactions is None or not metrics.exists():
        return None
    return staleness(read_versioned(run.transactions, metrics, does), measured, bound_ns)


def _from_transactions(
    file: TransactionFile,
    run: RunFiles,
    options: Options,
    measured: Window,
    stages: list[Stage],
    crew: RunAgents,
    where: TesterPlacement | None,
) -> RunSummary:
    record, summary = run.record, run.summary or {}
    layout = Layout(
        measured=measured,
        length_ns=max(int(summary["rows"]["last_end_ns"]), measured.end),
        codes=file.names["code"].texts,
        workloads=file.names["workload"].texts,
        tester_agents=[(record["agents"] or [ONLY_AGENT])[0]] * file.testers
        if where is None
        else where.names,
        stages=stages,
        by_workload=len(record["workloads"]) > 1,
        operations=file.names["operation"].texts if "operations" in record else None,
        open_loads=open_workloads(record),
        not_started=_not_started(run),
        bins=load_bins(profile, measured) if (profile := _profile(record)) is not None else (),
        quantum_ns=None if options.quantum_s is None else round(options.quantum_s * 1e9),
        places=None if where is None else places_of(where, crew),
    )
    accumulator = Accumulator(layout, exact=options.exact)
    for chunk in file.chunks():
        accumulator.add(chunk)
    return accumulator.result()


def _not_started(run: RunFiles) -> list[tuple[int, int]]:
    """When starts of open loads were given up (the middle of the second, ns), and how many."""
    return [(s.number * 10**9 + 5 * 10**8, s.dropped) for s in seconds_of(run.live) if s.dropped]


def _profile(record: Mapping[str, Any]) -> Profile | None:
    """The planned load over time, where it changes."""
    told = record.get("load_profile")
    if told is None:
        return None
    pieces = (
        Piece(round(one["start_s"] * 1e9), round(one["end_s"] * 1e9), one["first"], one["last"])
        for one in told["pieces"]
    )
    return Profile(told["unit"], tuple(pieces))


def _with_ramp(
    run: RunResult, record: Mapping[str, Any], measured: Window, found: RunSummary, rules: AnalysisRequest
) -> RunResult:
    profile = _profile(record)
    if profile is None or not found.bins:
        return run
    asked = [one.rule for one in rules.thresholds if one.applies(run.cell) and not one.parts]
    asked += [
        one
        for one in (rules.capacity.response, rules.capacity.errors)
        if one is not None and not rules.capacity.parts
    ]
    return replace(run, ramp=ramp(run, profile, load_bins(profile, measured), found.bins, asked))


def _stages(record: Mapping[str, Any], measured: Window) -> list[Stage]:
    """Stages cut to the measured window, those that lie in the warm-up left out."""
    found = []
    for number, told in enumerate(record["stages"]):
        start = max(round(told["start_s"] * 1e9), measured.start)
        end = min(round(told["end_s"] * 1e9), measured.end)
        if end > start:
            found.append(Stage(number, told["name"], Window(start, end)))
    return found
