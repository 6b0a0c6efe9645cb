"""Runs the experiments of a suite one after the other, and writes the page of the suite after each."""

from __future__ import annotations

import contextlib
import datetime
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.drive.directory import ResultsDirectory, write_json, write_text
from plimsoll.drive.experiment import Outcome
from plimsoll.errors import BadInput, ExitCode, PlimsollError, UserInterrupt
from plimsoll.plan import Plan
from plimsoll.suite.page import render
from plimsoll.suite.selection import Request, Selection
from plimsoll.suite.summary import ExperimentRow, State, SuiteResult, analysed_row, first_row

JSON: Final = "suite.json"
PAGE: Final = "suite.html"


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one experiment. `run`: probes the target and carries out the plan, in a results directory that
    `create` returns, or completes that of an earlier start; `analyse`: writes the files of the analysis, and returns it
    with the exit code."""

    run: Callable[[Plan, Callable[[], ResultsDirectory], ResultsDirectory | None], Outcome]
    analyse: Callable[[Path, Outcome | None], tuple[Analysis, int]]
    note: Callable[[str], None]


class Suite:
    """A suite in its directory, whose page shows what is done so far."""

    def __init__(
        self, path: Path, result: SuiteResult, selections: Sequence[Selection], steps: Steps
    ) -> None:
        self.path = path
        self.result = result
        self._selections = selections
        self._steps = steps

    def write(self) -> None:
        """Writes suite.json and suite.html. Raises PlimsollError."""
        write_json(self.path / JSON, self.result.to_json())
        write_text(self.path / PAGE, render(self.result))

    def carry_out(self) -> SuiteResult:
        """Runs every selected file, in order. After an interrupt the others are not run. Files are written in every
        case."""
        self.write()
        try:
            with _interrupted_by_signals():
                for position, selection in enumerate(self._selections):
                    if selection.plan is not None and not self._measure(
                        position, selection.plan, selection.directory
                    ):
                        break
        except (KeyboardInterrupt, UserInterrupt):
            self._steps.note("interrupted")
        finally:
            self.result = replace(self.result, ended=utc_now())
            self.write()
        return self.result

    def _measure(self, position: int, plan: Plan, earlier: Path | None) -> bool:
        """Runs one experiment, or completes its `earlier` results. False if the suite must end."""
        row = self.result.rows[position]
        self._steps.note(f"{position + 1}/{len(self._selections)}  {row.file}")
        created = [] if earlier is None else [ResultsDirectory(earlier)]

        def create() -> ResultsDirectory:
            created.append(ResultsDirectory.create(self.path, plan.experiment.name, _now()))
            # Stored now, so that the suite can be resumed even if this process is killed.
            self.result = self.result.with_row(position, replace(row, directory=created[0].path.name))
            self.write()
            return created[0]

        interrupted = True
        try:
            row, interrupted = self._row_of(row, plan, create, created)
        except (KeyboardInterrupt, UserInterrupt):
            row = replace(row, state="interrupted", exit_code=int(ExitCode.INTERRUPTED))
            raise
        finally:
            if not row.directory and created and created[0].path.exists():
                row = replace(row, directory=created[0].path.name)
            self.result = self.result.with_row(position, row)
            self.write()
        return not interrupted

    def _row_of(
        self,
        row: ExperimentRow,
        plan: Plan,
        create: Callable[[], ResultsDirectory],
        created: list[ResultsDirectory],
    ) -> tuple[ExperimentRow, bool]:
        """The row of an experiment, and whether a user interrupted it."""
        outcome: Outcome | None = None
        try:
            outcome = self._steps.run(plan, create, created[0] if created else None)
        except UserInterrupt:
            raise
        except (PlimsollError, OSError) as error:
            failure = error.exit_code if isinstance(error, PlimsollError) else ExitCode.ERROR
            reason = plan.experiment.redactor.text(_one_line(error))
            self._steps.note(f"{row.file}: {reason}")
            row = replace(row, state="failed", reason=reason, exit_code=int(failure))
        if not created or not any((created[0].path / "runs").glob("*/run.json")):
            return row, False
        directory = created[0].path
        try:
            analysis, code = self._steps.analyse(directory, outcome)
        except PlimsollError as error:  # damaged measurements
            reason = "; ".join(part for part in (row.reason, _one_line(error)) if part)
            return replace(row, state="failed", reason=reason, exit_code=int(error.exit_code)), False
        row = analysed_row(row, analysis, directory, self.path.resolve())
        if outcome is None:
            return row, False
        reason = "; ".join(plan.experiment.redactor.text(line) for line in outcome.stopped_early)
        state: State = "interrupted" if outcome.interrupted else "done"
        return replace(row, state=state, reason=reason, exit_code=code), outcome.interrupted


def new_suite(
    parent: Path, name: str, request: Request, selections: Sequence[Selection], steps: Steps
) -> Suite:
    """A suite with a new directory suite-YYYYmmddTHHMMSSZ below `parent`. Raises BadInput."""
    path = ResultsDirectory.create(parent, "suite", _now()).path
    with contextlib.suppress(OSError):
        (path / "runs").rmdir()  # a suite has no runs of its own
    rows = tuple(first_row(selection) for selection in selections)
    result = SuiteResult(
        name,
        request.target,
        request.quick,
        utc_now(),
        working_directory=str(Path.cwd()),
        ceiling=request.ceiling,
        rows=rows,
    )
    return Suite(path, result, selections, steps)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def utc_now() -> str:
    """The time now, ISO 8601."""
    return _now().isoformat(timespec="seconds").replace("+00:00", "Z")


def _one_line(error: Exception) -> str:
    if isinstance(error, BadInput):
        return "; ".join(" ".join(str(problem).split()) for problem in error.problems[:3])
    return " ".join(str(error).split())


@contextlib.contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP, between two experiments, as Ctrl-C. During an experiment its own handlers apply."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
