"""From one cell's file as written to its resolved configuration.

The way of a cell: levels set into the tree (`paths`), places filled in (`expand`), checked for form (`raw`),
and here every reference followed and every default made plain. Problems are gathered, each with its place in
the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from plimsoll.errors import Problem
from plimsoll.plan import metrics, model
from plimsoll.plan.expand import Expanded, expand
from plimsoll.plan.fields import Raw, shown
from plimsoll.plan.memo import MISSING, Memo
from plimsoll.plan.metric_table import Use
from plimsoll.plan.paths import Origins, nearest, with_value
from plimsoll.plan.problems import translate
from plimsoll.plan.raw import LOAD_MISSING, CpusRaw, ExperimentRaw, HookRaw
from plimsoll.plan.raw_load import LoadRaw, WorkloadRaw
from plimsoll.plan.request_log import RequestLog, read_request_log
from plimsoll.plan.resolve_hosts import check_hooks, check_reach, on_hosts, resolve_hosts
from plimsoll.plan.resolve_load import resolve_load, resolve_run, resolve_workload
from plimsoll.plan.resolve_queries import object_numbers
from plimsoll.plan.resolve_services import home_of, resolve_data, resolve_service
from plimsoll.plan.resolve_watch import check_watched
from plimsoll.plan.rules import Rule, RuleError, parse_rule
from plimsoll.plan.secret import HIDDEN, hidden
from plimsoll.plan.source import KeyPath, dotted

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


@dataclass(slots=True)
class Resolver:
    """Gathers the problems of one cell and knows where files lie. Serves as `drivers.Where`."""

    origins: Origins
    written: Mapping[KeyPath, str]
    directory: Path
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: KeyPath, message: str, near: str | None = None) -> None:
        """Reports a problem at a path."""
        file, line = self.origins.place(path)
        self.problems.append(Problem(message, dotted(path), file, line, self.written.get(path), near))

    def invalid(self, error: ValidationError, tree: Any, kind: type[Raw], path: KeyPath) -> None:
        """Reports the problems of a section that is checked apart."""
        self.problems += translate(error, tree, self.origins, self.written, kind, path)

    def file(self, name: str, path: KeyPath) -> str:
        """Absolute name of a file or directory that must exist; relative ones are beside the experiment
        file."""
        full = self.beside(name)
        if not Path(full).exists():
            self.wrong(path, f"there is no file {self.written.get(path, full)}")
        return full

    def beside(self, name: str) -> str:
        """Absolute name of what may not exist."""
        return str(self.directory / home_of(name))

    def as_written(self, path: KeyPath, value: str) -> str:
        """The value, or what stands for it in the file where it came from the environment."""
        return self.written.get(path, value)

    def lines(self, name: str, path: KeyPath, largest: int = 50_000_000) -> tuple[str, ...]:
        """The lines of a text file, without empty ones at the end. At least one."""
        full = Path(self.file(name, path))
        try:
            if full.is_file() and full.stat().st_size > largest:
                self.wrong(path, f"{name} is larger than {largest:,} bytes")
                return ()
            found = full.read_text(encoding="utf-8").rstrip("\n").split("\n") if full.is_file() else []
        except (OSError, UnicodeDecodeError) as error:
            self.wrong(path, f"{name} cannot be read: {error}")
            return ()
        if full.exists() and (not found or found == [""]):
            self.wrong(path, f"{name} holds no lines")
        return tuple(found)

    def request_log(self, name: str, path: KeyPath) -> RequestLog | None:
        """The Frontier requests of a log; None where it holds none, or cannot be read."""
        full = Path(self.file(name, path))
        if not full.is_file():
            return None
        shown_name = self.written.get(path, name)
        try:
            found = read_request_log(full)
        except (OSError, EOFError, zlib.error) as error:
            self.wrong(path, f"{shown_name} cannot be read: {error}")
            return None
        if not found.queries:
            self.wrong(path, f"there is no Frontier request in the log: {found.remark(shown_name)}")
            return None
        return found

    def rule(self, text: str, metric: str, path: KeyPath) -> Rule | None:
        """A rule such as "p(95)<500ms" on a metric."""
        try:
            return parse_rule(text, metric)
        except RuleError as error:
            self.wrong(path, str(error))
            return None


@dataclass(frozen=True, slots=True)
class Resolved:
    """One cell: its file in form (`raw`), its configuration, what is stored of it, and what must not be
    seen."""

    raw: ExperimentRaw
    config: model.Config
    stored: dict[str, Any]
    secrets: frozenset[str]


@dataclass(frozen=True, slots=True)
class Failed:
    """What is wrong with a cell; `raw` where its form at least is right."""

    problems: list[Problem]
    raw: ExperimentRaw | None


def resolve_cell(
    tree: Mapping[str, Any],
    origins: Origins,
    directory: Path,
    environ: Mapping[str, str],
    memo: Memo,
) -> Resolved | Failed:
    """Resolves the file of one cell, with its levels already set, or gives what is wrong with it.

    `memo`: of the cells of this file that were resolved before.
    """
    expanded = expand(tree, environ, memo)
    resolver = Resolver(origins, expanded.written, directory)
    for path, message in expanded.wrong:
        resolver.wrong(path, message)
    if resolver.problems:
        return Failed(resolver.problems, None)
    try:
        raw = _in_form(expanded.tree, memo)
    except ValidationError as error:
        found = translate(error, expanded.tree, origins, expanded.written, ExperimentRaw)
        return Failed([*found, *_no_load(expanded.tree, found, origins)], None)
    config = _config(raw, expanded.tree, resolver, memo)
    if resolver.problems:
        return Failed(resolver.problems, raw)
    return Resolved(raw, config, stored(raw, expanded, memo), frozenset(expanded.secrets))


def _no_load(tree: Any, found: Sequence[Problem], origins: Origins) -> list[Problem]:
    """`load` is required by what stands beside it, so its absence is not found where another section is wrong."""
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


def stored(raw: ExperimentRaw, expanded: Expanded, memo: Memo) -> dict[str, Any]:
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


def _stored(raw: ExperimentRaw, key: str, expanded: Expanded) -> Any:
    found: dict[str, Any] = hidden(raw.model_dump(by_alias=True, exclude_none=True, include={key}))
    for path, text in expanded.written.items():
        if path[0] == key:
            found = with_value(found, path, text)
    return found.get(key)


def _config(raw: ExperimentRaw, tree: Mapping[str, Any], resolver: Resolver, memo: Memo) -> model.Config:
    def once(what: str, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """Made once of the same sections, if there is nothing wrong with them: problems are told for every cell."""
        before = len(resolver.problems)
        return memo.get(what, of, make, lambda: len(resolver.problems) == before)

    services = once(
        "services",
        (raw.services,),
        lambda: tuple(
            resolve_service(name, service, raw, resolver) for name, service in raw.services.items()
        ),
    )
    known = {service.name: service for service in services}
    hosts = once("hosts", (raw.hosts,), lambda: resolve_hosts(raw.hosts, resolver))
    populations = _populations(raw)
    numbers = once(
        "numbers of tables",
        (raw.workload, raw.workloads),
        lambda: object_numbers({one.at: one.work for one in populations}, resolver),
    )

    def workload(one: _Population) -> model.Workload:
        """With its load, each made once of the sections that it depends on."""
        asked = once(
            f"workload {one.name}",
            (one.work, services, raw.targets, raw.data, numbers),
            lambda: resolve_workload(one.name, one.work, tree, one.at, known, raw.targets, numbers, resolver),
        )
        found, recorded_ns = asked
        load = once(
            "load", (one.load, asked), lambda: resolve_load(one.load, one.load_at, resolver, recorded_ns)
        )
        placed = replace(found, load=load)
        return on_hosts(placed, one.work, one.load, one.at, one.load_at, hosts, resolver)

    workloads = tuple(map(workload, populations))
    check_watched(workloads, known, raw.targets, hosts, resolver)
    at_each = [one.at for one in populations]
    check_reach(hosts, known, list(zip(workloads, at_each, strict=True)), resolver)
    for name, hooks in (("before_run", raw.before_run), ("after_run", raw.after_run)):
        check_hooks(hosts, [hook.on for hook in hooks], (name,), resolver)
    return model.Config(
        services=services,
        data=once("tables", (raw.data, services), lambda: tuple(resolve_data(raw, known, resolver))),
        workloads=workloads,
        run=resolve_run(
            raw.run,
            [(work.load, one.load_at) for work, one in zip(workloads, populations, strict=True)],
            resolver,
        ),
        cpus=once("cpus", (raw.cpus, services), lambda: _cpus(raw.cpus, known, resolver)),
        ceiling=once("ceilings", (raw.ceiling,), lambda: _ceilings(raw, resolver)),
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


def _cpus(raw: CpusRaw | None, known: Mapping[str, model.Service], resolver: Resolver) -> model.CpuPlan:
    if raw is None:  # only where services run beside the testers is there something to keep apart
        started = any(service.starts_process for service in known.values())
        return model.CpuPlan("auto" if started else "none")
    for name in raw.services:
        if name not in known:
            resolver.wrong(("cpus", "services", name), f"there is no service {name}", nearest(name, known))
    return model.CpuPlan(
        raw.mode, tuple(raw.testers), {name: tuple(cores) for name, cores in raw.services.items()}
    )


def _ceilings(raw: ExperimentRaw, resolver: Resolver) -> tuple[model.Ceiling, ...]:
    found = []
    for index, ceiling in enumerate(raw.ceiling):
        at: KeyPath = ("ceiling", index)
        rule = resolver.rule(ceiling.test, ceiling.metric, (*at, "test"))
        if rule is None:
            continue
        if reading(ceiling.metric, rule) is None:
            resolver.wrong(
                at,
                f"{ceiling.metric} with {shown(ceiling.test)} cannot be watched live: {_watchable()}",
            )
        elif rule.upper:
            resolver.wrong(
                (*at, "test"), f'"{ceiling.test}": a ceiling says what stops the run, so it has > and not <'
            )
        found.append(model.Ceiling(ceiling.metric, rule, ceiling.test, ceiling.for_))
    return tuple(found)


def reading(metric: str, rule: Rule) -> str | None:
    """What the engine watches for a ceiling; None where it cannot."""
    named = metrics.METRICS.named(metric, Use.CEILING)
    statistic = rule.stat if rule.arg is None else f"p({rule.arg:g})"
    return None if named is None else named.metric.live.get(statistic)


def _watchable() -> str:
    said = []
    for row in metrics.METRICS.by_kind(Use.CEILING):
        *others, last = row.live
        said.append(f"{row.name} with {', '.join(others)} or {last}" if others else f"{row.name} with {last}")
    return "; ".join(said)


def _hook(raw: HookRaw) -> model.Hook:
    return model.Hook(tuple(raw.run), raw.on, raw.needs == "root", raw.timeout)
