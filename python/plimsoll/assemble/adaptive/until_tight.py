"""The runs of an experiment whose cells are repeated until their intervals are narrow enough.

Before each block, every cell is judged by the runs of the blocks before it, as they are stored. So the decisions of a
resumed experiment are those of the first attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from plimsoll.analyse.design.across import grouped
from plimsoll.analyse.design.repetitions.until_tight import widths_of
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.run.parts import OfParts
from plimsoll.analyse.stats.quantiles import Histogram
from plimsoll.assemble.run.asked import AnalysisRequest
from plimsoll.assemble.run.one_run import measured_window, one_run
from plimsoll.assemble.run.options import Options
from plimsoll.collect.decisions import NAME
from plimsoll.collect.results import Results, RunFiles, open_results
from plimsoll.drive.directory import ResultsDirectory, write_text
from plimsoll.plan import Plan, PlannedRun
from plimsoll.plan.design.pairs import combinations_of
from plimsoll.plan.model.cell import Pair, UntilTight
from plimsoll.search.until_tight import CellWidths, Decision, decide_together

FORMAT = "plimsoll.trials/1"


class UntilTightRuns:
    """The runs of a plan in their order, without the later repetitions of cells that are tight. `done`: ids of the runs
    that need not be carried out again."""

    def __init__(
        self, plan: Plan, rule: UntilTight, directory: ResultsDirectory, done: frozenset[str]
    ) -> None:
        self._rule = rule
        self._directory = directory
        self._done = done
        self._to_come = list(plan.runs)
        self._repetition = 0
        self._stopped: set[int] = set()
        self._cells = {run.cell_index: dict(run.cell) for run in plan.runs}
        self._compared = _compared_cells(self._cells, plan.experiment.design.pair)
        self._stored = _StoredRuns(directory)
        self._lines: list[dict[str, Any]] = []

    def next_run(self) -> PlannedRun | None:
        """The next run of a cell that is not tight."""
        while self._to_come:
            run = self._to_come.pop(0)
            if run.repetition != self._repetition:
                self._decide(run.repetition)
            if run.cell_index not in self._stopped and run.id not in self._done:
                return run
        return None

    def left(self) -> int:
        """Number of runs that are still to come, at most."""
        return sum(run.cell_index not in self._stopped and run.id not in self._done for run in self._to_come)

    def _decide(self, repetition: int) -> None:
        """Judges every cell before the first run of a repetition, and stores the decisions."""
        self._repetition = repetition
        if repetition <= self._rule.at_least:
            return
        found = self._stored.widths(self._rule, before=repetition)
        for indices in self._compared:
            if indices[0] in self._stopped:
                continue
            widths = [
                found.get(tuple(sorted(self._cells[index].items())), CellWidths(0, {})) for index in indices
            ]
            decisions = decide_together(self._rule.widths, self._rule.at_least, widths)
            for index, cell_widths, decision in zip(indices, widths, decisions, strict=True):
                if not decision.repeat:
                    self._stopped.add(index)
                self._lines.append(_line(repetition, self._cells[index], cell_widths, decision))
        lines = [{"format": FORMAT}, *self._lines]
        write_text(
            self._directory.path / NAME,
            "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines),
        )


def _compared_cells(cells: Mapping[int, Mapping[str, str]], pair: Pair | None) -> list[list[int]]:
    """The indices of cells that are compared with each other; without a pair, each cell is alone."""
    if pair is None:
        return [[index] for index in cells]
    indices = list(cells)
    found = combinations_of([cells[index] for index in indices], pair.factor)
    return [[indices[at] for at in levels.values()] for _, levels in found]


def _line(repetition: int, cell: Mapping[str, str], widths: CellWidths, decision: Decision) -> dict[str, Any]:
    """A line of trials.jsonl."""
    return {
        "rule": "until tight",
        "before_repetition": repetition,
        "cell": dict(cell),
        "decision": "repeat" if decision.repeat else "stop",
        "reason": decision.reason,
        "repetitions": widths.repetitions,
        "widths": dict(widths.widths),
    }


class _StoredRuns:
    """The results of the stored runs. A run is analysed once."""

    def __init__(self, directory: ResultsDirectory) -> None:
        self._path = directory.path
        self._known: dict[str, tuple[RunResult, Mapping[str, Histogram], OfParts] | None] = {}

    def widths(self, rule: UntilTight, before: int) -> dict[tuple[tuple[str, str], ...], CellWidths]:
        """The widths of each cell, from its runs before a repetition."""
        results = open_results(self._path)
        request = AnalysisRequest(results.plan)
        for run in results.runs:
            if run.id not in self._known and run.id not in results.controls:
                self._known[run.id] = self._analysed(run, results, request)
        repetition_of = {run["id"]: run["repetition"] for run in results.plan["runs"]}
        found = {
            id: known for id, known in self._known.items() if known is not None and repetition_of[id] < before
        }
        groups = grouped(
            [known[0] for known in found.values()],
            {id: known[1] for id, known in found.items()},
            request.design,
            {id: known[2] for id, known in found.items()},
        )
        return {
            tuple(sorted(group.cell.items())): widths
            for group, widths in zip(groups, widths_of(groups, rule), strict=True)
        }

    def _analysed(
        self, run: RunFiles, results: Results, request: AnalysisRequest
    ) -> tuple[RunResult, Mapping[str, Histogram], OfParts] | None:
        """The result of a run; None if it measured nothing."""
        if run.summary is None or (run.transactions is None and not run.live):
            return None
        measured = measured_window(run, Options())
        return None if measured is None else one_run(run, results, Options(), measured, request)
