"""Hosts and services of a run in one window: utilization, resources, and conditions that explain."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from plimsoll.analyse.components.conditions import run_conditions
from plimsoll.analyse.components.cpu_series import HostCpu, cpu_of_hosts, whole_seconds
from plimsoll.analyse.components.outside import with_outside_cpu
from plimsoll.analyse.components.resources import component_resources
from plimsoll.analyse.components.utilization import CPU_THROTTLED, monitor_cpu, utilizations
from plimsoll.analyse.components.utilization_hosts import HostsUsed, greatest_detail, hosts_used
from plimsoll.analyse.components.watched.systems import watched_resources, watched_utilizations
from plimsoll.analyse.components.watched.testbed import emulator_cores
from plimsoll.analyse.components.worker_pools import WorkerReadings
from plimsoll.analyse.results.components.conditions import Condition
from plimsoll.analyse.results.run import ComponentResources, Traffic
from plimsoll.analyse.run.connections import CONNECT
from plimsoll.analyse.window.transactions import Window
from plimsoll.assemble.facts import cores_of, services_on_same_cores
from plimsoll.collect.baseline import read_baseline
from plimsoll.collect.columns.parquet import read_metrics, read_samples
from plimsoll.collect.columns.samples import SampleSeries
from plimsoll.collect.hosts import RunAgents, cores_of_hosts, links_of_hosts
from plimsoll.collect.results import Results, RunFiles
from plimsoll.collect.watched import service_readings, watched_readings
from plimsoll.plan.services.section import ServiceSection
from plimsoll.plan.services.table import SERVICE_KINDS

SYN_TIMEOUT_S: Final = 1.0
"""Time after which Linux repeats a SYN without an answer (RFC 6298)."""


def hosts_used_in(run: RunFiles, results: Results, window: Window, run_agents: RunAgents) -> HostsUsed:
    """The utilizations in the window."""
    samples = samples_of(run)
    cores, shared = cores_of(run.record, results), services_on_same_cores(run.record)
    if run_agents.several:
        elsewhere = cores_of_hosts(results.environment)
        links = links_of_hosts(results.environment, read_baseline(results.path))
        placed = {
            f"service:{service['name']}": service["host"]
            for service in run.record["services"]
            if service.get("host")
        }
        return hosts_used(samples, window, run_agents.agents, cores, elsewhere, shared, links, placed)
    link = links_of_hosts(results.environment).get(run_agents.agents[0].host) if run_agents.agents else None
    shown = utilizations(samples, window, cores, shared, link=link)
    testers = [usage for usage in shown if usage.role == "testers"]
    busiest, demand = (greatest_detail(testers, detail) for detail in ("busiest_thread", "thread_demand"))
    throttled = greatest_detail(testers, CPU_THROTTLED) or 0.0
    return HostsUsed(shown, busiest, demand, throttled, None, {}, monitor_cpu(samples, window))


def samples_of(run: RunFiles) -> list[SampleSeries]:
    """The samples of the monitors; empty if there are none."""
    return read_samples(run.samples) if run.samples is not None else []


def components_in(
    run: RunFiles, results: Results, window: Window, run_agents: RunAgents, used: HostsUsed
) -> tuple[ComponentResources, ...]:
    """The resources of each component in the window. `used`: the utilizations of the same window."""
    watched = watched_readings(run)
    samples = samples_of(run)
    components = component_resources(
        samples,
        window,
        cores_of(run.record, results)["host"],
        run_agents.agents if run_agents.several else (),
        (*used.shown, *watched_utilizations(watched, window)),
        used.cpu,
        watched_resources(watched, window),
        hosts_of_services(run),
    )
    return with_outside_cpu(components, cpu_in(run, window, run_agents))


def cpu_in(run: RunFiles, window: Window, run_agents: RunAgents) -> tuple[HostCpu, ...]:
    """The CPU of the hosts in the whole seconds of the window."""
    seconds = whole_seconds(window)
    emulator = emulator_cores(watched_readings(run), seconds) if _is_testbed(run) else None
    return cpu_of_hosts(samples_of(run), run_agents.agents, seconds, emulator)


def conditions_in(
    run: RunFiles, window: Window, run_agents: RunAgents, traffic: Traffic
) -> tuple[Condition, ...]:
    """The conditions of hosts and services in the window that can explain slow or failed transactions."""
    samples = samples_of(run)
    return run_conditions(
        samples,
        run_agents.agents if run_agents.several else (),
        window,
        hosts_of_services(run),
        cpu_in(run, window, run_agents),
        traffic,
        lambda: slow_connects(run, window),
        one_machine=_is_testbed(run),
        watched=watched_readings(run),
        workers=worker_readings(run),
    )


def _is_testbed(run: RunFiles) -> bool:
    """Whether the hosts of the run are those of a testbed, which share the cores and disks of one machine."""
    return (run.record["effective"].get("hosts") or {}).get("kind") == "testbed"


def slow_connects(run: RunFiles, window: Window) -> int | None:
    """Number of connections of the window that took at least SYN_TIMEOUT_S; None if single transactions were not
    kept."""
    metrics = run.path / "metrics.parquet"
    if not metrics.exists():
        return None
    times = read_metrics(metrics, window.start, window.end).get(CONNECT)
    return 0 if times is None else int((times >= SYN_TIMEOUT_S).sum())


def hosts_of_services(run: RunFiles) -> dict[str, str]:
    """The host of each service by name, empty for the host of the lab."""
    return {service["name"]: service.get("host") or "" for service in run.record["services"]}


def worker_readings(run: RunFiles) -> list[WorkerReadings]:
    """The workers of each service that counts those in use."""
    found = []
    for readings in service_readings(run):
        section = SERVICE_KINDS.get(readings.kind)
        pool = None if section is None else section.worker_pool
        if section is None or pool is None:
            continue
        in_use, limit = readings.values.get(pool.in_use), readings.values.get(pool.limit)
        if limit is None:
            limit = np.full(readings.t_s.size, _setting(run, section, readings.name, pool.limit))
        if in_use is not None:
            waiting = None if pool.waiting is None else readings.values.get(pool.waiting)
            names = (readings.name, readings.host, pool.worker, pool.waiter)
            found.append(WorkerReadings(*names, readings.t_s, in_use + pool.readers, limit, waiting))
    return found


def _setting(run: RunFiles, section: type[ServiceSection], service: str, key: str) -> float:
    """A number from the section of a service, or its default; NaN if there is none."""
    field = section.model_fields.get(key)
    default = None if field is None else field.default
    value = (run.record["effective"].get("services") or {}).get(service, {}).get(key, default)
    return float(value) if isinstance(value, int) else math.nan
