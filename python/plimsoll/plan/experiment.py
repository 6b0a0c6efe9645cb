"""Loading an experiment file: from a path to an `Experiment` with every cell of its design resolved.

All problems of a file are found here, before any process is started. They are collected and raised together.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError
from ruamel.yaml import YAML

from plimsoll.errors import MAX_PROBLEMS, BadInput, Problem
from plimsoll.plan.design import combinations
from plimsoll.plan.design.cells import CellMaker, paths_overlap
from plimsoll.plan.design.factors import Factor, Labels, parse_factors
from plimsoll.plan.hosts.hosts_file import include_hosts_file
from plimsoll.plan.hosts.testbed_hosts import mixture_problem
from plimsoll.plan.model import cell as model
from plimsoll.plan.model.search import Search
from plimsoll.plan.resolve.cell import FailedCell, ResolvedCell
from plimsoll.plan.resolve.context import ResolveContext
from plimsoll.plan.resolve.warnings import unused_targets
from plimsoll.plan.schema.experiment import (
    DesignRaw,
    ExperimentRaw,
)
from plimsoll.plan.schema.paths import Origins
from plimsoll.plan.schema.problems import translate
from plimsoll.plan.sections.baseline import check_baseline
from plimsoll.plan.sections.charts import resolve_charts
from plimsoll.plan.sections.components import (
    check_ceilings,
    check_components,
    check_costs,
    check_kept,
)
from plimsoll.plan.sections.pairs import resolve_pair, with_fresh_services
from plimsoll.plan.sections.repetitions import resolve_until
from plimsoll.plan.sections.rules import (
    capacity_rules,
    check_parts,
    ratios_of,
    responses_of,
    threshold_rules,
)
from plimsoll.plan.sections.search import (
    TrialCells,
    check_beside_search,
    lateness_floor_ns,
    resolve_search,
    with_search,
)
from plimsoll.plan.sections.sets import with_sets
from plimsoll.plan.source.document import MAX_TEXT, KeyPath, dotted, parse_document
from plimsoll.plan.source.fields import shown
from plimsoll.plan.source.price import Price
from plimsoll.plan.source.secret import Redactor

_MAX_FURTHER_CELLS: Final = 200
"""After the first invalid cell, at most this many further cells are checked for problems."""


@dataclass(frozen=True, slots=True)
class Design:
    """How the runs of the experiment are selected and ordered. `counted`: their number as text, with its factors."""

    kind: str
    repetitions: int
    """Their maximum if `until` ends them."""
    order: Literal["random", "listed"]
    seed: int | None
    block: tuple[str, ...]
    loop: tuple[str, ...]
    excluded: tuple[Mapping[str, str], ...]
    counted: str
    written: DesignRaw = field(repr=False)
    until: model.UntilTight | None = None
    pair: model.Pair | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment file, parsed and checked. Its relative file names are looked up in `directory`.

    `load_factor`: the factor whose levels are the load, the axis of every load line (None: the load is fixed).
    `sets`: the --set options as they may be stored, "path=***" for a secret. `instead`: words of the command line
    that contain a secret, and the texts that are stored instead of them. `trials`: makes the cells of a `search`.
    """

    name: str
    question: str
    file: str
    directory: Path
    text: str = field(repr=False)
    sets: tuple[str, ...]
    factors: tuple[Factor, ...]
    load_factor: str | None
    design: Design
    cells: tuple[model.Cell, ...] = field(repr=False)
    times: tuple[int, ...] = field(repr=False)
    responses: tuple[model.Response, ...]
    charts: tuple[model.ChartRequest, ...]
    capacity: model.CapacityRules
    thresholds: tuple[model.Threshold, ...]
    validity: model.Validity
    redactor: Redactor = field(repr=False)
    costs: Mapping[str, Price] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    search: Search | None = None
    trials: TrialCells | None = field(default=None, repr=False)

    def effective_yaml(self) -> str:
        """The effective file of the first cell, with defaults and without secrets, as YAML."""
        out = io.StringIO()
        yaml = YAML()
        yaml.default_flow_style = None
        yaml.width = 110
        yaml.dump(dict(self.cells[0].stored), out)
        return (
            "# The experiment file as Plimsoll reads it, with all defaults.\n"
            "# Factors change it for each cell; this is the first cell.\n" + out.getvalue()
        )


def load_experiment(
    path: str | Path,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Experiment:
    """Reads, checks and resolves an experiment file.

    `sets`: "path=value" as given to --set; `environ`: the environment (default: of this process);
    `directory`: where relative names are looked up (default: the directory of the file; a resumed experiment passes
    that of the original). Raises BadInput with all problems of the file.
    """
    file = Path(path)
    name = str(path)
    try:
        size = file.stat().st_size
        if size > 4 * MAX_TEXT:
            raise BadInput(
                [
                    Problem(
                        f"the file has {size:,} bytes; the limit for an experiment file is {MAX_TEXT:,}",
                        file=name,
                    )
                ]
            )
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(
            [Problem(f"the file is not UTF-8 text ({error.reason} at byte {error.start})", file=name)]
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput([Problem(f"the experiment file cannot be read: {reason}", file=name)]) from None
    base_directory = (directory or file.parent).absolute()
    return parse_experiment(text, name, base_directory, sets, os.environ if environ is None else environ)


def parse_experiment(
    text: str, name: str, directory: Path, sets: Sequence[str], environ: Mapping[str, str]
) -> Experiment:
    """Checks and resolves the text of an experiment file. `name`: of the file in messages. Raises BadInput."""
    document = include_hosts_file(parse_document(text, name), directory)
    if not isinstance(document.data, Mapping):
        raise BadInput(
            [Problem(f"expected a mapping of sections, got {shown(document.data)}", file=name, line=1)]
        )
    tree, origins, instead = with_sets(document, sets, directory)
    report = ResolveContext(origins, {}, directory)
    tree, origins, search = with_search(tree, origins, report)
    factors = parse_factors(tree, report)
    raw_design = _design(tree, report)
    if search is not None and raw_design is not None:
        check_beside_search(search, factors, raw_design, report)
    table = None
    if raw_design is not None and combinations.kind_of(raw_design) == "table":
        factors, table = _table(str(raw_design.table), tree, factors, report)
    _report_double_settings(tree, factors, origins, report)
    cells = None
    if raw_design is not None and not report.problems:
        rows = None if table is None else len(table)
        if combinations.check_design(factors, raw_design, rows, report):
            cells = combinations.enumerate_cells(factors, raw_design, table, report)
    if cells is None or report.problems or raw_design is None:
        _report_form(CellMaker(tree, factors, origins, directory, environ), report)
        raise BadInput(report.problems)
    resolved = _resolve_all(CellMaker(tree, factors, origins, directory, environ), cells.labels, report)
    if report.problems:
        raise BadInput(report.problems)
    experiment = _build_experiment(name, text, directory, factors, raw_design, cells, resolved, report)
    kept = tuple(experiment.redactor.text(instead.get(option, option)) for option in sets)
    if search is not None:
        trials = TrialCells(search.axis, tree, factors, origins, directory, environ)
        experiment = replace(experiment, trials=trials, load_factor=search.axis)
    return replace(experiment, sets=kept, instead=instead, warnings=unused_targets(tree, experiment.cells))


def _design(tree: Mapping[str, Any], report: ResolveContext) -> DesignRaw | None:
    written = tree.get("design")
    try:
        return DesignRaw.model_validate({} if written is None else written)
    except ValidationError as error:
        report.problems += translate(error, written, report.origins, {}, DesignRaw, ("design",))
        return None


def _table(
    name: str, tree: Mapping[str, Any], factors: tuple[Factor, ...], report: ResolveContext
) -> tuple[tuple[Factor, ...], tuple[Labels, ...]]:
    at: KeyPath = ("design", "table")
    if name == "None":
        report.wrong(at, "required key missing: a CSV file with the names of factors in its first line")
        return factors, ()
    lines = report.lines(name, at)
    if not lines:
        return factors, ()
    return combinations.read_table("\n".join(lines), factors, tree, report)


def _report_double_settings(
    tree: Mapping[str, Any], factors: Sequence[Factor], origins: Origins, report: ResolveContext
) -> None:
    """Reports paths that both --set and a factor set: the value of the factor would silently replace the other."""
    for path, option in origins.set_options.items():
        for factor in factors:
            if any(
                paths_overlap(setting.path, path) for level in factor.levels for setting in level.settings
            ):
                advice = f"set its levels instead, --set 'factors.{factor.name}=...'"
                message = f"{dotted(path)} is set by the factor {factor.name}: {advice}"
                report.problems.append(Problem(message, file=f"--set {option}"))


def _report_form(maker: CellMaker, report: ResolveContext) -> None:
    """Adds the problems of the other sections to those of factors and design, so that a user sees all of them
    together."""
    labels: dict[str, str] = {}
    for factor in maker.factors:
        if factor.is_active(labels):
            labels[factor.name] = factor.labels[0]
    outcome = maker.cell(labels)
    if isinstance(outcome, FailedCell):
        report.problems += outcome.problems
    if outcome.raw is not None:
        _resolve_rules(outcome.raw, maker.factors, report)


@dataclass(slots=True)
class _AllCells:
    """The cells resolved so far. `raw`: the sections of the first cell whose form is valid."""

    raw: ExperimentRaw | None = None
    cells: list[model.Cell] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)

    def add(self, labels: Mapping[str, str], values: Mapping[str, float], resolved: ResolvedCell) -> None:
        """Adds the next cell."""
        self.secrets |= resolved.secrets
        self.cells.append(model.Cell(labels, values, resolved.config, resolved.stored, resolved.secrets))


def _resolve_all(maker: CellMaker, cells: Sequence[Mapping[str, str]], report: ResolveContext) -> _AllCells:
    """Resolves every cell, and reports the problems of the cells, of the rules and of the responses."""
    all_cells = _AllCells()
    numbers = {factor.name: _numbers(factor) for factor in maker.factors}
    problems: dict[Problem, None] = {}
    since = 0
    for labels in cells:
        outcome = maker.cell(labels)
        all_cells.raw = all_cells.raw or outcome.raw
        if isinstance(outcome, ResolvedCell):
            values = {
                name: number for name, label in labels.items() if (number := numbers[name][label]) is not None
            }
            all_cells.add(labels, values, outcome)
        else:
            problems.update(dict.fromkeys(outcome.problems))
        since += bool(problems)
        if len(problems) >= MAX_PROBLEMS or since > _MAX_FURTHER_CELLS:
            break
    report.problems += problems
    if problems and all_cells.raw is not None:
        _resolve_rules(all_cells.raw, maker.factors, report)
    return all_cells


def _numbers(factor: Factor) -> dict[str, float | None]:
    """The number of each level on an axis: the load if the factor sets the load, otherwise the value of the level."""
    loads = {label: factor.load_value(label) for label in factor.labels}
    return {
        level.label: level.number if loads[level.label] is None else loads[level.label]
        for level in factor.levels
    }


def _resolve_rules(
    raw: ExperimentRaw, factors: Sequence[Factor], report: ResolveContext
) -> tuple[
    model.CapacityRules,
    tuple[model.Threshold, ...],
    tuple[model.Response, ...],
    tuple[model.ChartRequest, ...],
]:
    return (
        capacity_rules(raw, report),
        threshold_rules(raw, factors, report),
        responses_of(raw, report),
        resolve_charts(raw, factors, ratios_of(raw), report),
    )


def _build_experiment(
    name: str,
    text: str,
    directory: Path,
    factors: tuple[Factor, ...],
    raw_design: DesignRaw,
    cells: combinations.Cells,
    resolved: _AllCells,
    report: ResolveContext,
) -> Experiment:
    first = resolved.raw
    assert first is not None  # without problems, the form of every cell is valid
    capacity, thresholds, responses, charts = _resolve_rules(first, factors, report)
    check_parts(first, capacity, thresholds, resolved.cells, report)
    if problem := mixture_problem(cell.config.hosts for cell in resolved.cells):
        report.wrong(("hosts",), problem)
    check_baseline([cell.config for cell in resolved.cells], report)
    if raw_design.until is not None and any(cell.config.hosts.baseline for cell in resolved.cells):
        report.wrong(
            ("hosts", "baseline"),
            "the last run is not known with `until`, so nothing can be measured after it",
        )
    check_components(first, [cell.config for cell in resolved.cells], report)
    check_ceilings([cell.config for cell in resolved.cells], report)
    check_kept(first, [cell.config for cell in resolved.cells], report)
    check_costs(first, [cell.config for cell in resolved.cells], report)
    search = resolve_search(first, capacity, resolved.cells, report)
    pair = resolve_pair(raw_design, factors, report)
    if report.problems:
        raise BadInput(report.problems)
    validity = model.Validity(
        tester_cpu=first.validity.tester_cpu,
        started=first.validity.started,
        lateness_share=first.validity.lateness_share,
        lateness_floor_ns=lateness_floor_ns(first.validity, search),
        gaps=first.validity.gaps,
        steal=first.validity.steal,
        requests=first.validity.requests,
        success=first.validity.success,
        trend=first.validity.trend,
    )
    rows = sum(cells.times) if combinations.kind_of(raw_design) == "table" else None
    return Experiment(
        name=first.name or _default_name(name),
        question=first.question,
        file=name,
        directory=directory,
        text=text,
        sets=(),
        factors=factors,
        load_factor=_load_factor(factors, first),
        design=Design(
            kind=combinations.kind_of(raw_design),
            repetitions=raw_design.max_repetitions,
            order=raw_design.order,
            seed=raw_design.seed,
            block=tuple(raw_design.blocks),
            loop=tuple(raw_design.loop),
            excluded=cells.excluded,
            counted=_run_count(factors, raw_design, cells, rows),
            written=raw_design,
            until=resolve_until(raw_design, report),
            pair=pair,
        ),
        cells=with_fresh_services(resolved.cells, pair),
        times=cells.times,
        responses=responses,
        charts=charts,
        capacity=capacity,
        thresholds=thresholds,
        validity=validity,
        costs=first.costs,
        search=search,
        redactor=Redactor(resolved.secrets),
    )


def _run_count(
    factors: Sequence[Factor], raw_design: DesignRaw, cells: combinations.Cells, rows: int | None
) -> str:
    text = combinations.count(factors, raw_design, rows).text
    if not cells.excluded:
        return text
    left = sum(cells.times) * raw_design.max_repetitions
    left += left // 2 if raw_design.control else 0
    return f"{text}, less {len(cells.excluded)} excluded cells: {left:,} runs"


def _load_factor(factors: Sequence[Factor], raw: ExperimentRaw) -> str | None:
    """Name of the factor of the load. Loads of workloads that write versions are ignored: the report is about the
    readers."""
    writers = {
        name
        for name, work in (raw.workloads or {}).items()
        if work.table is not None and work.table.versions == "write"
    }
    ranked = [
        (factor.load_kind, index, factor.name)
        for index, factor in enumerate(factors)
        if len(factor.levels) > 1 and not factor.is_load_of(writers)
    ]
    known = sorted((kind, index, name) for kind, index, name in ranked if kind is not None)
    return known[0][2] if known else None


def _default_name(file: str) -> str:
    stem = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in Path(file).stem)
    return stem.lstrip("._-")[:64] or "experiment"
