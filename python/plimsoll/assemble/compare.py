"""The comparison of two sides: results directories, stored baselines and files of other tools, or two levels of a
factor in one directory.

Reads the runs, checks that they are comparable, and passes their values to `compare`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.assemble.analysis import analyse_results
from plimsoll.assemble.compared_runs import compared_runs
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.sources import Source, sources_of
from plimsoll.collect.results import Results, open_results
from plimsoll.compare.configuration import Difference, differences, gates, with_accepted
from plimsoll.compare.metrics import DEFAULT_MARGIN
from plimsoll.compare.modes import two_modes
from plimsoll.compare.remarks import serial_dependence, short_runs
from plimsoll.compare.result import ComparisonResult, SideSummary
from plimsoll.compare.sides import ComparedRun, Setup, Side, cell_key, drifts_of, queues_of, samples_of
from plimsoll.compare.stored import StoredRuns
from plimsoll.compare.verdicts import compare, margin_on_scale
from plimsoll.errors import BadInput

MAX_NAMES: Final = 3
"""Maximum number of directories or files of a side that are named."""


@dataclass(frozen=True)
class _Controls:
    """`side`: further runs of the old level of a paired design (None: it has no control); `base`: the side with the
    first runs of this level, 0 for old, 1 for new; `drift`: metrics that the experiment names."""

    side: Side | None = None
    base: int = 0
    drift: Sequence[str] = ()


def compare_paths(
    old: Sequence[Path], new: Sequence[Path], margin: float, accept: Sequence[str] = ()
) -> ComparisonResult:
    """Compares the runs of two sides: results directories, baselines, or files of other tools. Raises BadInput and
    DamagedResults."""
    places = [path.resolve() for path in (*old, *new)]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise BadInput(
            f"{twice} is given twice; results belong to one side, and old and new must be different"
        )
    return _compared_sources(sources_of(old), sources_of(new), margin, accept)


def _compared_sources(
    old: Sequence[Source], new: Sequence[Source], margin: float, accept: Sequence[str]
) -> ComparisonResult:
    sources = [*old, *new]
    first = sources[0].setup
    for other in sources[1:]:
        require_same_experiment(first, other.setup)
    found = with_accepted(
        (difference for other in sources[1:] for difference in setup_differences(first, other.setup)), accept
    )
    names = [_name(side) for side in (old, new)]
    if gates(found):
        counts = [sum(source.setup.finished for source in side) for side in (old, new)]
        sides = [SideSummary(name, runs, 0, 0) for name, runs in zip(names, counts, strict=True)]
        return ComparisonResult(first.experiment, "", sides[0], sides[1], margin, False, (), tuple(found))
    start, read = 0, []
    for name, side in zip(names, (old, new), strict=True):
        runs = [(start + at, run) for at, source in enumerate(side) for run in source.read()]
        imported = dict.fromkeys(source.setup.imported for source in side if source.setup.imported)
        read.append(Side(name, sum(source.setup.planned for source in side), runs, tuple(imported)))
        start += len(side)
    return _compared(first.experiment, "", read[0], read[1], margin, found, same_blocks=False)


def _name(side: Sequence[Source]) -> str:
    """The names of its directories or files, or the first of many."""
    names = list(dict.fromkeys(source.setup.name for source in side))
    return ", ".join(names) if len(names) <= MAX_NAMES else f"{names[0]} and {len(names) - 1} more"


def compare_levels(directory: Path, by: str, margin: float) -> ComparisonResult:
    """Compares two levels of a factor, `FACTOR` or `FACTOR=OLD,NEW`, in one directory. Raises BadInput and
    DamagedResults."""
    results = open_results(directory)
    factor, levels = _levels(results, by)
    analysis = analyse_results(results, Options())
    sides = _levels_as_sides(results, analysis, factor, levels)
    return _compared_levels(results, analysis, factor, levels, sides, margin)


def compare_pair(results: Results, analysis: Analysis) -> ComparisonResult | None:
    """Compares the levels of a paired design. None if the design has no pair, and as long as a side has no
    repetitions."""
    pair = results.plan["design"].get("pair")
    if pair is None:
        return None
    levels = (pair["old"], pair["new"])
    sides = _levels_as_sides(results, analysis, pair["factor"], levels)
    if not all(side.has_repetitions for side in sides):
        return None
    return _compared_levels(results, analysis, pair["factor"], levels, sides, DEFAULT_MARGIN)


def stored_runs(paths: Sequence[Path]) -> list[StoredRuns]:
    """What a baseline contains of one side. Raises BadInput if the results cannot be one side, or have no run, and
    DamagedResults."""
    sources = sources_of(paths)
    for other in sources[1:]:
        require_same_experiment(sources[0].setup, other.setup)
        found = gates(with_accepted(setup_differences(sources[0].setup, other.setup), ()))
        if found:
            raise BadInput(
                f"{other.setup.name} differs from {sources[0].setup.name} in {found[0].path} "
                f"({found[0].old}, {found[0].new}); a baseline needs results of one setup"
            )
    stored = [StoredRuns(source.setup, source.read()) for source in sources]
    for each in stored:
        if not any(run.is_valid for run in each.runs):
            raise BadInput(f"{each.setup.name}: no valid run; there is nothing to store")
    return stored


def _levels_as_sides(
    results: Results, analysis: Analysis, factor: str, levels: tuple[str, str]
) -> tuple[Side, Side]:
    runs = compared_runs(analysis.runs, _drift_metrics(results))
    old, new = (
        Side(
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
    sides: tuple[Side, Side],
    margin: float,
) -> ComparisonResult:
    pair, controls = results.plan["design"].get("pair"), _Controls()
    if pair is not None and pair["factor"] == factor and pair["old"] in levels:
        planned = sum(run["id"] in results.controls for run in results.due)
        runs = [(0, _without(run, factor)) for run in compared_runs(analysis.controls)]
        side = Side(f"{factor}={pair['old']} again", planned, runs) if pair["control"] else None
        controls = _Controls(side, levels.index(pair["old"]), pair["drift"])
    name = str(results.plan["experiment"]["name"])
    return _compared(name, factor, *sides, margin, (), controls, same_blocks=True)


def _drift_metrics(results: Results) -> Sequence[str]:
    """The metrics that a paired design names as not affected by the change."""
    pair = results.plan["design"].get("pair")
    drift: Sequence[str] = () if pair is None else pair["drift"]
    return drift


def _compared(
    name: str,
    by: str,
    old: Side,
    new: Side,
    margin: float,
    found: Sequence[Difference],
    controls: _Controls = _Controls(),
    *,
    same_blocks: bool,
) -> ComparisonResult:
    for side in (old, new):
        _require_repetitions(side)
    before, after = old.cells, new.cells
    equal = {} if controls.side is None else controls.side.cells
    matched = [cell for cell in before if cell in after]
    unmatched = [cell for cell in (*before, *after) if cell not in matched]
    measured = old.measured & new.measured
    samples = [
        sample
        for cell in matched
        for sample in samples_of(
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
        for drift in drifts_of(
            cell, before[cell], after[cell], controls.drift, margin, same_blocks=same_blocks
        )
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
        short=tuple(short_runs([*queues_of(matched, before, "old"), *queues_of(matched, after, "new")])),
        drift=tuple(moved),
        control=None if controls.side is None else controls.side.summary,
        samples=tuple(samples),
        two_modes=tuple(two_modes(samples, [margin_on_scale(sample, margin) for sample in samples])),
    )


def _require_repetitions(side: Side) -> None:
    """Raises BadInput if no cell was measured twice. A single file of another tool is compared, with every verdict
    undecided: it is one run by nature."""
    if not side.runs:
        raise BadInput(f"{side.name}: no run has measurements; nothing can be compared")
    if not side.has_repetitions and not side.imported:
        raise BadInput(
            f"{side.name}: results without repetitions: each cell was measured once, so the differences between "
            "runs are unknown; set design.repetitions to at least 6, or give several directories: "
            "plimsoll compare OLD... --to NEW..."
        )


def _without(run: ComparedRun, factor: str) -> ComparedRun:
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


def require_same_experiment(first: Setup, other: Setup) -> None:
    """Raises BadInput if two setups are of different experiments or tools."""
    if first.experiment == other.experiment:
        return
    described = [
        f'{setup.name} contains the experiment "{setup.experiment}"'
        if setup.experiment
        else f"{setup.name} contains results of another tool ({setup.imported})"
        for setup in (first, other)
    ]
    raise BadInput(f"{described[0]}, {described[1]}; results of one experiment or of one tool are needed")


def setup_differences(first: Setup, other: Setup) -> Iterator[Difference]:
    """The differences of two setups: of the cells that both have, then of the design, hosts and versions."""
    before, after = (
        {cell_key(each.cell): each.configuration for each in setup.configurations} for setup in (first, other)
    )
    for cell in before:
        if cell in after:
            yield from differences(before[cell], after[cell], other.name)
    yield from differences(first.circumstances, other.circumstances, other.name)
