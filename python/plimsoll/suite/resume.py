"""Continues a suite that was stopped: finished experiments are kept, a half-finished one is resumed, the others run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from plimsoll.collect.files import read_json
from plimsoll.drive.registry import running_experiments
from plimsoll.drive.resume import resumed_plan
from plimsoll.errors import BadInput, DamagedResults, ExitCode, PlimsollError
from plimsoll.suite.conduct import JSON, Steps, Suite
from plimsoll.suite.selection import Request, Selection, select
from plimsoll.suite.summary import ExperimentRow, SuiteResult, ThresholdRow, first_row

KEPT = ("done", "refused", "invalid")
"""States of the files that are not run again."""


def resumed_suite(path: Path, steps: Steps) -> Suite:
    """The suite in `path`, with the experiments that remain. Raises BadInput if it runs now, and DamagedResults if its
    suite.json cannot be read."""
    stored = read_suite(path)
    here = path.resolve()
    if any(experiment.directory.parent == here for experiment in running_experiments()):
        raise BadInput(f"{path}: this suite is running now (see plimsoll status)")
    selections, rows = [], []
    for row in stored.rows:
        selection, changed = _remaining(row, here, stored)
        selections.append(selection)
        rows.append(changed)
    return Suite(path, replace(stored, ended="", rows=tuple(rows)), selections, steps)


def _remaining(row: ExperimentRow, path: Path, suite: SuiteResult) -> tuple[Selection, ExperimentRow]:
    """What is done with a file, and its row before that."""
    file = Path(suite.working_directory) / row.file
    if row.state in KEPT:
        return Selection(file, "refused"), row
    directory = path / row.directory
    if not row.directory or not (directory / "plan.json").is_file():
        selection = select(file, True, Request(suite.target, suite.quick, suite.ceiling))
        return selection, replace(first_row(selection), file=row.file)
    try:
        plan, _ = resumed_plan(directory)
    except PlimsollError as error:
        reason = " ".join(str(error).split())
        code = int(error.exit_code)
        return Selection(file, "invalid"), replace(row, state="failed", reason=reason, exit_code=code)
    waiting = replace(row, state="not run", reason="", exit_code=int(ExitCode.PASSED))
    return Selection(file, "selected", plan, remarks=row.remarks, directory=directory), waiting


def read_suite(path: Path) -> SuiteResult:
    """The content of suite.json. Raises DamagedResults."""
    file = path / JSON
    if not file.is_file():
        raise DamagedResults(f"{path} is not the directory of a suite: it has no {JSON}")
    document = read_json(file, "plimsoll.suite")
    try:
        return SuiteResult(
            name=str(document["name"]),
            target=str(document["target"]),
            quick=bool(document["quick"]),
            started=str(document["started"]),
            ended=str(document["ended"]),
            working_directory=str(document.get("working_directory", "")),
            ceiling=tuple(dict(rule) for rule in document.get("ceiling", ())),
            rows=tuple(_row(entry) for entry in document["experiments"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DamagedResults(f"{file} is not a suite: {error!r}") from error


def _row(entry: Mapping[str, Any]) -> ExperimentRow:
    known = {each.name for each in fields(ExperimentRow)}
    values: dict[str, Any] = {name: value for name, value in entry.items() if name in known}
    values["remarks"], values["answer"] = tuple(entry["remarks"]), tuple(entry["answer"])
    values["thresholds"] = tuple(ThresholdRow(each["text"], each["passed"]) for each in entry["thresholds"])
    return ExperimentRow(**values)
