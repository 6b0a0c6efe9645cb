"""The comparison of results directories, or of two levels of a factor in one directory.

Reads and analyses the directories with `collect` and `analyse`, and passes the values of their runs to `compare`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from plimsoll.analyse.results.analysis import Analysis, RunResult
from plimsoll.analyse.results.metrics import at, metric_value
from plimsoll.assemble.analysis import analyse_results
from plimsoll.assemble.options import Options
from plimsoll.collect.results import Results, open_results
from plimsoll.compare.configuration import Difference, differences, gates, with_accepted
from plimsoll.compare.controls import drifts
from plimsoll.compare.metrics import COMPARED, DEFAULT_MARGIN, GENERATOR, SERVICE, Better, ComparedMetric
from plimsoll.compare.model import Drift, RunValue, Sample
from plimsoll.compare.remarks import MeasuredRun, serial_dependence, short_runs
from plimsoll.compare.result import ComparisonResult, SideSummary
from plimsoll.compare.verdicts import compare
from plimsoll.errors import BadInput

_GIB: Final = 1 << 30

Cell = tuple[tuple[str, str], ...]
_Runs = Sequence[tuple[int, RunResult]]


@dataclass(frozen=True)
class _Side:
    """The analysed runs of one side. `sequence` of a run: the number of its directory over both sides."""

    name: str
    planned: int
    runs: Sequence[tuple[int, RunResult]] = field(default_factory=tuple)

    @property
    def cells(self) -> dict[Cell, list[tuple[int, RunResult]]]:
        """The valid runs by cell."""
        out: dict[Cell, list[tuple[int, RunResult]]] = {}
        for sequence, run in self.runs:
            if run.valid:
                out.setdefault(_cell(run.cell), []).append((sequence, run))
        return out

    @property
    def summary(self) -> SideSummary:
        """Its numbers of runs."""
        invalid = sum(not run.valid for _, run in self.runs)
        return SideSummary(self.name, len(self.runs), invalid, self.planned - len(self.runs))

    @property
    def has_repetitions(self) -> bool:
        """Whether a cell was measured twice."""
        cells = [_cell(run.cell) for _, run in self.runs]
        return len(set(cells)) < len(cells)

    def require_repetitions(self) -> None:
        """Raises BadInput if no cell was measured twice."""
        if not self.runs:
            raise BadInput(f"{self.name}: no run has measurements; nothing can be compared")
        if not self.has_repetitions:
            raise BadInput(
                f"{self.name}: results without repetitions: each cell was measured once, so the differences between "
                "runs are unknown; set design.repetitions to at least 6, or give several directories: "
                "plimsoll compare OLD... --to NEW..."
            )


@dataclass(frozen=True)
class _Controls:
    """`side`: further runs of the old level of a paired design (None: it has no control); `base`: the side with the
    first runs of this level, 0 for old, 1 for new; `drift`: metrics that the experiment names."""

    side: _Side | None = None
    base: int = 0
    drift: Sequence[str] = ()


def compare_directories(
    old: Sequence[Path], new: Sequence[Path], margin: float, accept: Sequence[str] = ()
) -> ComparisonResult:
    """Compares the runs of the directories of two sides. Raises BadInput and DamagedResults."""
    opened = [open_results(path) for path in (*old, *new)]
    first = opened[0]
    places = [results.path.resolve() for results in opened]
    twice = next((str(place) for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise BadInput(f"{twice} is given twice; a directory belongs to one side")
    for other in opened[1:]:
        _require_same_experiment(first, other)
    found = with_accepted(
        (difference for other in opened[1:] for difference in _differences(first, other)), accept
    )
    sides = [opened[: len(old)], opened[len(old) :]]
    names = [", ".join(str(results.path) for results in side) for side in sides]
    name = str(first.plan["experiment"]["name"])
    if gates(found):
        empty = [
            SideSummary(named, sum(len(results.runs) for results in side), 0, 0)
            for named, side in zip(names, sides, strict=True)
        ]
        return ComparisonResult(name, "", empty[0], empty[1], margin, False, (), tuple(found))
    start, analysed = 0, []
    for named, side in zip(names, sides, strict=True):
        runs = [(start + at, run) for at, results in enumerate(side) for run in _runs(results)]
        analysed.append(_Side(named, sum(len(results.due_without_controls) for results in side), runs))
        start += len(side)
    return _compared(name, "", analysed[0], analysed[1], margin, found, same_blocks=False)


def compare_levels(directory: Path, by: str, margin: float) -> ComparisonResult:
    """Compares two levels of a factor, `FACTOR` or `FACTOR=OLD,NEW`, in one directory. Raises BadInput and
    DamagedResults."""
    results = open_results(directory)
    factor, levels = _levels(results, by)
    analysis = analyse_results(results, Options())
    sides = _levels_as_sides(results, analysis.runs, factor, levels)
    return _compared_levels(results, analysis, factor, levels, sides, margin)


def compare_pair(results: Results, analysis: Analysis) -> ComparisonResult | None:
    """Compares the levels of a paired design. None if the design has no pair, and as long as a side has no
    repetitions."""
    pair = results.plan["design"].get("pair")
    if pair is None:
        return None
    levels = (pair["old"], pair["new"])
    sides = _levels_as_sides(results, analysis.runs, pair["factor"], levels)
    if not all(side.has_repetitions for side in sides):
        return None
    return _compared_levels(results, analysis, pair["factor"], levels, sides, DEFAULT_MARGIN)


def _levels_as_sides(
    results: Results, runs: Sequence[RunResult], factor: str, levels: tuple[str, str]
) -> tuple[_Side, _Side]:
    old, new = (
        _Side(
            f"{factor}={level}",
            sum(run["cell"].get(factor) == level for run in results.due_without_controls),
            [(0, _without(run, factor)) for run in runs if run.cell.get(factor) == level],
        )
        for level in levels
    )
    return old, new


def _compared_levels(
    results: Results,
    analysis: Analysis,
    factor: str,
    levels: tuple[str, str],
    sides: tuple[_Side, _Side],
    margin: float,
) -> ComparisonResult:
    pair, controls = results.plan["design"].get("pair"), _Controls()
    if pair is not None and pair["factor"] == factor and pair["old"] in levels:
        planned = sum(run["id"] in results.controls for run in results.due)
        runs = [(0, _without(run, factor)) for run in analysis.controls]
        side = _Side(f"{factor}={pair['old']} again", planned, runs) if pair["control"] else None
        controls = _Controls(side, levels.index(pair["old"]), pair["drift"])
    name = str(results.plan["experiment"]["name"])
    return _compared(name, factor, *sides, margin, (), controls, same_blocks=True)


def _compared(
    name: str,
    by: str,
    old: _Side,
    new: _Side,
    margin: float,
    found: Sequence[Difference],
    controls: _Controls = _Controls(),
    *,
    same_blocks: bool,
) -> ComparisonResult:
    for side in (old, new):
        side.require_repetitions()
    before, after = old.cells, new.cells
    equal = {} if controls.side is None else controls.side.cells
    matched = [cell for cell in before if cell in after]
    unmatched = [cell for cell in (*before, *after) if cell not in matched]
    measured = {_cell(run.cell) for _, run in old.runs} & {_cell(run.cell) for _, run in new.runs}
    samples = [
        sample
        for cell in matched
        for sample in _samples(
            cell,
            before[cell],
            after[cell],
            ((before, after)[controls.base][cell], equal[cell]) if cell in equal else None,
            same_blocks=same_blocks,
        )
    ]
    moved = [
        drift
        for cell in matched
        for drift in _drifts(cell, before[cell], after[cell], controls.drift, margin, same_blocks=same_blocks)
    ]
    return ComparisonResult(
        experiment=name,
        by=by,
        old=old.summary,
        new=new.summary,
        margin=margin,
        is_comparable=bool(matched),
        without_valid=tuple(dict(cell) for cell in sorted(measured) if cell not in matched),
        comparisons=compare(samples, margin, moved),
        differences=tuple(found),
        unmatched=tuple(dict(cell) for cell in unmatched if cell not in measured),
        serial=tuple(serial_dependence(samples)),
        short=tuple(short_runs([*_measured(matched, before, "old"), *_measured(matched, after, "new")])),
        drift=tuple(moved),
        control=None if controls.side is None else controls.side.summary,
    )


def _samples(
    cell: Cell, old: _Runs, new: _Runs, equal: tuple[_Runs, _Runs] | None, *, same_blocks: bool
) -> Iterator[Sample]:
    """The runs of each metric of a cell. `equal`: runs of two equal systems."""
    services = [name for name in _services(old) if name in _services(new)]
    for declared in COMPARED:
        open_ones = (
            [declared.of_service(name) for name in services] if SERVICE in declared.metric else [declared]
        )
        for metric in open_ones:
            control = None if equal is None else _sample(metric, cell, *equal, same_blocks=True)
            yield _sample(metric, cell, old, new, control, same_blocks=same_blocks)


def _drifts(
    cell: Cell, old: _Runs, new: _Runs, named: Sequence[str], margin: float, *, same_blocks: bool
) -> list[Drift]:
    """The metrics of a cell that the change cannot affect."""
    own = [ComparedMetric(name, Better.LOWER) for name in named]
    generator, others = (
        [_sample(metric, cell, old, new, same_blocks=same_blocks) for metric in metrics]
        for metrics in (GENERATOR, own)
    )
    return drifts(generator, others, margin)


def _sample(
    metric: ComparedMetric,
    cell: Cell,
    old: _Runs,
    new: _Runs,
    control: Sample | None = None,
    *,
    same_blocks: bool,
) -> Sample:
    before, after = (tuple(_value(run, sequence, metric) for sequence, run in side) for side in (old, new))
    return Sample(metric, dict(cell), before, after, same_blocks, control)


def _value(run: RunResult, sequence: int, metric: ComparedMetric) -> RunValue:
    trials = at(run, metric.trials, {}) if metric.trials else None
    return RunValue(metric_value(run, metric.metric), sequence, run.order, run.block, trials)


def _services(runs: Sequence[tuple[int, RunResult]]) -> list[str]:
    """The services whose resources were measured."""
    names = (used.component for _, run in runs for used in run.utilization if used.role == "service")
    return list(dict.fromkeys(names))


def _measured(
    cells: Sequence[Cell], runs: Mapping[Cell, Sequence[tuple[int, RunResult]]], side: str
) -> Iterator[MeasuredRun]:
    """The runs of open loads, whose queues have no limit, with their busiest service."""
    for cell in cells:
        for _, run in runs[cell]:
            busiest = max(
                (used for used in run.utilization if used.role == "service"),
                key=lambda used: used.mean,
                default=None,
            )
            if busiest is not None and run.open_load == "all":
                traffic = run.traffic
                yield MeasuredRun(
                    side,
                    dict(cell),
                    traffic.window_s,
                    traffic.throughput_per_s,
                    busiest.component,
                    busiest.mean,
                )


def _runs(results: Results) -> tuple[RunResult, ...]:
    return analyse_results(results, Options()).runs


def _cell(cell: Mapping[str, str]) -> Cell:
    return tuple(sorted(cell.items()))


def _without(run: RunResult, factor: str) -> RunResult:
    return replace(run, cell={name: level for name, level in run.cell.items() if name != factor})


def _levels(results: Results, by: str) -> tuple[str, tuple[str, str]]:
    """The factor and its two levels. Raises BadInput."""
    factors = {factor["name"]: list(factor["levels"]) for factor in results.plan["factors"]}
    factor, _, chosen = by.partition("=")
    if factor not in factors:
        known = ", ".join(factors) or "none"
        raise BadInput(f'--by: {results.path} has no factor "{factor}"; its factors: {known}')
    levels = factors[factor]
    wanted = [level.strip() for level in chosen.split(",")] if chosen else levels
    if len(wanted) != 2 or len(set(wanted)) != 2:
        raise BadInput(
            f"--by: expected two levels, got {len(wanted)}; choose two of {factor} "
            f"({', '.join(levels)}): --by {factor}={','.join(levels[:2])}"
        )
    for level in wanted:
        if level not in levels:
            raise BadInput(f'--by: {factor} has no level "{level}"; its levels: {", ".join(levels)}')
    return factor, (wanted[0], wanted[1])


def _require_same_experiment(first: Results, other: Results) -> None:
    names = [results.plan["experiment"]["name"] for results in (first, other)]
    if names[0] != names[1]:
        raise BadInput(
            f'{first.path} contains the experiment "{names[0]}", {other.path} contains "{names[1]}"; '
            "compare needs results of one experiment"
        )


def _differences(first: Results, other: Results) -> Iterator[Difference]:
    """The differences of two directories: of the cells that both have, then of the design, hosts and versions."""
    directory = str(other.path)
    before, after = _effective(first), _effective(other)
    for cell in before:
        if cell in after:
            yield from differences(before[cell], after[cell], directory)
    yield from differences(_circumstances(first), _circumstances(other), directory)


def _effective(results: Results) -> dict[Cell, dict[str, Any]]:
    """The effective configuration of each cell, from the first of its runs."""
    out: dict[Cell, dict[str, Any]] = {}
    for run in results.runs:
        out.setdefault(_cell(run.record["cell"]), run.record.get("effective", {}))
    return out


def _circumstances(results: Results) -> dict[str, Any]:
    """Design, hosts and versions, in the sections that `compare.configuration` distinguishes."""
    design, environment = results.plan["design"], results.environment
    host, cpu = environment.get("host", {}), environment.get("cpu", {})
    return {
        "design": {
            **{
                key: design.get(key)
                for key in ("kind", "repetitions", "order", "block", "loop", "until", "pair")
            },
            "factors": {factor["name"]: factor["levels"] for factor in results.plan["factors"]},
        },
        "host": {
            "name": host.get("name"),
            "architecture": host.get("architecture"),
            # The kernel reserves a part of the memory, which changes with its version.
            "memory_gib": round(host.get("memory_bytes", 0) / _GIB),
            "cpu": {key: cpu.get(key) for key in ("model", "cores", "usable")},
        },
        "hosts": {
            named["name"]: {key: named.get("facts", {}).get(key) for key in ("cores", "architecture")}
            for named in environment.get("hosts", ())
        },
        "versions": {
            **environment.get("versions", {}),
            "system": host.get("system"),
            "kernel": host.get("kernel"),
            "services": _service_versions(results),
        },
    }


def _service_versions(results: Results) -> dict[str, str]:
    return {
        service["name"]: service["version"]
        for run in results.runs[:1]
        for service in run.record.get("services", ())
        if service.get("version")
    }
