"""From one cell's file as written to its resolved configuration.

The way of a cell: levels set into the tree (`paths`), places filled in (`expand`), checked for form (`raw`),
and here every reference followed and every default made plain. Problems are gathered, each with its place in
the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from plimsoll.errors import Problem
from plimsoll.plan import model
from plimsoll.plan.hosts.resolve import check_hooks, check_reach, on_hosts, resolve_hosts
from plimsoll.plan.metrics import catalogue
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.metrics.table import Use
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.resolve.data import resolve_data
from plimsoll.plan.resolve.load import resolve_load, resolve_run, resolve_workload
from plimsoll.plan.resolve.queries import object_numbers
from plimsoll.plan.resolve.services import resolve_service
from plimsoll.plan.resolve.watch import check_watched
from plimsoll.plan.schema.experiment import LOAD_MISSING, CpusRaw, ExperimentRaw, HookRaw
from plimsoll.plan.schema.load import LoadRaw, WorkloadRaw
from plimsoll.plan.schema.paths import Origins, with_value
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.source.document import KeyPath
from plimsoll.plan.source.expand import ExpandedTree, expand
from plimsoll.plan.source.fields import shown
from plimsoll.plan.source.memo import MISSING, Memo
from plimsoll.plan.source.near import nearest
from plimsoll.plan.source.secret import HIDDEN, hidden

T = TypeVar("T")


class Once(Protocol):
    """Makes something of some sections, once."""

    def __call__(self, what: str, of: tuple[object, ...], make: Callable[[], T]) -> T: ...


_REQUIRED: Final = {key for key, info in ExperimentRaw.model_fields.items() if info.is_required()}
_DEFAULTS: Final = {
    key: partial(info.get_default, call_default_factory=True)
    for key, info in ExperimentRaw.model_fields.items()
    if not info.is_required()
}


@dataclass(frozen=True, slots=True)
class ResolvedCell:
    """One cell: its file in form (`raw`), its configuration, what is stored of it, and what must not be
    seen."""

    raw: ExperimentRaw
    config: model.Config
    stored: dict[str, Any]
    secrets: frozenset[str]


@dataclass(frozen=True, slots=True)
class FailedCell:
    """What is wrong with a cell; `raw` where its form at least is right."""

    problems: list[Problem]
    raw: ExperimentRaw | None


def resolve_cell(
    tree: Mapping[str, Any],
    origins: Origins,
    directory: Path,
    environ: Mapping[str, str],
    memo: Memo,
) -> ResolvedCell | FailedCell:
    """Resolves the file of one cell, with its levels already set, or returns its problems. `memo`:
    of the cells of this file that were resolved before."""
    expanded = expand(tree, environ, memo)
    context = ResolveContext(origins, expanded.written, directory)
    for path, message in expanded.wrong:
        context.wrong(path, message)
    if context.problems:
        return FailedCell(context.problems, None)
    try:
        raw = _in_form(expanded.tree, memo)
    except ValidationError as error:
        found = translate(error, expanded.tree, origins, expanded.written, ExperimentRaw)
        return FailedCell([*found, *_no_load(expanded.tree, found, origins)], None)
    config = _config(raw, expanded.tree, context, memo)
    if context.problems:
        return FailedCell(context.problems, raw)
    return ResolvedCell(raw, config, stored(raw, expanded, memo), frozenset(expanded.secrets))


def _no_load(tree: Any, found: Sequence[Problem], origins: Origins) -> list[Problem]:
    """The model checks `load` only if all other sections are valid, so a missing `load` is reported
    here."""
    if "load" in tree or "workload" not in tree or any(one.message == LOAD_MISSING for one in found):
        return []
    file, line = origins.place(("load",))
    return [Problem(LOAD_MISSING, "load", file, line)]


def _in_form(tree: Mapping[str, Any], memo: Memo) -> ExperimentRaw:
    """The file checked for form. Where every section was found right before, only what holds between them is checked
    again, and each is the very object of then. Raises ValidationError."""
    forms = {key: memo.known(f"form of {key}", (section,)) for key, section in tree.items()}
    if MISSING in forms.values() or not tree.keys() >= _REQUIRED:
        checked = ExperimentRaw.model_validate(tree)
        for key, section in tree.items():
            forms[key] = memo.get(f"form of {key}", (section,), partial(getattr, checked, key))
    for key in _DEFAULTS.keys() - tree.keys():
        forms[key] = memo.get(f"default of {key}", (), _DEFAULTS[key])
    whole = ExperimentRaw.model_construct(set(tree), **forms)
    try:
        return whole.belonging()
    except PydanticCustomError:
        return ExperimentRaw.model_validate(tree)  # raises it as a ValidationError


def stored(raw: ExperimentRaw, expanded: ExpandedTree, memo: Memo) -> dict[str, Any]:
    """The effective file as plain data: with defaults, without secrets, with `${env:...}` as it was
    written."""
    found: dict[str, Any] = {}
    for key in ExperimentRaw.model_fields:
        if key in ("factors", "design"):
            continue
        section = memo.get(f"{key} as stored", (getattr(raw, key),), partial(_stored, raw, key, expanded))
        if section is not None:
            found[key] = section
    for name, value in raw.vars.items() if expanded.secrets else ():
        if isinstance(value, str | int) and str(value) in expanded.secrets:
            found = with_value(found, ("vars", name), HIDDEN)  # a plain variable that a secret is made of
    return found


def _stored(raw: ExperimentRaw, key: str, expanded: ExpandedTree) -> Any:
    found: dict[str, Any] = hidden(raw.model_dump(by_alias=True, exclude_none=True, include={key}))
    for path, text in expanded.written.items():
        if path[0] == key:
            found = with_value(found, path, text)
    return found.get(key)


def _config(raw: ExperimentRaw, tree: Mapping[str, Any], context: ResolveContext, memo: Memo) -> model.Config:
    def once(what: str, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """Created once for the same sections if they have no problems: problems are reported for
        every cell."""
        before = len(context.problems)
        return memo.get(what, of, make, lambda: len(context.problems) == before)

    services = once(
        "services",
        (raw.services,),
        lambda: tuple(
            resolve_service(name, service, raw.services, context) for name, service in raw.services.items()
        ),
    )
    known = {service.name: service for service in services}
    hosts = once("hosts", (raw.hosts,), lambda: resolve_hosts(raw.hosts, context))
    populations = _populations(raw)
    numbers = once(
        "numbers of tables",
        (raw.workload, raw.workloads),
        lambda: object_numbers({one.at: one.work for one in populations}, context),
    )

    def workload(one: _Population) -> model.Workload:
        """With its load, each made once of the sections that it depends on."""
        asked = once(
            f"workload {one.name}",
            (one.work, services, raw.targets, raw.data, numbers),
            lambda: resolve_workload(one.name, one.work, tree, one.at, known, raw.targets, numbers, context),
        )
        found, recorded_ns = asked
        load = once(
            "load", (one.load, asked), lambda: resolve_load(one.load, one.load_at, context, recorded_ns)
        )
        placed = replace(found, load=load)
        return on_hosts(placed, one.work, one.load, one.at, one.load_at, hosts, context)

    workloads = tuple(map(workload, populations))
    check_watched(workloads, known, raw.targets, hosts, context)
    at_each = [one.at for one in populations]
    check_reach(hosts, known, list(zip(workloads, at_each, strict=True)), context)
    for name, hooks in (("before_run", raw.before_run), ("after_run", raw.after_run)):
        check_hooks(hosts, [hook.on for hook in hooks], (name,), context)
    return model.Config(
        services=services,
        data=once("tables", (raw.data, services), lambda: tuple(resolve_data(raw, known, context))),
        workloads=workloads,
        run=resolve_run(
            raw.run,
            [(work.load, one.load_at) for work, one in zip(workloads, populations, strict=True)],
            context,
        ),
        cpus=once("cpus", (raw.cpus, services), lambda: _cpus(raw.cpus, known, context)),
        ceiling=once("ceilings", (raw.ceiling,), lambda: _ceilings(raw, context)),
        before_run=once("hooks", (raw.before_run,), lambda: tuple(map(_hook, raw.before_run))),
        after_run=once("hooks", (raw.after_run,), lambda: tuple(map(_hook, raw.after_run))),
        hosts=hosts,
    )


@dataclass(frozen=True, slots=True)
class _Population:
    """A workload as written, with its load and their places in the file."""

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
    assert raw.workload is not None and raw.load is not None  # the raw model lets nothing else through
    return [_Population("main", raw.workload, raw.load, ("workload",), ("load",))]


def _cpus(raw: CpusRaw | None, known: Mapping[str, model.Service], context: ResolveContext) -> model.CpuPlan:
    if raw is None:  # only where services run beside the testers is there something to keep apart
        started = any(service.starts_process for service in known.values())
        return model.CpuPlan("auto" if started else "none")
    for name in raw.services:
        if name not in known:
            context.wrong(("cpus", "services", name), f"there is no service {name}", nearest(name, known))
    return model.CpuPlan(
        raw.mode, tuple(raw.testers), {name: tuple(cores) for name, cores in raw.services.items()}
    )


def _ceilings(raw: ExperimentRaw, context: ResolveContext) -> tuple[model.Ceiling, ...]:
    found = []
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
        found.append(model.Ceiling(ceiling.metric, rule, ceiling.test, ceiling.for_))
    return tuple(found)


def reading(metric: str, rule: Rule) -> str | None:
    """What the engine watches for a ceiling; None where it cannot."""
    named = catalogue.METRICS.named(metric, Use.CEILING)
    statistic = rule.stat if rule.arg is None else f"p({rule.arg:g})"
    return None if named is None else named.metric.live.get(statistic)


def _watchable() -> str:
    said = []
    for row in catalogue.METRICS.by_kind(Use.CEILING):
        *others, last = row.live
        said.append(f"{row.name} with {', '.join(others)} or {last}" if others else f"{row.name} with {last}")
    return "; ".join(said)


def _hook(raw: HookRaw) -> model.Hook:
    return model.Hook(tuple(raw.run), raw.on, raw.needs == "root", raw.timeout)
