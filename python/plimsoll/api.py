"""Results of an experiment, from a script or a notebook: `plimsoll.api.analysis("results/latest")`.

The bridge between the stages: `collect` reads files, `analyse` is pure, and here they meet. The verbs of the command
line call nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plimsoll.analyse.across import Design, cell_results, grouped, verdicts
from plimsoll.analyse.answer.compose import with_answer
from plimsoll.analyse.answer.left_out import worded_left_out
from plimsoll.analyse.answer.superseded import earlier_note
from plimsoll.analyse.answer.worded import (
    worded_model,
    worded_run,
    worded_saturation,
    worded_superseded,
    worded_verdict,
)
from plimsoll.analyse.caches import cache_times
from plimsoll.analyse.clocks import about_time, greatest_bound
from plimsoll.analyse.connections import HISTOGRAMS, connections
from plimsoll.analyse.connections import Found as OpenedConnections
from plimsoll.analyse.consistency import consistency
from plimsoll.analyse.counted import counted_services
from plimsoll.analyse.coverage import loss
from plimsoll.analyse.fits import Wanted, fit_all
from plimsoll.analyse.hosts import Placed, RoundTrips, hosts_result, named_testers, placed, places_of
from plimsoll.analyse.load_line import rankings, saturations
from plimsoll.analyse.load_profile import Piece, Profile, load_bins
from plimsoll.analyse.named import named_metrics
from plimsoll.analyse.own_delays import own_delays
from plimsoll.analyse.parts import OfParts
from plimsoll.analyse.quantiles import STANDARD, Histogram
from plimsoll.analyse.ramp import ramp
from plimsoll.analyse.results import (
    Analysis,
    CacheTimes,
    Counts,
    ExperimentInfo,
    NameLookup,
    OpenLoad,
    RunResult,
)
from plimsoll.analyse.results_verdicts import LeftOut, LeftOutReason, Value
from plimsoll.analyse.runs import RunFacts, run_result
from plimsoll.analyse.seconds import REMARK, summarise_seconds
from plimsoll.analyse.staleness import HISTOGRAM, Found, remark, staleness
from plimsoll.analyse.summary import Accumulator, Layout, RunSummary, of_changing_load
from plimsoll.analyse.superseded import NotComparable, with_superseded
from plimsoll.analyse.transactions import Stage, Window
from plimsoll.analyse.utilization import monitor_cpu, utilizations
from plimsoll.analyse.utilization_hosts import HostsUsed, greatest, of_hosts
from plimsoll.analyse.verdict_rules import RULES
from plimsoll.analyse.watched import host_notes, watch_notes, watched_utilizations
from plimsoll.analyse.wording import listing
from plimsoll.collect.caches import NONE, read_caches
from plimsoll.collect.earlier import read_earlier
from plimsoll.collect.hosts import (
    TCP_RETRANSMITS,
    TCP_RTT,
    Crew,
    cores_of_hosts,
    links_of_hosts,
    owners,
    read_crew,
    read_round_trips,
)
from plimsoll.collect.live import seconds_of
from plimsoll.collect.parquet import TransactionFile, read_metrics, read_samples, read_whole_metrics
from plimsoll.collect.results import Results, RunFiles, open_results
from plimsoll.collect.versions import OBJECT, READ, VERSION, read_versioned
from plimsoll.collect.watched import watched_readings
from plimsoll.errors import BadInput, DamagedResults
from plimsoll.plan.model import CapacityRules, Threshold, Validity
from plimsoll.plan.model_hosts import LOCAL
from plimsoll.plan.rules import Rule, RuleError, parse_rule
from plimsoll.plan.units import parse_duration
from plimsoll.report.setup import ServiceSetUp, SetUp, StoredFile

ENDED_AS_PLANNED = {"done": "finished", "ceiling": "finished", "stopped": "interrupted"}
"""Ends of a run as the engine names them, in the words of the results; every other end is "failed"."""
ONLY_AGENT = "local"


@dataclass(frozen=True, slots=True)
class Options:
    """What may be changed when results are analysed again. `warmup_s`: cut so much instead of what the file says;
    `quantum_s`: of the time series; `exact`: quantiles from every transaction, else from histograms (0.1 %)."""

    warmup_s: float | None = None
    quantum_s: float | None = None
    exact: bool = True

    @classmethod
    def parse(cls, sets: list[str], quantum: str | None, *, exact: bool = True) -> Options:
        """From `--set run.warmup=20s` and `--quantum 10s`. Raises BadInput."""
        warmup = None
        for given in sets:
            path, _, value = given.partition("=")
            if path.strip() != "run.warmup":
                raise BadInput(f"--set {given}: only run.warmup can be changed after the measurement")
            warmup = _seconds(value, f"--set {given}")
        return cls(warmup, None if quantum is None else _seconds(quantum, f"--quantum {quantum}"), exact)


def analysis(directory: str | Path, options: Options | None = None) -> Analysis:
    """Computes the whole analysis of a results directory from its files. Raises DamagedResults."""
    return analysis_of(open_results(Path(directory)), options)


def analysis_of(results: Results, options: Options | None = None) -> Analysis:
    """The same for results that are open. Where nothing is changed by options, the verdicts of the analysis.json that
    is there are held against it."""
    found = analyse_results(results, options or Options())
    return found if options not in (None, Options()) else _with_earlier(results, found)


def _with_earlier(results: Results, found: Analysis) -> Analysis:
    """With the verdicts of the earlier analysis that newer rules state otherwise. One that cannot be read is noted: it
    is not what was measured."""
    try:
        earlier = read_earlier(results.path)
        return found if earlier is None else worded_superseded(with_superseded(found, earlier))
    except (DamagedResults, NotComparable) as error:
        return replace(found, notes=(*found.notes, earlier_note(str(error))))


def analyse_results(results: Results, options: Options) -> Analysis:
    """The analysis alone, from what was measured."""
    rules = _Rules(results.plan)
    runs: list[RunResult] = []
    histograms: dict[str, Mapping[str, Histogram]] = {}
    parts: dict[str, OfParts] = {}
    left: list[LeftOut] = list(_not_there(results))
    for run in results.runs:
        if run.summary is None or (run.transactions is None and not run.live):
            left.append(_nothing_of(run))
            continue
        measured = _measured(run, options)
        if measured is None:
            left.append(_within_warmup(run))
            continue
        found, histograms[run.id], parts[run.id] = _one(run, results, options, measured, rules)
        runs.append(found)
    info = _info(results, runs)
    names = [one.metric for one in rules.responses]
    groups = grouped(runs, histograms, rules.design, parts)
    effects, models, unfitted = fit_all(runs, info.factors, rules.responses)
    lines = saturations(groups, rules.design, rules.capacity, names)
    whole = Analysis(
        experiment=info,
        answer=(),
        runs=tuple(runs),
        cells=cell_results(groups, rules.design, names),
        saturation=tuple(map(worded_saturation, lines)),
        rankings=rankings(groups, rules.design, lines),
        effects=effects,
        models=tuple(map(worded_model, models)),
        verdicts=tuple(map(worded_verdict, verdicts(groups, rules.thresholds, _unfinished(results)))),
        left_out=tuple(
            map(worded_left_out, (*left, *(one for run in runs for one in _left_out(run)), *unfitted))
        ),
        consistency=consistency(groups, rules.design),
        rules=RULES,
    )
    return with_answer(whole)


def _unfinished(results: Results) -> list[dict[str, str]]:
    """Cells of which a run is still to come, or was interrupted and will be carried out again."""
    ended = {run.id for run in results.runs if ENDED_AS_PLANNED.get(run.record["status"]) != "interrupted"}
    return [run["cell"] for run in results.plan["runs"] if run["id"] not in ended]


class _Rules:
    """What plan.json asks of the analysis, parsed."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        try:
            self.responses = [Wanted(one["metric"], one["scale"]) for one in plan["responses"]]
            self.validity = Validity(**plan["validity"])
            self.capacity = _capacity(plan["capacity"])
            self.thresholds = [_threshold(one) for one in plan["thresholds"]]
            self.design = _design(plan)
            asked = [each.rule for each in self.thresholds]
            asked += [each for each in (self.capacity.response,) if each is not None]
            self.quantiles = (*STANDARD, *(each.arg / 100 for each in asked if each.arg is not None))
        except (KeyError, TypeError, RuleError) as error:
            raise DamagedResults(f"plan.json is not what this release writes: {error}") from error


def _design(plan: Mapping[str, Any]) -> Design:
    load = plan["load_factor"]
    values: dict[str, float] = {}
    for run in plan["runs"]:
        if load is not None and load in run["values"]:
            values[run["cell"][load]] = float(run["values"][load])
    return Design({factor["name"]: factor["levels"] for factor in plan["factors"]}, load, values)


def _capacity(told: Mapping[str, Any]) -> CapacityRules:
    response, errors = told["response"], told["errors"]
    parts = {kind: tuple(names) for kind, names in told.get("parts", {}).items()}
    of = "".join(f" ({kind} {listing(names)})" for kind, names in parts.items())

    def rule(text: str, metric: str) -> Rule | None:
        return replace(parse_rule(text, metric), text=text + of) if text else None

    return CapacityRules(rule(response, "response"), rule(errors, "errors"), response, errors, parts)


def _threshold(told: Mapping[str, Any]) -> Threshold:
    where, parts = (
        {name: tuple(labels) for name, labels in told.get(key, {}).items()} for key in ("where", "parts")
    )
    return Threshold(told["metric"], parse_rule(told["test"], told["metric"]), told["test"], where, parts)


def _measured(run: RunFiles, options: Options) -> Window | None:
    """What is measured of a run; None if it ended within its warm-up. BadInput where the user's cut does it."""
    start = round(_warmup_s(run, options) * 1e9)
    end = int((run.summary or {})["measured_end_ns"])
    if end > start:
        return Window(start, end)
    if options.warmup_s is not None and end > round(run.record["warmup_s"] * 1e9):
        raise BadInput(f"run {run.id}: a warm-up of {options.warmup_s:g} s leaves nothing of {end / 1e9:g} s")
    return None


def _warmup_s(run: RunFiles, options: Options) -> float:
    return float(run.record["warmup_s"]) if options.warmup_s is None else options.warmup_s


def _one(
    run: RunFiles, results: Results, options: Options, measured: Window, rules: _Rules
) -> tuple[RunResult, Mapping[str, Histogram], OfParts]:
    assert run.summary is not None
    record, summary = run.record, run.summary
    stages = _stages(record, measured)
    remarks: tuple[str, ...] = ()
    crew, where = read_crew(run), None
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
    facts = _facts(run, measured, _warmup_s(run, options), remarks, used)
    own = own_delays(seconds_of(run.live), measured, found.histograms, rules.quantiles)
    facts = replace(facts, caches=_caches(run, measured), own=own)
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
    crew: Crew,
    where: Placed | None,
    measured: Window,
    used: HostsUsed,
) -> tuple[RunFacts, RunSummary]:
    """What a run of several agents says besides."""
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
    counts = replace(facts.counts, balanced=facts.counts.balanced or (lost is not None and _adds_up(run)))
    return replace(facts, hosts=hosts, loss=lost, counts=counts, notes=notes), found


def _used(run: RunFiles, results: Results, measured: Window, crew: Crew) -> HostsUsed:
    samples = read_samples(run.samples) if run.samples is not None else []
    cores, together = _cores(run.record, results), _together(run.record)
    if crew.several:
        elsewhere = cores_of_hosts(results.environment)
        links = links_of_hosts(results.environment)
        return of_hosts(samples, measured, crew.agents, cores, elsewhere, together, links)
    link = links_of_hosts(results.environment).get(crew.agents[0].host) if crew.agents else None
    shown = utilizations(samples, measured, cores, together, link_bytes_s=link)
    testers = [one for one in shown if one.role == "testers"]
    busiest, demand = (greatest(testers, detail) for detail in ("busiest_thread", "thread_demand"))
    return HostsUsed(shown, busiest, demand, None, {}, monitor_cpu(samples, measured))


def _adds_up(run: RunFiles) -> bool:
    """Whether the books of a run that lost agents balance: they are closed with what is on disk of theirs."""
    summary = run.summary or {}
    counters, rows = summary["counters"], summary.get("rows")
    closed = bool(counters["started"] == counters["succeeded"] + counters["failed"] + summary["in_flight"])
    if rows is None:
        return closed and summary.get("keep") == "summaries"
    return closed and bool(rows["counters"]["started"] == counters["started"])


def _caches(run: RunFiles, measured: Window) -> tuple[CacheTimes, ...]:
    if run.transactions is None:
        return ()
    found = cache_times(read_caches(run.transactions, measured.start, measured.end))
    return () if [each.cache for each in found] == [NONE] else found


def _connections(run: RunFiles) -> OpenedConnections | None:
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


def _staleness(run: RunFiles, measured: Window, bound_ns: int) -> Found | None:
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
    crew: Crew,
    where: Placed | None,
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
        open_loads=_open_workloads(record),
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
    run: RunResult, record: Mapping[str, Any], measured: Window, found: RunSummary, rules: _Rules
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


def _facts(
    run: RunFiles,
    measured: Window,
    warmup_s: float,
    remarks: tuple[str, ...],
    used: HostsUsed,
) -> RunFacts:
    record, summary = run.record, run.summary or {}
    counts = _counts(summary)
    planned = started = None
    if record["plans_starts"]:
        started = float(counts.started)
        planned = started + (0 if record["drops_on_request"] else counts.dropped)
    status = ENDED_AS_PLANNED.get(record["status"], "failed")
    notes = [
        *remarks,
        *summary.get("damage", []),
        record.get("cpus_remark") or "",
        *watch_notes(record.get("watched", ())),
        *host_notes(record),
        f"{lost} of its events could not be written" if (lost := record.get("events_lost")) else "",
        record["reason"] if status != "finished" else "",
    ]
    named = run.path / "metrics.parquet"
    # Round trips stand with the hosts that made them: of all together they say nothing.
    without = [TCP_RTT, TCP_RETRANSMITS, *HISTOGRAMS, *([OBJECT, VERSION] if "versions" in record else [])]
    return RunFacts(
        open_load=_open_load(record),
        id=run.id,
        cell=record["cell"],
        repetition=record["repetition"],
        order=record["order"],
        block=record["block"],
        status=status,
        warmup_s=warmup_s,
        counts=counts,
        utilization=(*used.shown, *watched_utilizations(watched_readings(run), measured)),
        planned=planned,
        started=started,
        busiest_thread=used.busiest_thread,
        thread_demand=used.thread_demand,
        steal=used.steal,
        monitor_cpu=used.monitor_cpu,
        metrics=named_metrics(read_metrics(named, measured.start, measured.end, without))
        if named.exists()
        else (),
        services=counted_services([*record["services"], *record.get("watched", ())]),
        notes=[note for note in notes if note],
    )


def _open_workloads(record: Mapping[str, Any]) -> frozenset[str]:
    """Workloads with a rate, by the configuration that is kept with the run; a staged one with a rate in some stage."""
    effective = record["effective"]
    loads = {name: each["load"] for name, each in effective.get("workloads", {}).items()}
    loads = loads or dict.fromkeys(record["workloads"], effective.get("load", {}))
    parts = {name: (load, *load.get("stages", ())) for name, load in loads.items()}
    return frozenset(name for name, each in parts.items() if any("rate" in part for part in each))


def _open_load(record: Mapping[str, Any]) -> OpenLoad:
    found = len(_open_workloads(record))
    return "none" if not found else "all" if found == len(record["workloads"]) else "some"


def _counts(summary: Mapping[str, Any]) -> Counts:
    counters = summary["counters"]
    return Counts(
        started=counters["started"],
        succeeded=counters["succeeded"],
        failed=counters["failed"],
        in_flight_at_end=summary["in_flight"],
        dropped=counters["dropped"],
        missed=counters["missed"],
        lost_records=counters["lost_records"],
        balanced=summary["balanced"],
    )


def _cores(record: Mapping[str, Any], results: Results) -> dict[str, int]:
    usable = len(results.environment["cpu"]["usable"])
    cores = {"host": usable, "testers": len(record["tester_cpus"]) or usable}
    for service in record["services"]:
        cores[f"service:{service['name']}"] = len(service["cpus"]) or usable
    here = (one for one in record.get("watched_hosts", ()) if one["address"] == LOCAL)
    return dict.fromkeys((f"service:{name}" for one in here for name in one["processes"]), usable) | cores


def _together(record: Mapping[str, Any]) -> list[list[str]]:
    """Services that are bound to the same cores, where several are."""
    bound: dict[tuple[int, ...], list[str]] = {}
    for service in record["services"]:
        if service["cpus"]:
            bound.setdefault(tuple(service["cpus"]), []).append(f"service:{service['name']}")
    return [names for names in bound.values() if len(names) > 1]


def _info(results: Results, runs: list[RunResult]) -> ExperimentInfo:
    plan, told = results.plan, results.plan["experiment"]
    return ExperimentInfo(
        name=told["name"],
        question=told["question"],
        directory=str(results.path),
        seed=plan["seed"],
        factors={factor["name"]: list(factor["levels"]) for factor in plan["factors"]},
        load_factor=plan["load_factor"],
        design=plan["design"]["kind"],
        repetitions=plan["design"]["repetitions"],
        planned_runs=results.planned,
        finished_runs=len(runs),
        complete=results.complete,
        responses=tuple(one["metric"] for one in plan["responses"]),
        started=results.environment.get("started", ""),
        shared_services=_shared_services(results),
    )


def _shared_services(results: Results) -> tuple[str, ...]:
    """Names of services of which all runs had the same process: another instance may behave otherwise."""
    found = [
        {(each["name"], each.get("pid")) for each in run.record.get("services", ())} for run in results.runs
    ]
    shared = set.intersection(*found) if len(found) > 1 else set()
    return tuple(sorted(name for name, pid in shared if pid is not None))


def _not_there(results: Results) -> list[LeftOut]:
    """What of the plan was not to be measured. This and what follows: without texts."""
    excluded = results.plan["design"]["excluded"]
    found = [_leave(LeftOutReason.EXCLUDED, cells=tuple(excluded))] if excluded else []
    for host in results.environment.get("hosts", ()):
        if host.get("reason"):
            told = {"host": host["name"], "site": host["site"], "reason": host["reason"]}
            found.append(_leave(LeftOutReason.HOST, **told))
    return found + [_leave(LeftOutReason.NOT_ESTIMABLE, term=text) for text in results.plan["not_estimable"]]


def _leave(code: LeftOutReason, *, cells: tuple[dict[str, str], ...] = (), **values: Value) -> LeftOut:
    return LeftOut("", "", code, values, cells)


def _nothing_of(run: RunFiles) -> LeftOut:
    """A run that measured nothing."""
    status, reason = run.record.get("status"), run.record.get("reason")
    return _leave(LeftOutReason.MEASURED_NOTHING, run=run.id, status=status, reason=reason)


def _within_warmup(run: RunFiles) -> LeftOut:
    status, reason, cut = run.record.get("status"), run.record.get("reason"), run.record["warmup_s"]
    return _leave(LeftOutReason.WITHIN_WARMUP, run=run.id, status=status, reason=reason, warmup_s=cut)


def _left_out(run: RunResult) -> list[LeftOut]:
    """What of a run is in no figure."""
    found = []
    if not run.valid:
        reason = "; ".join(run.invalid_reasons)
        cells = (run.cell,) if run.cell else ()
        found.append(_leave(LeftOutReason.INVALID, run=run.id, reason=reason, cells=cells))
    books = (
        (LeftOutReason.DROPPED, run.counts.dropped),
        (LeftOutReason.MISSED, run.counts.missed),
        (LeftOutReason.IN_PROGRESS, run.counts.in_flight_at_end),
    )
    return found + [_leave(code, run=run.id, count=times) for code, times in books if times]


def setup_of(results: Results) -> SetUp:
    """The set-up of the experiment for its report."""
    own = str(results.environment.get("versions", {}).get("plimsoll", ""))
    services: dict[tuple[str, str, str, str], None] = {}
    for run in results.runs:
        for told in run.record["services"]:
            config = run.path / "services" / told["name"] / "config"
            text = config.read_text(encoding="utf-8", errors="replace") if config.exists() else ""
            services[told["name"], told["kind"], text, told.get("version") or own] = None
    environment = dict(results.environment)
    command_line = " ".join(environment.pop("command_line", []))
    return SetUp(
        experiment_text=results.experiment_text,
        effective_text=results.effective_text,
        environment=environment,
        services=tuple(ServiceSetUp(*one) for one in services),
        files=tuple(
            StoredFile(str(path.relative_to(results.path)), path.stat().st_size)
            for path in sorted(results.path.rglob("*"))
            if path.is_file()
        ),
        seeds={"design": results.plan["seed"]},
        command_line=command_line,
    )


def _seconds(text: str, where: str) -> float:
    try:
        return parse_duration(text.strip()) / 1e9
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from error
