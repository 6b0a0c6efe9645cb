"""The time series of the components of a run, from its files, and the bin width of time charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from plimsoll.analyse.components.component_series import CounterChoice, Placement, run_component_series
from plimsoll.analyse.hosts.clocks import greatest_bound
from plimsoll.analyse.results.components.component_series import RunComponentSeries
from plimsoll.analyse.results.run import Series
from plimsoll.assemble.facts import cores_of
from plimsoll.assemble.run.components import samples_of
from plimsoll.assemble.run.options import Options
from plimsoll.collect.hosts import RunAgents
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.watched import service_readings, watched_readings
from plimsoll.errors import BadInput
from plimsoll.plan.services.table import SERVICE_KINDS
from plimsoll.plan.source.units import NS, about_duration, parse_duration, show_duration

MAX_CHART_BINS: Final = 600
"""Maximum number of bins of `--quantum`: a chart of the page has about as many pixels."""


def component_series(
    run: RunFiles, results: Results, options: Options, run_agents: RunAgents, clients: Series
) -> RunComponentSeries | None:
    """The series of the components over the time that `clients`, the series of the testers, cover."""
    if not clients.t_s:
        return None
    record = run.record
    services = {service["name"]: service for service in record["services"]}
    placement = Placement(
        services={name: service.get("host") or "" for name, service in services.items()},
        kinds={name: service["kind"] for name, service in services.items()},
        addressed=frozenset(_addressed(record)),
        cores=cores_of(record, results)["host"],
        agents=run_agents.agents if run_agents.several else (),
    )
    return run_component_series(
        samples_of(run),
        service_readings(run),
        watched_readings(run),
        placement,
        counters_of_kind,
        length_s=clients.t_s[-1] + clients.quantum_s,
        quantum_s=options.chart_quantum_s,
        bound_ns=greatest_bound(run_agents),
    )


def counters_of_kind(kind: str) -> CounterChoice:
    """The counters that a kind of services declares; none for an unknown kind."""
    section = SERVICE_KINDS.get(kind)
    return (
        CounterChoice() if section is None else CounterChoice(section.request_counter, section.main_counters)
    )


def _addressed(record: Mapping[str, Any]) -> Iterator[str]:
    """Names of the services and watched systems to which the testers of a run send requests: the targets of the
    workloads, their endpoints and their proxies."""
    effective = record.get("effective", {})
    workloads = list(effective.get("workloads", {}).values()) or [effective.get("workload", {})]
    targets = effective.get("targets", {}) or {}
    for workload in workloads:
        target = workload.get("target")
        if not isinstance(target, str):
            continue
        yield target
        section = targets.get(target)
        if not isinstance(section, dict):
            continue
        for endpoint in (*section.get("endpoints", ()), *section.get("proxies", ())):
            yield str(endpoint.get("at", "")) if isinstance(endpoint, dict) else str(endpoint)
        yield from (str(entry["name"]) for entry in section.get("watch", ()) if "name" in entry)


def chart_quantum(text: str, results: Results) -> float:
    """The value of `plimsoll report --quantum`, in seconds. Raises BadInput unless it is a number of whole seconds, not
    longer than the longest run, and results in at most MAX_CHART_BINS bins."""
    where = f"--quantum {text}"
    try:
        quantum = parse_duration(text.strip())
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from error
    if quantum < NS["s"] or quantum % NS["s"]:
        raise BadInput(
            f"{where}: expected whole seconds, at least 1s, because hosts and services are sampled once a second"
        )
    lengths = {run.id: _length_ns(run) for run in results.runs if run.summary is not None}
    if not lengths:
        return quantum / NS["s"]
    longest = max(lengths, key=lambda run: lengths[run])
    length = lengths[longest]
    if quantum > length:
        raise BadInput(
            f"{where}: longer than every run: the longest, {longest}, has {about_duration(length)}; "
            "give a shorter time"
        )
    if length > quantum * MAX_CHART_BINS:
        least = -(-length // MAX_CHART_BINS // NS["s"]) * NS["s"]
        raise BadInput(
            f"{where}: run {longest} of {about_duration(length)} would have more than {MAX_CHART_BINS} bins; "
            f"give at least {show_duration(least)}"
        )
    return quantum / NS["s"]


def _length_ns(run: RunFiles) -> int:
    """The time from the start of a run to the end of its last transaction, or of its measured window."""
    summary = run.summary or {}
    return max(int(summary["measured_end_ns"]), int((summary.get("rows") or {}).get("last_end_ns", 0)))
