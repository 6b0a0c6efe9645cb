"""Name, order and colour of every combination, determined once, so that it looks the same in all charts and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from plimsoll.analyse.results.analysis import Analysis, CellResult, RunResult
from plimsoll.analyse.results.load.search import capacity_name
from plimsoll.analyse.results.metrics import canonical, is_work
from plimsoll.analyse.results.run import TesterResult
from plimsoll.analyse.results.wording import Metric, describe, factor_word
from plimsoll.plan.source.units import quantity

ONLY = "all runs"
"""Label of the only combination of an experiment without factors, or with the load as its only factor."""

COLOURS = ("#0a84c6", "#d55e00", "#009e73", "#b7860b", "#c06aa8", "#7a6ff0", "#8c6d5a", "#6b7785")
"""After Okabe and Ito (jfly.uni-koeln.de/color), moved to middle lightness: 3 to 1 on white and on near black."""
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))


@dataclass(frozen=True)
class Labels:
    """Labels of an analysis. A combination is a cell without its level of the load factor."""

    analysis: Analysis

    @cached_property
    def load_factor(self) -> str | None:
        """Name of the load factor if its levels are numbers, so that it can be an axis; else None."""
        name = self.analysis.experiment.load_factor
        return name if name is not None and self.loads else None

    @cached_property
    def load_word(self) -> str:
        """The name of the load factor in words."""
        return factor_word(self.analysis.experiment.load_factor or "load")

    @cached_property
    def load_title(self) -> str:
        """The load factor as the title of an axis, with its unit if the load is not a count."""
        levels = [level.strip() for level in self._load_of_level]
        return f"{self.load_word} (requests/s)" if self.is_rate else f"{self.load_word}{_unit_of(levels)}"

    @cached_property
    def is_rate(self) -> bool:
        """Whether the load is a rate of requests, so that throughput can be compared with it."""
        return bool(self._load_of_level) and all(
            level.strip().endswith("/s") for level in self._load_of_level
        )

    @cached_property
    def _load_of_level(self) -> dict[str, float]:
        name = self.analysis.experiment.load_factor
        if name is None:
            return {}
        load_by_level = {
            cell.cell[name]: cell.load
            for cell in self.analysis.cells
            if name in cell.cell and cell.load is not None
        }
        for run in self.analysis.runs:
            level = run.cell.get(name)
            if level is not None and level not in load_by_level and (number := quantity(level)) is not None:
                load_by_level[level] = number
        return load_by_level

    @cached_property
    def loads(self) -> tuple[float, ...]:
        """The levels of the load as numbers, ascending."""
        return tuple(sorted(set(self._load_of_level.values())))

    def load_label(self, load: float | None) -> str:
        """The level of a load as in the experiment file."""
        levels = (level for level, value in self._load_of_level.items() if value == load)
        return next(levels, "–" if load is None else f"{load:g}")

    def load(self, run: RunResult) -> float | None:
        """Load of a run; None if there is no load factor."""
        name = self.analysis.experiment.load_factor
        return self._load_of_level.get(run.cell[name]) if name in run.cell else None

    def combination(self, cell: Mapping[str, str]) -> str:
        """Short label of the levels without the load, each with its factor: `zip 0`, `method squid, size 1 MB`.

        If a level contains the name of its factor, the name is not repeated.
        """
        load = self.load_factor
        named = [(factor_word(name), level) for name, level in cell.items() if name != load]
        return (
            ", ".join(level if name in level.split() else f"{name} {level}" for name, level in named) or ONLY
        )

    @cached_property
    def combinations(self) -> tuple[str, ...]:
        """All combinations, in the order of the levels in the experiment file."""
        factors = self.analysis.experiment.factors
        rank = {
            name: {level: index for index, level in enumerate(levels)} for name, levels in factors.items()
        }
        positions: dict[str, tuple[int, ...]] = {}
        cells = [cell.cell for cell in self.analysis.cells] + [run.cell for run in self.analysis.runs]
        for cell in cells:
            position = tuple(
                rank[name].get(cell.get(name, ""), -1) for name in factors if name != self.load_factor
            )
            positions.setdefault(self.combination(cell), position)
        return tuple(sorted(positions, key=lambda label: (positions[label], label)))

    def cell(self, cell: Mapping[str, str]) -> str:
        """Label of a whole cell: the combination and the load."""
        load = self.load_factor
        head = self.combination(cell)
        if load is None or load not in cell:
            return head
        tail = f"{self.load_word} {cell[load]}"
        return tail if head == ONLY else f"{head}, {tail}"

    @cached_property
    def inner_factor(self) -> str | None:
        """The factor whose levels are the bars of a group, in charts without a load: the last one that varies. None
        if one factor varies, or if there are more levels than colours."""
        cells = [cell.cell for cell in self.analysis.cells]
        levels = {
            name: {cell[name] for cell in cells if name in cell} for name in self.analysis.experiment.factors
        }
        varied = [name for name, known in levels.items() if len(known) > 1]
        return varied[-1] if len(varied) > 1 and len(levels[varied[-1]]) <= len(COLOURS) else None

    def group(self, cell: Mapping[str, str]) -> str:
        """Label of the group of bars of a cell: the cell without its level of the inner factor."""
        return self.cell({name: level for name, level in cell.items() if name != self.inner_factor})

    def bar(self, cell: Mapping[str, str]) -> str:
        """Label of a bar within its group: the level of the inner factor. Without groups: the combination."""
        name = self.inner_factor
        if name is None:
            return self.combination(cell)
        return self.combination({name: cell[name]}) if name in cell else f"no {factor_word(name)}"

    @cached_property
    def bars(self) -> tuple[str, ...]:
        """The labels of all bars, in the order of the levels in the file; cells without the inner factor come last."""
        name = self.inner_factor
        if name is None:
            return self.combinations
        present = {self.bar(cell.cell) for cell in self.analysis.cells}
        levels = (self.combination({name: level}) for level in self.analysis.experiment.factors[name])
        known = tuple(label for label in levels if label in present)
        return known + tuple(sorted(present - set(known)))

    def run(self, run: RunResult) -> str:
        """Label of a run, unique: its id and its cell."""
        return f"{run.id} · {self.cell(run.cell)}"

    @cached_property
    def colours(self) -> tuple[str, ...]:
        """One colour per combination. After eight combinations they repeat with another shape and dash."""
        return tuple(COLOURS[index % len(COLOURS)] for index, _ in enumerate(self.combinations))

    def colours_beside(self, number: int) -> tuple[str, ...]:
        """`number` colours for other things, such as sites. Colours that no combination has come first."""
        used = 0 if self.combinations == (ONLY,) else len(self.combinations)
        return tuple(COLOURS[(used + index) % len(COLOURS)] for index in range(number))

    @cached_property
    def shapes(self) -> tuple[str, ...]:
        """Marker shapes, one per combination."""
        return tuple(SHAPES[(index + index // 8) % len(SHAPES)] for index, _ in enumerate(self.combinations))

    @cached_property
    def dashes(self) -> tuple[tuple[int, ...], ...]:
        """Line dashes, one per combination: solid for the first eight."""
        return tuple(
            DASHES[(index // len(COLOURS)) % len(DASHES)] for index, _ in enumerate(self.combinations)
        )

    @cached_property
    def metric(self) -> Metric:
        """The leading response: the first known response of the experiment, else the throughput."""
        names = [canonical(name) for name in self.analysis.experiment.responses]
        return describe(next((name for name in names if name is not None), "throughput_per_s"))

    @property
    def leading_capacity(self) -> str | None:
        """The name of the capacity for the first goal of a search; None without a search."""
        search = self.analysis.search
        return None if search is None else capacity_name(search.axis, search.goals[0].name)

    @cached_property
    def throughput(self) -> Metric:
        """The leading response if it is a throughput, else transactions per second."""
        return self.metric if is_work(self.metric.name) else describe("throughput_per_s")

    def cells(self) -> list[CellResult]:
        """The cells by combination and load."""
        rank = {label: index for index, label in enumerate(self.combinations)}
        return sorted(
            self.analysis.cells,
            key=lambda cell: (rank[self.combination(cell.cell)], cell.load if cell.load is not None else -1),
        )

    def runs(self) -> list[RunResult]:
        """The runs by combination, load and repetition."""
        rank = {label: index for index, label in enumerate(self.combinations)}

        def key(run: RunResult) -> tuple[int, float, int, str]:
            load = self.load(run)
            return rank[self.combination(run.cell)], -1 if load is None else load, run.repetition, run.id

        return sorted(self.analysis.runs, key=key)


def _unit_of(levels: Sequence[str]) -> str:
    """` (s)` if all levels are numbers with that unit; empty for counts and for levels with several units."""
    units = {match[1] for level in levels if (match := re.fullmatch(r"[\d.,]+\s*([^\d\s].*)", level))}
    return f" ({units.pop()})" if len(units) == 1 else ""


def users(run: RunResult) -> list[TesterResult]:
    """The active testers of closed loads. The slots of an open load are not users."""
    return [] if run.open_load == "all" else [tester for tester in run.testers if tester.share is not None]


def has_shares(run: RunResult) -> bool:
    """Whether the run has a Jain's index over several users."""
    return run.jain_index is not None and len(users(run)) > 1
