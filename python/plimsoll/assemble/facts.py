"""Facts of a run from its record, its counts and its monitors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.analyse.components.counted import counted_services, window_counts
from plimsoll.analyse.components.tiers import foreign_notes, tier_counts
from plimsoll.analyse.components.utilization_hosts import HostsUsed
from plimsoll.analyse.components.watched.notes import host_notes, watch_notes
from plimsoll.analyse.components.watched.systems import watched_utilizations
from plimsoll.analyse.results.analysis import OpenLoad
from plimsoll.analyse.results.named import NamedMetric
from plimsoll.analyse.results.run import CountedService, Counts, TierCounts
from plimsoll.analyse.run.connections import HISTOGRAMS
from plimsoll.analyse.run.named import named_metrics
from plimsoll.analyse.run.runs import RunFacts
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.columns.parquet import read_metrics
from plimsoll.collect.columns.sessions import METRICS as SESSION_METRICS
from plimsoll.collect.columns.versions import OBJECT, VERSION
from plimsoll.collect.hosts import (
    TCP_RETRANSMITS,
    TCP_RTT,
)
from plimsoll.collect.requests import RequestCounts, read_requests, whole_requests
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.watched import WatchedReadings, service_readings, watched_readings
from plimsoll.plan.model.hosts import LOCAL

ENDED_AS_PLANNED = {"done": "finished", "ceiling": "finished", "stopped": "interrupted"}
"""Status of a run in the engine -> status in the results. Every other status of the engine is "failed"."""


def facts_of(
    run: RunFiles,
    measured: Window,
    warmup_s: float,
    remarks: tuple[str, ...],
    used: HostsUsed,
) -> RunFacts:
    """The facts of a run, for the measured window. `warmup_s`: of this analysis; `remarks`: further notes."""
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
        _repetition_note(run.id, record.get("earlier_attempts", 0)),
    ]
    watched = watched_readings(run)
    tiers = tiers_of_run(run, counts)
    notes += foreign_notes(tiers)
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
        utilization=(*used.shown, *watched_utilizations(watched, measured)),
        planned=planned,
        started=started,
        busiest_thread=used.busiest_thread,
        thread_demand=used.thread_demand,
        throttled=used.throttled,
        steal=used.steal,
        monitor_cpu=used.monitor_cpu,
        metrics=metrics_of(run, measured),
        services=services_of(run, measured, watched),
        tiers=tiers,
        notes=[note for note in notes if note],
    )


def _repetition_note(run_id: str, attempts: int) -> str:
    if not attempts:
        return ""
    if attempts == 1:
        return f"it was repeated later than planned: the files of its earlier attempt are in abandoned/{run_id}.1"
    return (
        f"it was repeated later than planned: the files of its {attempts} earlier attempts are in "
        f"abandoned/{run_id}.1 to abandoned/{run_id}.{attempts}"
    )


def metrics_of(run: RunFiles, window: Window) -> tuple[NamedMetric, ...]:
    """The named metrics of the transactions that started in the window."""
    path = run.path / "metrics.parquet"
    if not path.exists():
        return ()
    # Round trips are kept per host: a mean over all hosts is meaningless.
    versions = [OBJECT, VERSION] if "versions" in run.record else []
    without = [TCP_RTT, TCP_RETRANSMITS, *HISTOGRAMS, *SESSION_METRICS, *versions]
    return named_metrics(read_metrics(path, window.start, window.end, without))


def services_of(
    run: RunFiles, window: Window, watched: Sequence[WatchedReadings]
) -> tuple[CountedService, ...]:
    """The counters of services and watched systems, with those of the window. `watched`: `watched_readings`."""
    # A watched system has other clients than the testers. The end is unknown for runs with a planned end: they drain.
    ended = None if run.record["planned_end_s"] is not None else int((run.summary or {})["measured_end_ns"])
    counts = {readings.name: window_counts(readings, window, 0, ended) for readings in service_readings(run)}
    counts |= {readings.name: window_counts(readings, window) for readings in watched}
    return counted_services([*run.record["services"], *run.record.get("watched", ())], counts)


def tiers_of_run(run: RunFiles, counts: Counts) -> tuple[TierCounts, ...]:
    """The requests that services counted, against those that the tier before them sent."""
    tiers = run.record.get("tiers", ())
    if not tiers:
        return ()
    requests, workloads = read_requests(run), run.record["workloads"]

    def testers(entry: Mapping[str, Any]) -> RequestCounts | None:
        if requests is None:
            # The counts of the engine are those of all workloads together.
            return whole_requests(run) if entry["is_whole"] and workloads == [entry["workload"]] else None
        sums = RequestCounts()
        for endpoint in entry["endpoints"]:
            sums.add(requests.get((entry["workload"], endpoint), RequestCounts()))
        return sums

    services = [*run.record["services"], *run.record.get("watched", ())]
    return tier_counts(tiers, services, testers, counts.failed + counts.in_flight_at_end)


def open_workloads(record: Mapping[str, Any]) -> frozenset[str]:
    """Names of the workloads with an open load: those with a rate, in one stage at least. The source is the
    configuration that is stored with the run."""
    effective = record["effective"]
    loads = {name: workload["load"] for name, workload in effective.get("workloads", {}).items()}
    loads = loads or dict.fromkeys(record["workloads"], effective.get("load", {}))
    parts = {name: (load, *load.get("stages", ())) for name, load in loads.items()}
    return frozenset(name for name, load_parts in parts.items() if any("rate" in part for part in load_parts))


def _open_load(record: Mapping[str, Any]) -> OpenLoad:
    open_count = len(open_workloads(record))
    return "none" if not open_count else "all" if open_count == len(record["workloads"]) else "some"


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


def cores_of(record: Mapping[str, Any], results: Results) -> dict[str, int]:
    """Number of cores that each component may use: host, testers, services, and watched processes of this host.
    Services of other hosts that are not bound to cores are left out: they may use those of their host."""
    usable = len(results.environment["cpu"]["usable"])
    cores = {"host": usable, "testers": len(record["tester_cpus"]) or usable}
    for service in record["services"]:
        if service["cpus"] or not service.get("host"):
            cores[f"service:{service['name']}"] = len(service["cpus"]) or usable
    local_hosts = (host for host in record.get("watched_hosts", ()) if host["address"] == LOCAL)
    return (
        dict.fromkeys((f"service:{name}" for host in local_hosts for name in host["processes"]), usable)
        | cores
    )


def services_on_same_cores(record: Mapping[str, Any]) -> list[list[str]]:
    """Groups of services that are bound to the same cores of a host. Groups of one service are left out."""
    bound: dict[tuple[str, ...], list[str]] = {}
    for service in record["services"]:
        if service["cpus"]:
            cores = (service.get("host") or "", *map(str, service["cpus"]))
            bound.setdefault(cores, []).append(f"service:{service['name']}")
    return [names for names in bound.values() if len(names) > 1]


def has_balanced_counts(run: RunFiles) -> bool:
    """Whether the counts of a run that lost agents are balanced. Their counts are those of their transactions on
    disk."""
    summary = run.summary or {}
    counters, rows = summary["counters"], summary.get("rows")
    closed = bool(counters["started"] == counters["succeeded"] + counters["failed"] + summary["in_flight"])
    if rows is None:
        return closed and summary.get("keep") == "summaries"
    return closed and bool(rows["counters"]["started"] == counters["started"])
