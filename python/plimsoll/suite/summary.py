"""The results of a suite: a row for each file, suite.json, and the exit code. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from plimsoll.analyse.answer.compose import shown_answer, so_far
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.wording import count, plural
from plimsoll.errors import ExitCode
from plimsoll.report.tables.analysis import verdict_text
from plimsoll.suite.selection import Selection

FORMAT: Final = "plimsoll.suite/1"
State = Literal["not run", "refused", "invalid", "done", "failed", "interrupted"]
"""`not run`: selected, and not started yet, or left out after an interrupt."""
_SEVERITY: Final = (
    *(ExitCode.INTERRUPTED, ExitCode.ERROR, ExitCode.BAD_INPUT),
    *(ExitCode.MEASUREMENT_INVALID, ExitCode.AGENTS_LOST, ExitCode.THRESHOLD_FAILED),
)
"""Exit codes, the worst first."""


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """A threshold. `passed` is None if no run of its cell could be judged."""

    text: str
    passed: bool | None


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """A file of the suite. `reason`: why it was not run, or why it ended early; `directory` and `report`: relative to
    that of the suite, empty if there are none; numbers of runs are those of the analysis. `planned_runs`: None if their
    number is open, as that of a search."""

    file: str
    name: str = ""
    question: str = ""
    state: State = "not run"
    reason: str = ""
    remarks: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    planned_runs: int | None = 0
    runs: int = 0
    valid_runs: int = 0
    doubtful_runs: int = 0
    thresholds: tuple[ThresholdRow, ...] = ()
    directory: str = ""
    report: str = ""
    exit_code: int = 0

    @property
    def validity(self) -> str:
        """The validity of its runs, as text."""
        if not self.runs:
            return "no run" if self.state in ("done", "failed", "interrupted") else "–"
        if self.runs == 1:
            return "doubtful" if self.doubtful_runs else "valid" if self.valid_runs else "invalid"
        doubtful = f", {count(self.doubtful_runs)} doubtful" if self.doubtful_runs else ""
        if self.valid_runs == self.runs:
            return f"all {count(self.runs)} runs valid{doubtful}"
        return f"{count(self.valid_runs)} of {plural(self.runs, 'run')} valid{doubtful}"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The suite so far. `ceiling`: rules that stop every run, with those of its file. `started`, `ended`: UTC,
    ISO 8601, `ended` is empty while it runs. `working_directory`: names of files are relative to it."""

    name: str
    target: str
    quick: bool
    started: str
    ended: str = ""
    rows: tuple[ExperimentRow, ...] = field(default=())
    working_directory: str = ""
    ceiling: tuple[Mapping[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        """The worst exit code of the files. A refused file has none; if no other file exists, the input is bad."""
        codes = {row.exit_code for row in self.rows}
        if self.rows and all(row.state == "refused" for row in self.rows):
            codes.add(int(ExitCode.BAD_INPUT))
        if self.ended and any(row.state == "not run" for row in self.rows):
            codes.add(int(ExitCode.INTERRUPTED))
        return next((int(code) for code in _SEVERITY if int(code) in codes), int(ExitCode.PASSED))

    def with_row(self, position: int, row: ExperimentRow) -> SuiteResult:
        """The suite with one row replaced."""
        return replace(self, rows=(*self.rows[:position], row, *self.rows[position + 1 :]))

    def to_json(self) -> dict[str, Any]:
        """The content of suite.json."""
        return {
            "format": FORMAT,
            "name": self.name,
            "target": self.target,
            "quick": self.quick,
            "started": self.started,
            "ended": self.ended,
            "working_directory": self.working_directory,
            "ceiling": [dict(rule) for rule in self.ceiling],
            "exit_code": self.exit_code,
            "experiments": [{**asdict(row), "validity": row.validity} for row in self.rows],
        }


def first_row(selection: Selection) -> ExperimentRow:
    """The row of a file before it is run."""
    if selection.plan is None:
        code = ExitCode.BAD_INPUT if selection.state == "invalid" else ExitCode.PASSED
        state: State = "invalid" if selection.state == "invalid" else "refused"
        return ExperimentRow(str(selection.file), state=state, reason=selection.reason, exit_code=int(code))
    experiment = selection.plan.experiment
    return ExperimentRow(
        str(selection.file),
        name=experiment.name,
        question=experiment.redactor.text(experiment.question),
        remarks=selection.remarks,
        planned_runs=len(selection.plan.runs) if experiment.search is None else None,
    )


def analysed_row(row: ExperimentRow, analysis: Analysis, directory: Path, suite: Path) -> ExperimentRow:
    """The row with the figures of an analysis. `directory`: the results directory, below that of the suite."""
    relative = directory.resolve().relative_to(suite).as_posix()
    begun = so_far(analysis)
    return replace(
        row,
        answer=(*([begun] if begun else []), *shown_answer(analysis)),
        runs=len(analysis.runs),
        valid_runs=sum(run.valid for run in analysis.runs),
        doubtful_runs=sum(run.valid and bool(run.doubtful_reasons) for run in analysis.runs),
        thresholds=tuple(
            ThresholdRow(verdict_text(verdict), verdict.passed if verdict.judged else None)
            for verdict in analysis.verdicts
        ),
        directory=relative,
        report=f"{relative}/report.html",
    )


def counted(rows: Iterable[ExperimentRow]) -> str:
    """The number of files by state, as text: `2 done, 1 refused`."""
    listed = [row.state for row in rows]
    order = ("done", "failed", "interrupted", "not run", "refused", "invalid")
    return ", ".join(f"{count(listed.count(state))} {state}" for state in order if state in listed)
