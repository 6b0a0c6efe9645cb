"""The plan of an experiment: its runs in their order, the estimated time and disk space, and the terms that cannot be
estimated."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from plimsoll.errors import BadInput
from plimsoll.plan.design import combinations
from plimsoll.plan.design.changes import Changes, changes
from plimsoll.plan.design.estimate import Estimate, estimate, run_times_ns
from plimsoll.plan.design.factors import Factor
from plimsoll.plan.experiment import Experiment
from plimsoll.plan.hosts.spread import Spread, spread
from plimsoll.plan.model.cell import Cell, Config, Threshold
from plimsoll.plan.resolve.warnings import lost_replicas, many_ports, ramps
from plimsoll.plan.source.secret import Redactor
from plimsoll.plan.source.units import NS
from plimsoll.plan.topology import topology

FORMAT: Final = "plimsoll.plan/1"
BLOCK: Final = "search "
"""Begins the name of the block of a trial; the number of its search follows, from 1."""
_OUR_WORDS: Final = frozenset({"format", "kind", "order", "metric", "scale", "id"})
"""Keys of plan.json whose values are words of Plimsoll."""
_BY_FACTOR: Final = frozenset({"cell", "values", "when", "where", "excluded"})
"""Keys of plan.json whose values are mappings with keys of the user, such as names of factors."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: a cell of the design at one repetition.

    `id`: name of its directory, "0001" for the first run; `order`: from 1; `cell`: factor to label, without nested
    factors that are absent; `values`: factor to number, for axes; `block`: name of its block (None: no blocks);
    `seed`: of its random numbers; `cell_index`: index in `Experiment.cells` of the cell, or of that which is searched.
    """

    id: str
    order: int
    cell: Mapping[str, str]
    values: Mapping[str, float]
    repetition: int
    block: str | None
    seed: int
    cell_index: int
    config: Config = field(repr=False)
    made: Cell | None = field(repr=False, default=None)
    """The cell of a trial: that of the design with a load."""
    control: bool = False
    """The further run of the old level of a pair, which only the comparison uses."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs in the order in which they are carried out.

    `between[i]`: what is stopped, started and loaded before run i; `not_estimable`: terms that cannot be estimated
    from the design, as text; `needs_root`: commands of hooks that need root; `remarks`: about the files from which
    the workloads read requests.
    """

    experiment: Experiment
    seed: int
    runs: tuple[PlannedRun, ...]
    between: tuple[Changes, ...] = field(repr=False)
    estimate: Estimate
    not_estimable: tuple[str, ...]
    needs_root: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Valid settings that are probably a mistake."""
    trials: tuple[PlannedRun, ...] = ()
    """The trials of a search that have begun. `runs` then contains one run of each cell, at the lowest load; it is not
    carried out."""
    starts: Mapping[int, float] = field(default_factory=dict)
    """The load at which the search of a cell begins (`--like`), by its index in `Experiment.cells`; of other cells the
    lowest load."""

    @property
    def listed(self) -> tuple[PlannedRun, ...]:
        """The runs of plan.json. Those of a search are not known in advance."""
        return self.runs if self.experiment.search is None else self.trials

    def seconds_left(self, done: Container[str] = ()) -> dict[str, float]:
        """Estimated seconds of each run that is not in `done`, with the restarts before it, by id. Of a search, the
        longest time of each cell."""
        if self.experiment.search is not None:
            return {run.id: self.experiment.search.max_time_s for run in self.runs}
        todo = [run for run in self.runs if run.id not in done]
        times = run_times_ns([run.config for run in todo], _between(todo))
        return {run.id: time / NS["s"] for run, time in zip(todo, times, strict=True)}

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """Hosts, agents and testers of the runs, each variant once; empty if there is only the agent of this host."""
        spreads: list[Spread] = []
        for config in {run.cell_index: run.config for run in self.runs}.values():
            if config.hosts.named and (config_spread := spread(config)) not in spreads:
                spreads.append(config_spread)
        return tuple(spreads)

    def cell_of(self, run: PlannedRun) -> Cell:
        """The cell of a run."""
        return run.made or self.experiment.cells[run.cell_index]

    def to_json(self) -> dict[str, Any]:
        """The content of plan.json: the parts of the plan that resume and analysis need, without secrets."""
        experiment = self.experiment
        document: dict[str, Any] = {
            "format": FORMAT,
            "experiment": {
                "name": experiment.name,
                "question": experiment.question,
                "file": experiment.file,
                "directory": str(experiment.directory),
                "sets": list(experiment.sets),
            },
            "seed": self.seed,
            "design": {
                "kind": experiment.design.kind,
                "repetitions": experiment.design.repetitions,
                "order": experiment.design.order,
                "block": list(experiment.design.block),
                "loop": list(experiment.design.loop),
                "excluded": [dict(cell) for cell in experiment.design.excluded],
                "counted": experiment.design.counted,
                **({} if experiment.design.until is None else {"until": asdict(experiment.design.until)}),
                **({} if experiment.design.pair is None else {"pair": asdict(experiment.design.pair)}),
            },
            "factors": [
                {
                    "name": factor.name,
                    "levels": list(factor.labels),
                    "when": {k: list(v) for k, v in factor.when.items()},
                }
                for factor in experiment.factors
            ]
            + _axis(self),
            "topology": topology(self.runs[0].config, [run.config for run in self.runs]).to_json(),
            "load_factor": experiment.load_factor,
            "responses": [asdict(response) for response in experiment.responses],
            **({"charts": [asdict(chart) for chart in experiment.charts]} if experiment.charts else {}),
            "capacity": {
                "response": experiment.capacity.response_text,
                "errors": experiment.capacity.errors_text,
                **(
                    {"parts": {k: list(v) for k, v in experiment.capacity.parts.items()}}
                    if experiment.capacity.parts
                    else {}
                ),
                **(
                    {"usable": [_rule_record(rule) for rule in experiment.capacity.usable]}
                    if experiment.capacity.usable
                    else {}
                ),
            },
            "thresholds": [_rule_record(threshold) for threshold in experiment.thresholds],
            "validity": asdict(experiment.validity),
            "runs": [
                {
                    "id": run.id,
                    "order": run.order,
                    "cell": dict(run.cell),
                    "values": dict(run.values),
                    "repetition": run.repetition,
                    "block": run.block,
                    "seed": run.seed,
                    "warmup_s": run.config.run.warmup_ns / 1e9,
                    "end_s": None if run.config.run.end_ns is None else run.config.run.end_ns / 1e9,
                    **({"control": True} if run.control else {}),
                }
                for run in self.listed
            ],
            "estimate": asdict(self.estimate),
            "not_estimable": list(self.not_estimable),
            "needs_root": list(self.needs_root),
            "remarks": list(self.remarks),
            "warnings": list(self.warnings),
        }
        if experiment.search is not None:
            document |= {"open_ended": True, "search": asdict(experiment.search)}
        if self.starts:
            document["search_starts"] = [
                {"cell": dict(experiment.cells[index].labels), "load": load}
                for index, load in self.starts.items()
            ]
        if experiment.costs:
            document["costs"] = {name: asdict(price) for name, price in experiment.costs.items()}
        if spreads := self.spreads:
            document["hosts"] = [asdict(config_spread) for config_spread in spreads]
        cleaned: dict[str, Any] = _clean(document, experiment.redactor) if experiment.redactor else document
        return cleaned


def _axis(plan: Plan) -> list[dict[str, Any]]:
    """The load of a search as a factor, with the levels of its trials so far."""
    search = plan.experiment.search
    if search is None:
        return []
    levels = {run.values[search.axis]: run.cell[search.axis] for run in plan.trials}
    return [{"name": search.axis, "levels": [levels[load] for load in sorted(levels)], "when": {}}]


def _clean(value: Any, redactor: Redactor, own_keys: bool = True) -> Any:
    """Plain data with secrets redacted: labels and texts of options may contain one. Keys and words of Plimsoll are
    not changed, because a secret may be equal to one of them, such as "seed"."""
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, dict):
        return {
            key if own_keys else redactor.text(key): item
            if own_keys and key in _OUR_WORDS
            else _clean(item, redactor, own_keys and key not in _BY_FACTOR)
            for key, item in value.items()
        }
    return [_clean(item, redactor, own_keys) for item in value] if isinstance(value, (list, tuple)) else value


def make_plan(experiment: Experiment, seed: int | None = None) -> Plan:
    """The runs of an experiment in their order; of a search, one of each cell.

    `seed` is used if the file has none: the caller generates it, and stores it with the plan. Raises BadInput if
    there is no seed, or if it is not in 0 to 2^63 - 1.
    """
    used = experiment.design.seed if experiment.design.seed is not None else seed
    if used is None or not 0 <= used < 2**63:
        raise BadInput("the order of the runs needs a seed: give design.seed, from 0 to 2^63 - 1")
    cells = combinations.Cells(tuple(cell.labels for cell in experiment.cells), experiment.times, ())
    slots = combinations.arrange(cells, experiment.factors, experiment.design.written, used)
    width = max(4, len(str(len(slots))))
    runs = tuple(_run(number, slot, experiment, used, width) for number, slot in enumerate(slots, 1))
    between = _between(runs)
    return Plan(
        experiment=experiment,
        seed=used,
        runs=runs,
        between=between,
        estimate=_estimate(experiment, runs, between),
        not_estimable=not_estimable(experiment),
        needs_root=_needs_root(runs),
        remarks=tuple(
            dict.fromkeys(text for run in runs for work in run.config.workloads for text in work.remarks)
        ),
        warnings=(
            *experiment.warnings,
            *many_ports(cell.config for cell in experiment.cells),
            *ramps(cell.config for cell in experiment.cells),
            *lost_replicas(cell.config for cell in experiment.cells),
            *dict.fromkeys(text for run in runs for work in run.config.workloads for text in work.warnings),
        ),
    )


def trial_run(plan: Plan, cell_index: int, load: float, seconds: float, search: int) -> PlannedRun:
    """The next trial of a search in a cell of the design. Raises BadInput if the cell is not valid with this load."""
    experiment, number = plan.experiment, len(plan.trials) + 1
    assert experiment.trials is not None, "only a search has trials"
    cell = experiment.trials.cell(experiment.cells[cell_index], load, seconds)
    before = sum(run.cell == cell.labels for run in plan.trials)
    return PlannedRun(
        id=f"{number:04d}",
        order=number,
        cell=cell.labels,
        values=cell.values,
        repetition=before + 1,
        block=f"{BLOCK}{search + 1}",
        seed=combinations.run_seed(plan.seed, cell.labels, before + 1),
        cell_index=cell_index,
        config=cell.config,
        made=cell,
    )


def _run(number: int, slot: combinations.Slot, experiment: Experiment, seed: int, width: int) -> PlannedRun:
    cell = experiment.cells[slot.cell]
    return PlannedRun(
        id=f"{number:0{width}d}" if experiment.search is None else f"cell-{number}",
        order=number,
        cell=cell.labels,
        values=cell.values,
        repetition=slot.repetition,
        block=slot.block,
        seed=combinations.run_seed(seed, cell.labels, slot.repetition, control=slot.control),
        cell_index=slot.cell,
        config=cell.config,
        control=slot.control,
    )


def _estimate(experiment: Experiment, runs: Sequence[PlannedRun], between: Sequence[Changes]) -> Estimate:
    """Of a search, its largest time, with trials at the highest load in all of it."""
    search = experiment.search
    if search is None or experiment.trials is None:
        return estimate([run.config for run in runs], between)
    highest = [experiment.trials.cell(cell, search.high, search.final_s).config for cell in experiment.cells]
    found = estimate(highest, between)
    trials = search.max_time_s / search.final_s
    disk = round(trials * found.disk_bytes)
    return replace(
        found,
        time_ns=round(len(runs) * search.max_time_s * NS["s"]),
        run_ns=round(len(runs) * search.max_time_s * NS["s"]),
        transactions=trials * found.transactions,
        disk_bytes=disk,
        disk_peak_bytes=disk + found.disk_peak_bytes - found.disk_bytes,
    )


def _between(runs: Sequence[PlannedRun]) -> tuple[Changes, ...]:
    before: PlannedRun | None = None
    between = []
    for run in runs:
        same = before is not None and before.cell_index == run.cell_index
        between.append(changes(None if before is None else before.config, run.config, same))
        before = run
    return tuple(between)


def _needs_root(runs: Sequence[PlannedRun]) -> tuple[str, ...]:
    commands: dict[str, None] = {}
    for run in runs:
        hosts = run.config.hosts
        of_actions = (action.hook for action in run.config.actions if action.hook is not None)
        for hook in (*run.config.before_run, *of_actions, *run.config.after_run):
            if hook.needs_root:
                is_elsewhere = hook.where and (hosts.elsewhere or run.config.service_hosts is not None)
                commands[hook.shown + (f" ({hook.where})" if is_elsewhere else "")] = None
    return tuple(commands)


def _loop_terms(experiment: Experiment, varied: Sequence[Factor]) -> list[str]:
    """Limits of a design with a loop, as text: the order within a pass is not random, and the runs of a pass are not
    replicates."""
    looped = [factor.name for factor in varied if factor.name in experiment.design.loop]
    others = [factor.name for factor in varied if factor.name not in experiment.design.loop]
    if not looped:
        return []
    drift = (
        f"{', '.join(looped)}: each pass of the loop has the same order, so drift within a pass is "
        "confounded with the effect"
    )
    passes = max(experiment.times, default=1) * experiment.design.repetitions
    count = "1 pass" if passes == 1 else f"{passes} passes"
    shared = (
        f"{', '.join(others)}: the replicates are the passes of the loop ({count} of each "
        "combination), not the runs"
    )
    return [drift, *([shared] if others else [])]


def not_estimable(experiment: Experiment) -> tuple[str, ...]:
    """What cannot be estimated from the design, as text: no error term, nested and excluded
    combinations, one factor at a time."""
    terms = []
    varied = [factor for factor in experiment.factors if len(factor.levels) > 1]
    max_repetitions = max((times * experiment.design.repetitions for times in experiment.times), default=1)
    if max_repetitions == 1 and experiment.search is None:
        terms.append("one repetition: there is no error term, so no interval and no test of any effect")
    if experiment.design.kind == "one-at-a-time" and len(varied) > 1:
        terms.append("one factor is varied at a time: interactions cannot be estimated")
        return tuple(terms)
    if experiment.design.kind == "2^k" and varied:
        terms.append("two levels of each factor: curvature between them cannot be detected")
    labels = [cell.labels for cell in experiment.cells]
    by_name = {factor.name: factor for factor in experiment.factors}
    for first, second, gap in combinations.missing_combinations(labels, varied):
        nested = first in by_name[second].when or second in by_name[first].when
        why = "nested" if nested else gap
        terms.append(f"the interaction of {first} and {second} ({why})")
    terms += _loop_terms(experiment, varied)
    for factor in varied:
        if factor.name in experiment.design.block:
            terms.append(
                f"{factor.name} is also the block: its effect includes every difference between the blocks"
            )
    return tuple(terms)


def _rule_record(threshold: Threshold) -> dict[str, Any]:
    """A threshold, or a rule of the usable capacity."""
    return {
        "metric": threshold.metric,
        "test": threshold.text,
        "where": {name: list(labels) for name, labels in threshold.where.items()},
        **({"parts": {name: list(of) for name, of in threshold.parts.items()}} if threshold.parts else {}),
    }
