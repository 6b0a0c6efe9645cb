"""From the tree of one cell to its resolved configuration.

The steps: levels are set in the tree (`paths`), references to variables and environment are expanded (`expand`), the
form is checked (`schema`), and this module resolves names and defaults. Problems are collected, each with its line in
the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from plimsoll.errors import Problem
from plimsoll.plan.hosts.hook_hosts import check_hooks
from plimsoll.plan.hosts.placement import place_services
from plimsoll.plan.hosts.resolve import check_reach, on_hosts, resolve_hosts, testers_of
from plimsoll.plan.hosts.tester_limits import check_programs
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.metrics.table import Use, capitals
from plimsoll.plan.model import cell as model
from plimsoll.plan.resolve.actions import resolve_actions
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.resolve.data import resolve_data
from plimsoll.plan.resolve.instances import (
    Groups,
    cpus_with_instances,
    instances_of,
    services_with_instances,
    targets_with_instances,
)
from plimsoll.plan.resolve.load import check_load, resolve_load, resolve_run, resolve_workload
from plimsoll.plan.resolve.queries import object_numbers
from plimsoll.plan.resolve.services import resolve_service
from plimsoll.plan.resolve.session import check_session, resolve_session
from plimsoll.plan.resolve.watch import check_watched
from plimsoll.plan.schema.experiment import LOAD_MISSING, CpusRaw, ExperimentRaw
from plimsoll.plan.schema.load import LoadRaw, WorkloadRaw
from plimsoll.plan.schema.paths import Origins, with_value
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.services.section import Services, check_url_variables
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.expand import ExpandedTree, expand
from plimsoll.plan.source.fields import shown
from plimsoll.plan.source.memo import MISSING, Memo
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import HIDDEN, hidden

T = TypeVar("T")


_REQUIRED: Final = {key for key, info in ExperimentRaw.model_fields.items() if info.is_required()}
_DEFAULTS: Final = {
    key: partial(info.get_default, call_default_factory=True)
    for key, info in ExperimentRaw.model_fields.items()
    if not info.is_required()
}


@dataclass(frozen=True, slots=True)
class ResolvedCell:
    """One cell. `raw`: its sections; `stored`: its effective file as plain data, without secrets; `secrets`: values
    that must not be stored or shown."""

    raw: ExperimentRaw
    config: model.Config
    stored: dict[str, Any]
    secrets: frozenset[str]


@dataclass(frozen=True, slots=True)
class FailedCell:
    """The problems of a cell. `raw`: its sections, if their form is valid."""

    problems: list[Problem]
    raw: ExperimentRaw | None


def resolve_cell(
    tree: Mapping[str, Any],
    origins: Origins,
    directory: Path,
    environ: Mapping[str, str],
    memo: Memo,
) -> ResolvedCell | FailedCell:
    """Resolves one cell, whose levels are already set in `tree`, or returns its problems. `directory`: where relative
    file names are looked up; `memo`: shared by all cells of the file."""
    expanded = expand(tree, environ, memo)
    context = ResolveContext(origins, expanded.written, directory)
    for path, message in expanded.wrong:
        context.wrong(path, message)
    if context.problems:
        return FailedCell(context.problems, None)
    try:
        raw = _in_form(expanded.tree, memo)
    except ValidationError as error:
        problems = translate(error, expanded.tree, origins, expanded.written, ExperimentRaw)
        return FailedCell([*problems, *_no_load(expanded.tree, problems, origins)], None)
    config = _config(raw, expanded.tree, context, memo)
    if context.problems:
        return FailedCell(context.problems, raw)
    return ResolvedCell(raw, config, stored_sections(raw, expanded, memo), frozenset(expanded.secrets))


def _no_load(tree: Any, problems: Sequence[Problem], origins: Origins) -> list[Problem]:
    """A problem if `load` is missing. The model checks this only if all other sections are valid."""
    if (
        "load" in tree
        or "workload" not in tree
        or any(problem.message == LOAD_MISSING for problem in problems)
    ):
        return []
    file, line = origins.place(("load",))
    return [Problem(LOAD_MISSING, "load", file, line)]


def _in_form(tree: Mapping[str, Any], memo: Memo) -> ExperimentRaw:
    """The checked sections. If every section was valid in an earlier cell, only their relations are checked again, and
    each section is the same object as before. Raises ValidationError."""
    forms = {key: memo.known(f"form of {key}", (section,)) for key, section in tree.items()}
    if MISSING in forms.values() or not tree.keys() >= _REQUIRED:
        checked = ExperimentRaw.model_validate(tree)
        for key, section in tree.items():
            forms[key] = memo.get(f"form of {key}", (section,), partial(getattr, checked, key))
    for key in _DEFAULTS.keys() - tree.keys():
        forms[key] = memo.get(f"default of {key}", (), _DEFAULTS[key])
    whole = ExperimentRaw.model_construct(set(tree), **forms)
    try:
        return whole.check_sections()
    except PydanticCustomError:
        return ExperimentRaw.model_validate(tree)  # raises the error as a ValidationError


def stored_sections(raw: ExperimentRaw, expanded: ExpandedTree, memo: Memo) -> dict[str, Any]:
    """The effective file as plain data: with defaults, without secrets, with `${env:...}` as written."""
    sections: dict[str, Any] = {}
    for key in ExperimentRaw.model_fields:
        if key in ("factors", "design"):
            continue
        section = memo.get(
            f"{key} as stored", (getattr(raw, key),), partial(_stored_section, raw, key, expanded)
        )
        if section is not None:
            sections[key] = section
    for name, value in raw.vars.items() if expanded.secrets else ():
        if isinstance(value, str | int) and str(value) in expanded.secrets:
            # The variable is part of a secret.
            sections = with_value(sections, ("vars", name), HIDDEN)
    return sections


def _stored_section(raw: ExperimentRaw, key: str, expanded: ExpandedTree) -> Any:
    sections: dict[str, Any] = hidden(raw.model_dump(by_alias=True, exclude_none=True, include={key}))
    for path, text in expanded.written.items():
        if path[0] == key:
            sections = with_value(sections, path, text)
    return sections.get(key)


def _config(raw: ExperimentRaw, tree: Mapping[str, Any], context: ResolveContext, memo: Memo) -> model.Config:
    def once(name: str, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """The result is stored only if there are no problems: problems are reported for every cell."""
        before = len(context.problems)
        return memo.get(name, of, make, lambda: len(context.problems) == before)

    if not all(section.enabled for section in raw.services.values()):
        enabled = once("enabled services", (raw.services,), lambda: _enabled(raw.services))
        raw = raw.model_copy(update={"services": enabled})
    groups = once("instances", (raw.services,), lambda: instances_of(raw.services))
    if groups:
        sections = once(
            "sections with instances",
            (raw.services, raw.targets, raw.cpus),
            lambda: _sections_with_instances(raw, groups, context),
        )
        raw = raw.model_copy(update=sections)
    services = once(
        "services",
        (raw.services,),
        lambda: tuple(
            resolve_service(name, service, raw.services, context) for name, service in raw.services.items()
        ),
    )
    check_url_variables(raw.services, context)
    all_hosts = once("hosts", (raw.hosts,), lambda: resolve_hosts(raw.hosts, context))
    hosts = once("hosts of testers", (all_hosts,), lambda: testers_of(all_hosts))
    services, service_hosts = once(
        "places of services",
        (services, raw.services, all_hosts),
        lambda: place_services(services, raw.services, all_hosts, context),
    )
    known = {service.name: service for service in services}
    populations = _populations(raw)
    numbers = once(
        "numbers of tables",
        (raw.workload, raw.workloads),
        lambda: object_numbers({population.at: population.work for population in populations}, context),
    )

    def workload(population: _Population) -> model.Workload:
        """The workload with its load. Both are created once for the same sections."""
        resolution = once(
            f"workload {population.name}",
            (population.work, services, raw.targets, raw.data, numbers),
            lambda: resolve_workload(
                population.name,
                population.work,
                tree,
                population.at,
                known,
                raw.services,
                raw.targets,
                numbers,
                context,
            ),
        )
        resolved, recorded_ns = resolution
        load = once(
            "load",
            (population.load, resolution),
            lambda: resolve_load(population.load, population.load_at, context, recorded_ns),
        )
        session = None if population.work.session is None else resolve_session(population.work.session)
        placed = replace(resolved, load=load, session=session)
        placed = on_hosts(
            placed, population.work, population.load, population.at, population.load_at, hosts, context
        )
        check_load(placed.load, population.load_at, context)
        check_session(placed, raw.run, population.at, population.load_at, context)
        return placed

    workloads = tuple(map(workload, populations))
    check_watched(workloads, known, raw.targets, hosts, context)
    at_each = [population.at for population in populations]
    check_programs(hosts, list(zip(workloads, at_each, strict=True)), context)
    check_reach(hosts, known, list(zip(workloads, at_each, strict=True)), context)
    for name, hooks in (("before_run", raw.before_run), ("after_run", raw.after_run)):
        check_hooks(hosts, service_hosts, [hook.on for hook in hooks], (name,), context)
    run = resolve_run(
        raw.run,
        [(work.load, population.load_at) for work, population in zip(workloads, populations, strict=True)],
        context,
    )
    return model.Config(
        services=services,
        data=once("tables", (raw.data, services), lambda: tuple(resolve_data(raw, known, context))),
        workloads=workloads,
        run=run,
        cpus=once("cpus", (raw.cpus, services), lambda: _cpus(raw.cpus, known, context)),
        ceiling=once("ceilings", (raw.ceiling,), lambda: _ceilings(raw, context)),
        before_run=once("hooks", (raw.before_run,), lambda: tuple(hook.hook() for hook in raw.before_run)),
        after_run=once("hooks", (raw.after_run,), lambda: tuple(hook.hook() for hook in raw.after_run)),
        hosts=hosts,
        actions=resolve_actions(raw.actions, known, hosts, service_hosts, run.end_ns, context),
        service_hosts=service_hosts,
    )


def _enabled(services: Services) -> Services:
    return {name: section for name, section in services.items() if section.enabled}


def _sections_with_instances(
    raw: ExperimentRaw, groups: Groups, context: ResolveContext
) -> dict[str, object]:
    return {
        "services": services_with_instances(raw.services, groups, context),
        "targets": targets_with_instances(raw.targets, groups, context),
        "cpus": cpus_with_instances(raw.cpus, groups),
    }


@dataclass(frozen=True, slots=True)
class _Population:
    """The sections of a workload and of its load, with their paths."""

    name: str
    work: WorkloadRaw
    load: LoadRaw
    at: KeyPath
    load_at: KeyPath


def _populations(raw: ExperimentRaw) -> list[_Population]:
    if raw.workloads is not None:
        return [
            _Population(name, work, work.load, ("workloads", name), ("workloads", name, "load"))
            for name, work in raw.workloads.items()
        ]
    assert raw.workload is not None and raw.load is not None  # `ExperimentRaw.check_sections` checked it
    return [_Population("main", raw.workload, raw.load, ("workload",), ("load",))]


def _cpus(raw: CpusRaw | None, known: Mapping[str, model.Service], context: ResolveContext) -> model.CpuPlan:
    if raw is None:  # without services on this machine, there is nothing to separate from the testers
        started = any(service.starts_process and service.host is None for service in known.values())
        return model.CpuPlan("auto" if started else "none")
    for name in raw.services:
        if name not in known:
            context.wrong(("cpus", "services", name), f"there is no service {name}", nearest(name, known))
    return model.CpuPlan(
        raw.mode, tuple(raw.testers), {name: tuple(cores) for name, cores in raw.services.items()}
    )


def _ceilings(raw: ExperimentRaw, context: ResolveContext) -> tuple[model.Ceiling, ...]:
    ceilings = []
    for index, ceiling in enumerate(raw.ceiling):
        at: KeyPath = ("ceiling", index)
        rule = context.rule(ceiling.test, ceiling.metric, (*at, "test"))
        if rule is None:
            continue
        if reading(ceiling.metric, rule) is None:
            context.wrong(
                at,
                f"{ceiling.metric} with {shown(ceiling.test)} cannot be watched live: {_watchable()}",
            )
        elif rule.upper:
            context.wrong(
                (*at, "test"),
                f'"{ceiling.test}": a ceiling stops the run when it is exceeded: use > instead of <',
            )
        ceilings.append(model.Ceiling(ceiling.metric, rule, ceiling.test, ceiling.for_))
    return tuple(ceilings)


def reading(metric: str, rule: Rule) -> str | None:
    """The engine's name of the value that it monitors for a ceiling; None if it cannot monitor it."""
    named = catalogue.METRICS.named(metric, Use.CEILING)
    statistic = rule.stat if rule.arg is None else f"p({rule.arg:g})"
    return None if named is None else named.metric.live.get(statistic)


def component_of(metric: str) -> str | None:
    """The component whose value is monitored for a ceiling; None if it is a value of the testers."""
    named = catalogue.METRICS.named(metric, Use.CEILING)
    return None if named is None else named.parts.get("component")


def _watchable() -> str:
    readings = []
    for row in catalogue.METRICS.by_kind(Use.CEILING):
        *others, last = row.live
        readings.append(
            f"{capitals(row.name)} with {', '.join(others)} or {last}"
            if others
            else f"{capitals(row.name)} with {last}"
        )
    return "; ".join(readings)
