"""Names, order and colour of everything a report draws, found once, so that a combination looks the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from plimsoll.analyse.results.analysis import Analysis, CellResult, RunResult
from plimsoll.analyse.results.metrics import canonical
from plimsoll.analyse.results.run import TesterResult
from plimsoll.analyse.results.wording import Metric, describe, factor_word
from plimsoll.plan.source.units import quantity

ONLY = "all runs"
"""Label of the one combination of an experiment whose only factor is the load, or that has none."""

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
    """Labels of an analysis. A combination is a cell without its load factor; cells and runs share it."""

    analysis: Analysis

    @cached_property
    def load_factor(self) -> str | None:
        """Name of the load factor where its levels are numbers, so that it can be an axis."""
        name = self.analysis.experiment.load_factor
        return name if name is not None and self.loads else None

    @cached_property
    def load_word(self) -> str:
        """The name of the load factor in words."""
        return factor_word(self.analysis.experiment.load_factor or "load")

    @cached_property
    def load_title(self) -> str:
        """The load factor as the title of an axis: with its unit, where it is no count."""
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
        found = {
            cell.cell[name]: cell.load
            for cell in self.analysis.cells
            if name in cell.cell and cell.load is not None
        }
        for run in self.analysis.runs:
            level = run.cell.get(name)
            if level is not None and level not in found and (number := quantity(level)) is not None:
                found[level] = number
        return found

    @cached_property
    def loads(self) -> tuple[float, ...]:
        """The levels of the load as numbers, ascending."""
        return tuple(sorted(set(self._load_of_level.values())))

    def load_label(self, load: float | None) -> str:
        """The level of the load as people wrote it."""
        found = (level for level, value in self._load_of_level.items() if value == load)
        return next(found, "–" if load is None else f"{load:g}")

    def load(self, run: RunResult) -> float | None:
        """Load of a run; None without a load factor."""
        name = self.analysis.experiment.load_factor
        return self._load_of_level.get(run.cell[name]) if name in run.cell else None

    def combination(self, cell: Mapping[str, str]) -> str:
        """Short label of the levels without the load, each with its factor: `zip 0`, `method squid, size 1 MB`. The
        factor is left out where the level already contains its name."""
        load = self.load_factor
        named = [(factor_word(name), level) for name, level in cell.items() if name != load]
        return (
            ", ".join(level if name in level.split() else f"{name} {level}" for name, level in named) or ONLY
        )

    @cached_property
    def combinations(self) -> tuple[str, ...]:
        """All of them, in the order of the levels in the experiment file."""
        factors = self.analysis.experiment.factors
        rank = {
            name: {level: place for place, level in enumerate(levels)} for name, levels in factors.items()
        }
        found: dict[str, tuple[int, ...]] = {}
        cells = [each.cell for each in self.analysis.cells] + [run.cell for run in self.analysis.runs]
        for cell in cells:
            place = tuple(
                rank[name].get(cell.get(name, ""), -1) for name in factors if name != self.load_factor
            )
            found.setdefault(self.combination(cell), place)
        return tuple(sorted(found, key=lambda label: (found[label], label)))

    def cell(self, cell: Mapping[str, str]) -> str:
        """Label of a whole cell: the combination and the load."""
        load = self.load_factor
        head = self.combination(cell)
        if load is None or load not in cell:
            return head
        tail = f"{self.load_word} {cell[load]}"
        return tail if head == ONLY else f"{head}, {tail}"

    def run(self, run: RunResult) -> str:
        """Label of a run, unique: its id and its cell."""
        return f"{run.id} · {self.cell(run.cell)}"

    @cached_property
    def colours(self) -> tuple[str, ...]:
        """One per combination; they repeat beyond eight, where shape and dash differ."""
        return tuple(COLOURS[place % len(COLOURS)] for place, _ in enumerate(self.combinations))

    def colours_beside(self, number: int) -> tuple[str, ...]:
        """For things that are no combinations, such as sites: those that no combination has come first."""
        used = 0 if self.combinations == (ONLY,) else len(self.combinations)
        return tuple(COLOURS[(used + place) % len(COLOURS)] for place in range(number))

    @cached_property
    def shapes(self) -> tuple[str, ...]:
        """Marker shapes, one per combination."""
        return tuple(SHAPES[(place + place // 8) % len(SHAPES)] for place, _ in enumerate(self.combinations))

    @cached_property
    def dashes(self) -> tuple[tuple[int, ...], ...]:
        """Line dashes, one per combination: solid for the first eight."""
        return tuple(
            DASHES[(place // len(COLOURS)) % len(DASHES)] for place, _ in enumerate(self.combinations)
        )

    @cached_property
    def metric(self) -> Metric:
        """The response that leads the report."""
        names = [canonical(name) for name in self.analysis.experiment.responses]
        return describe(next((name for name in names if name is not None), "throughput_per_s"))

    @cached_property
    def throughput(self) -> Metric:
        """The leading response where it is a throughput, else transactions per second."""
        return self.metric if self.metric.kind in {"rate", "bytes_rate"} else describe("throughput_per_s")

    def cells(self) -> list[CellResult]:
        """The cells by combination and load."""
        place = {label: at for at, label in enumerate(self.combinations)}
        return sorted(
            self.analysis.cells,
            key=lambda cell: (place[self.combination(cell.cell)], cell.load if cell.load is not None else -1),
        )

    def runs(self) -> list[RunResult]:
        """The runs by combination, load and repetition."""
        place = {label: at for at, label in enumerate(self.combinations)}

        def key(run: RunResult) -> tuple[int, float, int, str]:
            load = self.load(run)
            return place[self.combination(run.cell)], -1 if load is None else load, run.repetition, run.id

        return sorted(self.analysis.runs, key=key)


def _unit_of(levels: Sequence[str]) -> str:
    """` (s)`, where all levels are numbers with that unit; empty for counts and levels of several units."""
    found = {match[1] for level in levels if (match := re.fullmatch(r"[\d.,]+\s*([^\d\s].*)", level))}
    return f" ({found.pop()})" if len(found) == 1 else ""


def users(run: RunResult) -> list[TesterResult]:
    """The testers of closed loads that were active: slots of an open load are no users."""
    return [] if run.open_load == "all" else [each for each in run.testers if each.share is not None]


def has_shares(run: RunResult) -> bool:
    """Whether the run has several users, among whom the work may be shared out evenly or not."""
    return run.jain_index is not None and len(users(run)) > 1
