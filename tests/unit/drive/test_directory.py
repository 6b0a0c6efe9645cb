"""The results directory: files are written completely or not at all, and failed writes are counted."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from plimsoll.drive.directory import EventLog, ResultsDirectory, write_json, write_text
from plimsoll.errors import BadInput, PlimsollError

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


def test_two_directories_of_the_same_second_have_different_names(tmp_path: Path) -> None:
    first = ResultsDirectory.create(tmp_path / "out", "a name/with odd: parts", NOW)
    second = ResultsDirectory.create(tmp_path / "out", "a name/with odd: parts", NOW)
    assert first.path.name == "a-name-with-odd-parts-20260102T030405Z"
    assert second.path.name == "a-name-with-odd-parts-20260102T030405Z-2"
    assert not (tmp_path / "out" / "latest").exists(), "nothing is in them yet"
    for results in (first, second):
        results.point_latest()
    assert (tmp_path / "out" / "latest").resolve() == second.path.resolve()


def test_an_existing_directory_latest_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    results = ResultsDirectory.create(tmp_path, "x", NOW)
    results.point_latest()
    assert results.path.is_dir()
    assert not (tmp_path / "latest").is_symlink()


def test_a_parent_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="results cannot be written"):
        ResultsDirectory.create(tmp_path / "file", "x", NOW)


def test_only_a_directory_without_runs_is_removed(tmp_path: Path) -> None:
    empty, begun = (ResultsDirectory.create(tmp_path, "x", NOW) for _ in range(2))
    for results in (empty, begun):
        write_json(results.path / "plan.json", {})
    begun.run("0001")
    empty.discard()
    begun.discard()
    assert not empty.path.exists()
    assert sorted(path.name for path in begun.path.iterdir()) == ["plan.json", "runs"]


def test_an_earlier_attempt_is_moved_aside(tmp_path: Path) -> None:
    results = ResultsDirectory.create(tmp_path, "x", NOW)
    for attempt in ("first", "second"):
        (results.clear_run("0001") / "mark").write_text(attempt)
    assert list(results.clear_run("0001").iterdir()) == []
    aside = results.path / "abandoned"
    assert [(aside / f"0001.{n}" / "mark").read_text() for n in (1, 2)] == ["first", "second"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    with pytest.raises(PlimsollError, match="could not be written: No such file"):
        write_text(tmp_path / "gone" / "file", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


def test_events_are_lines_and_failed_writes_are_counted(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.add(1.23456, "note", 'a "quoted"\nline')
    log.add(-0.5, "hook", "ü")
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert events == [
        {"t_s": 1.235, "kind": "note", "text": 'a "quoted"\nline'},
        {"t_s": -0.5, "kind": "hook", "text": "ü"},
    ]
    full = EventLog(Path("/dev/full"))
    full.add(0, "note", "x")
    full.add(0, "note", "y")
    assert full.lost == 2
    assert EventLog(tmp_path / "gone" / "events.jsonl").lost == 1
