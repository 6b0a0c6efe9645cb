"""The numbers of the charts over the runs: means of cells, or of several cells, over a factor or a metric.

The mean of several cells has equal weights, like the effects of a balanced design (Jain 1991, 18 and 22).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Protocol

from plimsoll.analyse.design.across import Design
from plimsoll.analyse.effects.effects import Scale
from plimsoll.analyse.effects.found_capacity import ended_outside, observations
from plimsoll.analyse.results.charts import Chart, ChartKind, ChartLine, ChartPoint, ChartRun
from plimsoll.analyse.results.load.search import FoundCapacity, SearchResult, capacity_name, is_capacity
from plimsoll.analyse.results.metrics import canonical, metric_value
from plimsoll.analyse.stats.blocks import Array, Cell, error_across_cells
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.stats.means import POOLED, SEPARATE, MeanError, mean_of_cells
from plimsoll.plan.model.cell import ChartRequest
from plimsoll.plan.source.units import level_unit, quantity

Levels = dict[str, str]


class ChartCell(Protocol):
    """A cell with its means: `CellResult`, or a cell of a search."""

    @property
    def cell(self) -> dict[str, str]:
        """Its levels."""

    @property
    def load(self) -> float | None:
        """Its load as a number."""

    @property
    def responses(self) -> Mapping[str, Interval]:
        """Means by the name of the metric."""


class ChartedRun(Protocol):
    """What has a value: `RunResult`, or a complete search."""

    @property
    def id(self) -> str:
        """The number of the run."""

    @property
    def cell(self) -> Mapping[str, str]:
        """Its levels."""

    @property
    def block(self) -> str | None:
        """Its block."""

    @property
    def valid(self) -> bool:
        """Whether its value counts."""


@dataclass(frozen=True, slots=True)
class ChartData:
    """What charts are made of. `value`: reads a metric of a run."""

    cells: Sequence[ChartCell]
    runs: Sequence[ChartedRun]
    design: Design
    value: Callable[[Any, str], float | None] = metric_value

    @property
    def factors(self) -> list[str]:
        """The factors with at least two levels among the cells, in the order of the file."""
        return [name for name in self.design.levels if len({cell.cell.get(name) for cell in self.cells}) > 1]

    def numbers(self, name: str, levels: Sequence[str]) -> dict[str, float] | None:
        """The numbers of the levels of a factor; None unless each is a quantity, or the factor is the load."""
        loads = self.design.load_values if name == self.design.load_factor else {}
        numbers = {level: loads.get(level, quantity(level)) for level in levels}
        known = {level: number for level, number in numbers.items() if number is not None}
        return known if levels and len(known) == len(levels) else None

    def runs_of(self, cells: Sequence[ChartCell]) -> list[ChartedRun]:
        """The valid runs of some cells."""
        return [run for run in self.runs if run.valid and any(cell.cell == run.cell for cell in cells)]

    def in_blocks(self, cell: ChartCell, name: str, on_log: bool) -> Cell:
        """Block and value of each valid run of a cell that has the metric. `on_log`: the logarithm of the value."""
        values = [(run.block, self.value(run, name)) for run in self.runs_of([cell])]
        return [(block, math.log(v) if on_log else v) for block, v in values if v is not None]


def charts_of(
    data: ChartData,
    requests: Sequence[ChartRequest],
    responses: Sequence[tuple[str, Scale]],
    *,
    least_factors: int = 2,
) -> tuple[Chart, ...]:
    """The charts of the file in its order, then the default charts of the responses, from `least_factors` factors on. A
    chart without any value is left out."""
    own = (
        _metric_chart(data, request) if request.x_is == "metric" else _factor_chart(data, request)
        for request in requests
    )
    return (*(chart for chart in own if chart.lines), *_default_charts(data, responses, least_factors))


def _factor_chart(data: ChartData, request: ChartRequest, log: bool = False) -> Chart:
    """Means over the levels of a factor. Cells that do not have the factor are left out."""
    varied = [name for name in data.factors if name != request.x]
    by = varied if request.by is None else list(request.by)
    over = [name for name in varied if name not in by]
    cells = [cell for cell in data.cells if request.x in cell.cell]
    levels = [
        level for level in data.design.levels[request.x] if any(c.cell[request.x] == level for c in cells)
    ]
    numbers = data.numbers(request.x, levels)
    ordered = levels if numbers is None else sorted(levels, key=numbers.__getitem__)
    names = [name for text in request.y if (name := _name_in_results(text)) is not None]
    kept, is_comparable = _comparable(cells, request.x, by, over, names)
    lines = []
    for name in names:
        known = [cell for cell in kept if name in cell.responses]
        for group in _groups(known, by):
            points = [
                _point(data, same, name, at, None if numbers is None else numbers[level], log)
                for level in ordered
                if (same := [cell for cell in known if _has(cell, at := {**group, request.x: level}, by)])
            ]
            lines.append(ChartLine(name, group, tuple(points)))
    units = {level_unit(level) for level in levels}
    unit = units.pop() if numbers is not None and len(units) == 1 else None
    return Chart(
        kind="file",
        x=request.x,
        x_is="level" if numbers is None else "number",
        x_levels=tuple(ordered),
        x_unit=unit or "",
        y=tuple(dict.fromkeys(line.metric for line in lines)),
        by=tuple(by),
        over=tuple(over),
        is_comparable=is_comparable,
        mean="geometric" if log else "arithmetic",
        lines=tuple(lines),
    )


def _name_in_results(text: str) -> str | None:
    return text if is_capacity(text) else canonical(text)


def _comparable(
    cells: Sequence[ChartCell], x: str, by: Sequence[str], over: Sequence[str], names: Sequence[str]
) -> tuple[list[ChartCell], bool]:
    """The cells whose means are the points, and whether these means differ by the factors of the chart only.

    They do if all points have the same combinations of the factors `over`: the cells with other combinations are left
    out. Without a common combination they do if each factor `over` has its levels equally often at all points, as in a
    fraction of a factorial design.
    """
    valued = [cell for cell in cells if all(name in cell.responses for name in names)] or list(cells)
    rests: dict[tuple[str | None, ...], list[tuple[str | None, ...]]] = {}
    for cell in valued:
        point = tuple(cell.cell.get(name) for name in (x, *by))
        rests.setdefault(point, []).append(tuple(cell.cell.get(name) for name in over))
    common = set.intersection(*map(set, rests.values())) if rests else set()
    if common:
        return [cell for cell in valued if tuple(cell.cell.get(name) for name in over) in common], True
    return valued, all(
        len({_shares([rest[at] for rest in at_point]) for at_point in rests.values()}) == 1
        for at in range(len(over))
    )


def _shares(levels: Sequence[str | None]) -> frozenset[tuple[str | None, float]]:
    """How often each level occurs, as a share."""
    return frozenset((level, count / len(levels)) for level, count in Counter(levels).items())


def _groups(cells: Sequence[ChartCell], by: Sequence[str]) -> list[Levels]:
    """The combinations of levels of some factors, in the order of the cells."""
    groups = {
        tuple(cell.cell.get(name) for name in by): {name: cell.cell[name] for name in by if name in cell.cell}
        for cell in cells
    }
    return list(groups.values())


def _has(cell: ChartCell, levels: Levels, by: Sequence[str]) -> bool:
    """Whether a cell has these levels, and lacks the factors of `by` without a level."""
    return all(cell.cell.get(name) == levels.get(name) for name in (*levels, *by))


def _point(
    data: ChartData, cells: Sequence[ChartCell], name: str, levels: Levels, x: float | None, log: bool
) -> ChartPoint:
    values = [(run.id, data.value(run, name)) for run in data.runs_of(cells)]
    runs = tuple(ChartRun(run, x, value) for run, value in values if value is not None)
    intervals = [cell.responses[name] for cell in cells]
    use_log = log and all(interval.mean > 0 for interval in intervals)
    pooled = all(interval.method == POOLED for interval in intervals)
    mean = mean_of_cells(intervals, log=use_log, error=partial(_error_in_blocks, data, cells, name, pooled))
    return ChartPoint(levels, x, None, mean, len(cells), runs)


def _error_in_blocks(
    data: ChartData, cells: Sequence[ChartCell], name: str, pooled: bool, weights: Array, on_log: bool
) -> MeanError | None:
    """The error of a mean of cells that were measured in blocks. `weights`: of `cells`; `pooled`: the error is that of
    all cells of the design."""
    used = data.cells if pooled else cells
    weight_of = {id(cell): weight for cell, weight in zip(cells, weights, strict=True)}
    values = [data.in_blocks(cell, name, on_log) for cell in used]
    return error_across_cells(values, [weight_of.get(id(cell), 0.0) for cell in used], pooled=pooled)


def _metric_chart(data: ChartData, request: ChartRequest) -> Chart:
    """A point for each cell: one metric over another. The cells of one combination are joined in the order of the
    load."""
    x = canonical(request.x) or request.x
    rest = [name for name in data.factors if name != data.design.load_factor]
    by = rest if request.by is None else list(request.by)
    lines = []
    for name in (name for text in request.y if (name := _name_in_results(text)) is not None):
        known = [cell for cell in data.cells if x in cell.responses and name in cell.responses]
        for group in _groups(known, list(dict.fromkeys((*rest, *by)))):
            cells = [
                cell for cell in known if all(cell.cell.get(factor) == group.get(factor) for factor in rest)
            ]
            cells = [cell for cell in cells if _has(cell, group, by)]
            cells.sort(key=lambda cell: -math.inf if cell.load is None else cell.load)
            lines.append(ChartLine(name, group, tuple(_cell_point(data, cell, x, name) for cell in cells)))
    return Chart(
        kind="file",
        x=x,
        x_is="metric",
        x_levels=(),
        x_unit="",
        y=tuple(dict.fromkeys(line.metric for line in lines)),
        by=tuple(by),
        over=(),
        is_comparable=True,
        mean="arithmetic",
        lines=tuple(lines),
    )


def _cell_point(data: ChartData, cell: ChartCell, x: str, name: str) -> ChartPoint:
    runs = tuple(
        ChartRun(run.id, across, value)
        for run in data.runs_of([cell])
        if (across := data.value(run, x)) is not None and (value := data.value(run, name)) is not None
    )
    at = cell.responses[x]
    return ChartPoint(dict(cell.cell), at.mean, at, cell.responses[name], 1, runs)


def _default_charts(
    data: ChartData, responses: Sequence[tuple[str, Scale]], least_factors: int
) -> list[Chart]:
    """Main effects and interactions of the responses: a chart for each factor and for each pair. None for a single
    factor if the cells show it, and none of factors whose levels exist only with different levels of the others
    (nested factors): their means are not comparable. An interaction needs all combinations of its levels."""
    factors = data.factors
    if len(factors) < least_factors:
        return []
    charts = []
    for text, scale in responses:
        for name in factors:
            main = _factor_chart(data, ChartRequest(name, "factor", (text,), ()), scale == "log")
            if main.is_comparable and any(len(line.points) > 1 for line in main.lines):
                charts.append(_without_runs(main, "main effect"))
        for first, second in combinations(factors, 2):
            x, by = (second, first) if _levels(data, second) > _levels(data, first) else (first, second)
            pair = _factor_chart(data, ChartRequest(x, "factor", (text,), (by,)), scale == "log")
            is_whole = all(len(line.points) == _levels(data, x) for line in pair.lines)
            if pair.is_comparable and is_whole and len(pair.lines) == _levels(data, by):
                charts.append(_without_runs(pair, "interaction"))
    return charts


def _levels(data: ChartData, name: str) -> int:
    """Number of levels of a factor among the cells."""
    return len({cell.cell[name] for cell in data.cells if name in cell.cell})


def _without_runs(chart: Chart, kind: ChartKind) -> Chart:
    """The chart without its runs, whose scatter would be that of the other factors."""
    lines = (
        replace(line, points=tuple(replace(point, runs=()) for point in line.points)) for line in chart.lines
    )
    return replace(chart, kind=kind, lines=tuple(lines))


@dataclass(frozen=True, slots=True)
class _SearchCell:
    """The capacities of a cell of a search, by their names as responses."""

    cell: dict[str, str]
    responses: dict[str, Interval]
    load: None = None


@dataclass(frozen=True, slots=True)
class _Search:
    """One complete search: its estimate of one capacity."""

    id: str
    cell: Mapping[str, str]
    block: str | None
    name: str
    estimate: float
    valid: bool = True


def charts_of_search(result: SearchResult, levels: Mapping[str, Sequence[str]]) -> tuple[Chart, ...]:
    """Main effects and interactions of the capacities. `levels`: labels of every factor but the load."""
    names = {goal.name: capacity_name(result.axis, goal.name) for goal in result.goals}
    searches = [
        _Search(one.id, one.cell, one.block, name, one.value)
        for goal, name in names.items()
        for one in observations(result, goal)
    ]
    cells = [
        _SearchCell(
            cell.cell, {names[one.goal]: mean for one in cell.capacities if (mean := _capacity_mean(one))}
        )
        for cell in result.cells
    ]

    def value(search: _Search, name: str) -> float | None:
        return search.estimate if search.name == name else None

    data = ChartData(cells, searches, Design(levels, None, {}), value)
    return charts_of(data, (), [(name, "log") for name in names.values()], least_factors=1)


def _capacity_mean(found: FoundCapacity) -> Interval | None:
    """None if a search ended outside the range: the mean of the others is biased."""
    if found.estimate is None or ended_outside(found):
        return None
    searches = sum(one.estimate is not None for one in found.searches)
    return Interval(found.estimate, found.low, found.high, df=searches - 1 or None, method=SEPARATE)
