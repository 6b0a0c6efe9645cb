"""The trials of a search: each is an ordinary run, whose load follows from the results of the trials before it.

The controller computes everything from the results. So a resumed search replays the stored trials, and continues with
the first trial that has no result.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from plimsoll.assemble.adaptive.goal_outcome import trial_result
from plimsoll.assemble.adaptive.search_request import capacity_search, line_of, result_of, result_record
from plimsoll.collect.decisions import NAME, read_decisions
from plimsoll.collect.results import open_results
from plimsoll.drive.directory import ResultsDirectory, write_json, write_text
from plimsoll.drive.resume import done_runs
from plimsoll.plan import Plan, PlannedRun
from plimsoll.plan.plan import trial_run
from plimsoll.search.capacity import CapacitySearch, CapacityVerdict
from plimsoll.search.trials import Trial, TrialResult

FORMAT: Final = "plimsoll.trials/1"


@dataclass(slots=True)
class _Cell:
    """A cell of the design with the results of its trials, and what follows from them."""

    index: int
    capacity: CapacitySearch
    step: Trial | CapacityVerdict
    results: list[TrialResult] = field(default_factory=list)


class CapacitySearchRuns:
    """The trials of all cells. The search with the lowest number comes first, so each complete search of all cells is a
    block. Within a block, the cells are searched in random order, or as listed with `design.order: listed`."""

    def __init__(
        self,
        plan: Plan,
        directory: ResultsDirectory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert plan.experiment.search is not None, "the plan of a search"
        self._plan = replace(plan, trials=())
        self._search = plan.experiment.search
        self._directory = directory
        self._clock = clock
        self._cells = [self._cell(run.cell_index) for run in plan.runs]
        self._lines: list[dict[str, Any]] = []
        self._open: tuple[_Cell, Trial, float] | None = None
        self._replay()

    def _cell(self, index: int) -> _Cell:
        capacity = capacity_search(self._search, self._plan.seed, self._plan.starts.get(index))
        return _Cell(index, capacity, capacity.next(()))

    def next_run(self) -> PlannedRun | None:
        """The next trial, after the result of the one before it was stored; None if every cell has its answer."""
        if self._open is not None:
            self._close(*self._open)
        began = self._clock()
        found = self._next()
        if found is None:
            self._write(ended=True)
            return None
        cell, trial = found
        run = self._plan_trial(cell, trial)
        self._lines.append(line_of(trial, run.id, self._labels(cell)))
        self._write()
        write_json(self._directory.path / "plan.json", self._plan.to_json())
        self._open = cell, trial, began
        return run

    def left(self) -> int:
        """1 until every cell has its answer: the number of trials is not known."""
        return int(self._next() is not None)

    def _next(self) -> tuple[_Cell, Trial] | None:
        waiting = [(cell, cell.step) for cell in self._cells if isinstance(cell.step, Trial)]
        return min(waiting, key=lambda one: (one[1].search, self._place(*one)), default=None)

    def _place(self, cell: _Cell, trial: Trial) -> int:
        """The place of a cell in the block of a search. It depends on the seed only, so a resumed search keeps it."""
        if self._plan.experiment.design.order == "listed":
            return cell.index
        order = np.random.default_rng((self._plan.seed, trial.search)).permutation(
            len(self._plan.experiment.cells)
        )
        return int(order[cell.index])

    def _plan_trial(self, cell: _Cell, trial: Trial) -> PlannedRun:
        run = trial_run(self._plan, cell.index, trial.load, trial.seconds, trial.search)
        self._plan = replace(self._plan, trials=(*self._plan.trials, run))
        return run

    def _labels(self, cell: _Cell) -> Mapping[str, str]:
        return self._plan.experiment.cells[cell.index].labels

    def _close(self, cell: _Cell, trial: Trial, began: float) -> None:
        """Stores the result of the trial that has ended. Its wall time contains its evaluation."""
        self._open = None
        result = self._measured(trial, self._lines[-1]["run"], 0.0)
        result = replace(result, spent_seconds=round(self._clock() - began, 3))
        self._lines[-1]["result"] = result_record(result)
        self._write()
        self._add(cell, result)

    def _measured(self, trial: Trial, name: str, spent_s: float) -> TrialResult:
        results = open_results(self._directory.path)
        run = next((run for run in results.runs if run.id == name), None)
        return trial_result(trial, run, results, self._search, spent_s)

    def _add(self, cell: _Cell, result: TrialResult) -> None:
        cell.results.append(result)
        cell.step = cell.capacity.next(cell.results)

    def _replay(self) -> None:
        """Repeats the decisions of an interrupted search up to the first trial without a result. Runs after it are set
        aside, because their loads may not follow from its result."""
        stored = [line for line in read_decisions(self._directory.path) if "run" in line]
        done = done_runs(self._directory.path)
        for line in stored:
            found = self._next()
            has_files = (self._directory.path / "runs" / line["run"] / "run.json").exists()
            if found is None or not has_files or not ("result" in line or line["run"] in done):
                break
            cell, trial = found
            if line_of(trial, line["run"], self._labels(cell)) != {
                key: value for key, value in line.items() if key != "result"
            }:
                break
            self._plan_trial(cell, trial)
            if "result" not in line:  # the run ended, but the experiment did not read it
                spent = trial.seconds + self._search.overhead_s
                line["result"] = result_record(self._measured(trial, line["run"], spent))
            self._lines.append(line)
            self._add(cell, result_of(line))
        dropped = stored[len(self._lines) :]
        for line in dropped:
            self._directory.set_aside(line["run"])
        if dropped:
            self._write()
            write_json(self._directory.path / "plan.json", self._plan.to_json())

    def _write(self, *, ended: bool = False) -> None:
        lines = [{"format": FORMAT}, *self._lines]
        if ended:
            lines.append({"decision": "end", "reason": "every search has its answer"})
        write_text(
            self._directory.path / NAME,
            "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines),
        )
