"""Histories of results directories: copies of recorded results, with changes that a history has to notice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plimsoll.assemble.history import history_of, read_marks
from plimsoll.cli.main import main
from plimsoll.cli.results.history import exit_code
from plimsoll.compare.history.marks import Mark
from plimsoll.errors import BadInput
from plimsoll.report.compare.history import history_lines
from plimsoll.report.compare.history_page import history_page

RECORDED = Path(__file__).resolve().parents[2] / "data" / "results-v1"
Change = Callable[[dict[str, Any]], None]


def change(path: Path, how: Change) -> None:
    document = json.loads(path.read_text())
    how(document)
    path.write_text(json.dumps(document))


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Copies of results with two cells of one run each, started on three days; in the reverse order."""
    made = [Path(shutil.copytree(RECORDED, tmp_path / f"day-{day}")) for day in (1, 2, 3)]
    for day, copy in enumerate(made, start=1):
        started = f"2026-11-0{day}T03:00:00+00:00"
        change(copy / "environment.json", lambda facts, at=started: facts.update(started=at))  # type: ignore[misc]
    return made[::-1]


def test_the_directories_are_in_the_order_of_their_start(copies: list[Path]) -> None:
    result = history_of([*copies, copies[0] / ".." / copies[0].name], 0.03)
    assert [Path(entry.directory).name for entry in result.directories] == ["day-1", "day-2", "day-3"]
    assert result.is_comparable and all((entry.runs, entry.valid) == (2, 2) for entry in result.directories)
    assert {one.cell["load.testers"] for one in result.metrics} == {"1", "2"}
    throughput = next(one for one in result.metrics if one.metric == "throughput")
    assert len(throughput.values) == 3 and throughput.levels[0].points == 3 and not throughput.steps
    text = " ".join(" ".join(history_lines(result, 120)).split())
    assert "3 results directories, 2026-11-01 to 2026-11-03" in text and "at least 6 are needed" in text
    assert exit_code(result) == 0 and exit_code(result, fails_on_slower=True) == 0


def test_a_difference_in_the_load_is_a_gate_until_it_is_accepted_or_marked(copies: list[Path]) -> None:
    for record in copies[0].glob("runs/*/run.json"):
        change(record, lambda record: record["effective"]["load"].update(think="50ms"))
    result = history_of(copies, 0.03)
    assert not result.is_comparable and result.metrics == () and exit_code(result) == 97
    text = " ".join(" ".join(history_lines(result, 100)).split())
    assert "Not comparable: the directories differ in load.think" in text and "--accept load.think" in text
    assert "Not comparable" in history_page(result, bundle="")
    assert history_of(copies, 0.03, accept=["load.think"]).is_comparable
    marked = history_of(copies, 0.03, [Mark("2026-11-03", "more think time")])
    assert marked.is_comparable and marked.directories[2].mark == "more think time"
    assert [len(one.levels) for one in marked.metrics if one.metric == "throughput"] == [2, 2]


def test_differences_in_services_are_listed_where_they_begin(copies: list[Path]) -> None:
    for copy in copies[:2]:
        for record in copy.glob("runs/*/run.json"):
            change(record, lambda record: record["effective"]["services"]["web"].update(body="1kB"))
    found = [[one.path for one in entry.differences] for entry in history_of(copies, 0.03).directories]
    assert found == [[], ["services.web.body"], []]


def test_invalid_runs_leave_a_gap(copies: list[Path]) -> None:
    for record in copies[1].glob("runs/*/run.json"):
        change(record, lambda record: record.update(status="failed", reason="x"))
    result = history_of(copies, 0.03)
    assert result.directories[1].valid == 0 and result.metrics[0].values[1] is None
    assert "Without a valid run: day-2." in "\n".join(history_lines(result, 100))


def test_controls_of_a_paired_design_are_left_out(copies: list[Path]) -> None:
    for copy in copies:
        change(copy / "plan.json", lambda plan: plan["runs"][0].update(control=True))
    result = history_of(copies, 0.03)
    assert [(entry.runs, entry.valid) for entry in result.directories] == [(1, 1)] * 3
    left = json.loads((copies[0] / "plan.json").read_text())["runs"][1]["cell"]
    assert [dict(one.cell) for one in result.metrics if one.metric == "throughput"] == [left]


def test_input_without_a_history_is_refused(copies: list[Path]) -> None:
    with pytest.raises(BadInput, match="at least two results directories"):
        history_of([copies[0], copies[0]], 0.03)
    with pytest.raises(BadInput, match=r"plan\.json is a file; a history needs results directories\."):
        history_of([*copies, copies[0] / "plan.json"], 0.03)
    with pytest.raises(BadInput, match=r'no metric "speed" in this history; its metrics: throughput, '):
        history_of(copies, 0.03, metrics=["speed"])
    change(copies[0] / "plan.json", lambda plan: plan["experiment"].update(name="other"))
    with pytest.raises(BadInput, match='contains the experiment "other"'):
        history_of(copies, 0.03)


def test_the_file_of_marks(tmp_path: Path) -> None:
    path = tmp_path / "history.yaml"
    path.write_text("plimsoll-history: 1\nmarks:\n  - {since: 2026-11-03, why: new disks}\n")
    assert read_marks(path) == (Mark("2026-11-03", "new disks"),)
    for text, message in (
        ("marks: []\n", r'history.yaml:1: expected the line "plimsoll-history: 1"'),
        ("plimsoll-history: 1\nmark: []\n", r"history.yaml:2: mark: unknown key"),
        (
            "plimsoll-history: 1\nmarks:\n  - {since: 2026-11-03}\n",
            r"history.yaml:3: marks.0: expected \{since",
        ),
        ("plimsoll-history: 1\nmarks: {}\n", r"history.yaml:2: marks: expected a list"),
    ):
        path.write_text(text)
        with pytest.raises(BadInput, match=message):
            read_marks(path)


def test_the_command_writes_json_and_a_page(
    copies: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["history", *map(str, copies), "--metric", "throughput", "--json", "--html", str(page)]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "plimsoll.history/1"
    assert {one["metric"] for one in document["metrics"]} == {"throughput"}
    assert "<title>small – Plimsoll history report" in page.read_text()
