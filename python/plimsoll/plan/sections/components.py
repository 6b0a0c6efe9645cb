"""The names of components and services in metrics such as `cpu.NAME` and `counter.NAME.COUNTER`, and in `costs`: those
that the results of an experiment will have, if they are known before it runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.model.cell import EMULATOR, Config
from plimsoll.plan.resolve.cell import component_of
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.schema.experiment import ExperimentRaw
from plimsoll.plan.source import hints
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.near import nearest

ALWAYS: Final = ("host", "testers")
"""Components of every result."""
MAX_SHOWN: Final = 12


def check_components(raw: ExperimentRaw, configs: Collection[Config], report: ResolveContext) -> None:
    """Reports responses, charts, capacities and thresholds on a component or service that no cell has."""
    known = {"component": components_of(configs), "service": services_of(configs)}
    for at, metric in metrics_of(raw):
        named = catalogue.METRICS.find(metric)
        for part, name in (named.parts if named is not None else {}).items():
            names = known.get(part)
            if names is None or name in names or name.startswith("services' "):
                continue
            some = ", ".join(sorted(names)[:MAX_SHOWN]) or "none"
            message = f"there is no {part} {name}; the results will have {some}"
            report.wrong(at, message, nearest(name, names))


def check_ceilings(configs: Collection[Config], report: ResolveContext) -> None:
    """Reports ceilings on the memory of anything else than a service: the monitor of its host reads it during a run."""
    names = {service.name for config in configs for service in config.services}
    rules = {(index, rule.metric) for config in configs for index, rule in enumerate(config.ceiling)}
    for index, metric in sorted(rules):
        component = component_of(metric)
        if component is not None and component not in names:
            some = ", ".join(sorted(names)[:MAX_SHOWN]) or "none"
            report.wrong(
                ("ceiling", index, "metric"),
                f"there is no service {component}: only the memory of a service can stop a run; services: {some}",
                nearest(component, names),
            )


def check_costs(raw: ExperimentRaw, configs: Collection[Config], report: ResolveContext) -> None:
    """Reports prices of components that no cell has, of files, and in different currencies."""
    names = components_of(configs)
    groups = {name.rpartition(".")[0] for name in services_of(configs) if "." in name}
    files = {name for name, section in raw.services.items() if not section.starts_process}
    first = next(iter(raw.costs.items()), None)
    for name, price in raw.costs.items():
        at: KeyPath = ("costs", name)
        if names is not None and name not in names | groups:
            some = ", ".join(sorted(names | groups)[:MAX_SHOWN])
            report.wrong(
                at,
                f"there is no component {name}; the results will have {some}",
                nearest(name, names | groups),
            )
        if name in files:
            report.wrong(at, f"{name} is a file, not a process: give the price of the component that uses it")
        if first is not None and price.currency != first[1].currency:
            report.wrong(
                at,
                f'expected a price in {first[1].currency}, the currency of {first[0]}, got "{price}": prices of '
                "different currencies cannot be added",
            )


def check_kept(raw: ExperimentRaw, configs: Collection[Config], report: ResolveContext) -> None:
    """Reports metrics of single transactions if no run keeps them."""
    if not configs or any(config.run.keep == "all" for config in configs):
        return
    why = "needs single transactions, and `run.keep: summaries` does not keep them; use `keep: all`"
    ratios = {response.name for response in raw.responses if response.ratio is not None}
    for at, metric in metrics_of(raw):
        named = catalogue.METRICS.find(metric)
        if metric not in ratios and named is not None and named.metric.needs_transactions:
            report.wrong(at, f"{metric} {why}")
    windows: list[tuple[KeyPath, str | None]] = [
        *((("responses", index), response.over) for index, response in enumerate(raw.responses)),
        *((("thresholds", index), threshold.over) for index, threshold in enumerate(raw.thresholds)),
        *((("capacity", "usable", index), rule.over) for index, rule in enumerate(raw.capacity.usable)),
    ]
    for at, over in windows:
        if over is not None:
            report.wrong((*at, "over"), f"the peak window {why}")


def metrics_of(raw: ExperimentRaw) -> Iterator[tuple[KeyPath, str]]:
    """Path and text of each metric of the file."""
    for index, response in enumerate(raw.responses):
        if response.metric is not None:
            yield ("responses", index, "metric"), response.metric
        if response.ratio is not None:
            yield ("responses", index, "ratio", "of"), response.ratio.of
            yield ("responses", index, "ratio", "to"), response.ratio.to
    for index, chart in enumerate(raw.charts):
        if chart.x not in raw.factors:
            yield ("charts", index, "x"), chart.x
        for at, metric in enumerate(chart.y):
            yield ("charts", index, "y", at), metric
    for index, rule in enumerate(raw.capacity.usable):
        yield ("capacity", "usable", index, "metric"), rule.metric
    for index, threshold in enumerate(raw.thresholds):
        yield ("thresholds", index, "metric"), threshold.metric
    for index, metric in enumerate(raw.design.drift):
        yield ("design", "drift", index), metric


def components_of(configs: Iterable[Config]) -> set[str] | None:
    """Names of the components in the results; None if some hosts get their names only when they connect."""
    names = set(ALWAYS)
    for config in configs:
        hosts = config.hosts
        if hosts.testbed is not None:
            names.add(EMULATOR)
        if hosts.named:
            if not hosts.hosts:
                return None
            names |= {"testers' host", *(host.name for host in hosts.hosts)}
        names |= {service.name for service in config.services}
        names |= {host.name for host in (config.service_hosts.hosts if config.service_hosts else ())}
        names |= {system.name for system in config.watched if system.kind in ("node", "squid", "cgroup")}
        for watched in config.watched_hosts:
            if watched.is_here:
                names |= {process.name for process in watched.processes}
            else:
                host = watched.host.name
                names |= {host, *(f"{process.name} on {host}" for process in watched.processes)}
    return names


def services_of(configs: Iterable[Config]) -> set[str]:
    """Names of the services and watched systems, which may have counters."""
    return {
        name
        for config in configs
        for name in (
            *(service.name for service in config.services),
            *(system.name for system in config.watched),
        )
    }


def known_metric(metric: str, at: KeyPath, use: Use, report: ResolveContext) -> bool:
    """Whether a section accepts the metric. Reports a name that it does not."""
    if catalogue.METRICS.named(metric, use) is not None:
        return True
    known = catalogue.METRICS.names(use)
    near = meant if (meant := hints.OF_METRICS.get(metric)) in known else nearest(metric, known)
    report.wrong(
        at, f"there is no metric {metric}" + ("" if near else f"; expected one of {', '.join(known)}"), near
    )
    return False
