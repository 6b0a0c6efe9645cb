"""Results that are shared by many cells are equal to those of each cell alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import edited, load, problems

from plimsoll.plan import Cell, Experiment, load_experiment
from plimsoll.plan.schema.experiment import ExperimentRaw
from plimsoll.plan.source.memo import MISSING, Memo

FACTORS = """\
factors:
  body: {path: services.web.body, levels: [1B, 2B, 3B, 4B, 5B, 6B, 7B, 8B, 9B, 10B]}
  load.testers: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
  path: {path: vars.path, levels: [/a, /b]}
  both: {short: {run.duration: 1s, vars.n: 1}, long: {run.duration: 9s, vars.n: 2}}
  late: {path: load.think, levels: [0s, 1s], when: {both: long}}
vars: {path: /, n: 1, token: {secret: "${env:PW}-x"}}
"""
FILE = (
    edited(
        "target: web",
        "target: web\n"
        "  http: {path: '${vars.path}?${env:REGION}', headers: {X: '${vars.token}${vars.n}', Y: '${env:PW}'}}\n",
    )
    + FACTORS
)
ENVIRON = {"PW": "hunter2", "REGION": "north"}


def cell_alone(cell: Cell, experiment: Experiment) -> Cell:
    """The same cell as the only one of its design."""
    exclude = [
        f"{{{factor.name}: ['{label}']}}"
        for factor in experiment.factors
        for label in factor.labels
        if factor.name in cell.labels and label != cell.labels[factor.name]
    ]
    alone = load(FILE + f"design: {{exclude: [{', '.join(exclude)}]}}\n", environ=ENVIRON)
    (same,) = [cell_of_alone for cell_of_alone in alone.cells if cell_of_alone.labels == cell.labels]
    return same


def content(cell: Cell) -> tuple[Any, ...]:
    """Everything that a cell contains."""
    return dict(cell.labels), dict(cell.values), cell.config, dict(cell.stored), cell.secrets


def test_a_cell_is_the_same_among_many_and_alone() -> None:
    experiment = load(FILE, environ=ENVIRON)
    assert len(experiment.cells) == 10 * 10 * 2 * 3
    for cell in experiment.cells[::59]:
        assert content(cell) == content(cell_alone(cell, experiment))
    assert len({repr(content(cell)) for cell in experiment.cells}) == len(experiment.cells)


ROOT = Path(__file__).parents[3]
FILES = sorted((*(ROOT / "examples").glob("*.yaml"), *(ROOT / "studies").glob("*/*.yaml")))
INSTANCES = """
plimsoll: 1
services:
  web:   {kind: echo, instances: 2}
  front: {kind: nginx, origin: web}
workload: {driver: http, target: web}
load: {testers: 1}
run: {duration: 1s}
factors: {workload.target: [web, front], load.testers: [1, 2], services.web.instances: [2, 3]}
"""


def without_memo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memo, "known", lambda *_: MISSING)


def test_shared_results_of_files_are_those_of_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is stored for fewer sections than it depends on would be that of another cell."""
    shared = [load_experiment(path, environ={}).cells for path in FILES] + [load(INSTANCES).cells]
    without_memo(monkeypatch)
    alone = [load_experiment(path, environ={}).cells for path in FILES] + [load(INSTANCES).cells]
    for name, first, second in zip((*(path.name for path in FILES), "instances"), shared, alone, strict=True):
        assert [content(cell) for cell in first] == [content(cell) for cell in second], name


def test_equal_sections_of_cells_are_checked_and_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []
    validate = ExperimentRaw.model_validate

    def counted(tree: Mapping[str, Any]) -> ExperimentRaw:
        checked.append(tree)
        return validate(tree)

    monkeypatch.setattr(ExperimentRaw, "model_validate", counted)
    cells = load(FILE, environ=ENVIRON).cells
    assert len(checked) < 60, "not all 600: sections are checked once for each combination that changes them"
    assert len({id(cell.config.services) for cell in cells}) == 10
    assert len({id(cell.stored["load"]) for cell in cells}) == 30


def test_a_section_that_some_cells_lack_is_reported() -> None:
    text = edited("run: {duration: 1s}\n", "") + (
        "factors:\n"
        "  end: {a: {run.duration: 1s}, b: {load.testers: 2}}\n"
        "  body: {path: services.web.body, levels: [1B, 2B]}\n"
    )
    lines = problems(text)
    assert any("run" in line and "missing" in line for line in lines), lines


def test_sections_that_do_not_fit_together_are_reported() -> None:
    text = (
        edited("load: {testers: 1}\n", "")
        + "factors: {x: {a: {load.testers: 1}, b: {workload.timeout: 1s}}}\n"
    )
    assert any("load states when requests start" in line for line in problems(text))


def test_the_memo_finds_results_by_the_identity_of_their_sources() -> None:
    memo, first, equal = Memo(), [1], [1]
    made: list[list[int]] = []

    def make(of: list[int]) -> int:
        made.append(of)
        return len(made)

    assert memo.known("x", (first,)) is MISSING
    assert [memo.get("x", (source,), partial(make, source)) for source in (first, equal, first)] == [1, 2, 1]
    assert memo.get("y", (first,), lambda: make(first), keep=lambda: False) == 3
    assert memo.known("y", (first,)) is MISSING


def test_a_missing_file_is_reported_once_for_all_cells(tmp_path: Path) -> None:
    text = (
        edited("target: web", "target: web\n  http: {body_file: gone}") + "factors: {load.testers: [1, 2]}\n"
    )
    (message,) = problems(text, directory=tmp_path)
    assert "there is no file" in message
