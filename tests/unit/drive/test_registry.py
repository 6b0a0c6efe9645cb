"""Entries of running experiments: a process id that was given to somebody else is never taken for ours."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from plimsoll.drive import registry


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "plimsoll" / "running"


def test_who_enters_is_found_and_who_leaves_is_not(state: Path, tmp_path: Path) -> None:
    path = registry.enter(tmp_path / "results")
    assert path is not None
    [one] = registry.running()
    assert (one.pid, one.directory) == (os.getpid(), tmp_path / "results")
    assert one.alive()
    registry.leave(path)
    assert registry.running() == []


def test_it_is_over_when_who_cleans_up_behind_it_has_ended(state: Path, tmp_path: Path) -> None:
    outer = subprocess.Popen(["sleep", "60"])
    try:
        registry.enter(tmp_path, outer.pid)
        [one] = registry.running()
        ended = replace(one, start_ticks=one.start_ticks - 1)  # of another process that had our id
        assert one.alive() and not one.over()
        assert not ended.alive() and not ended.over()
    finally:
        outer.kill()
        outer.wait()
    assert ended.over() and not one.over()
    assert all(entry.outer is None for entry in entered_behind(outer.pid, tmp_path)), "nobody is left"


def entered_behind(outer: int, directory: Path) -> list[registry.Running]:
    registry.enter(directory, outer)
    found = registry.running()
    assert len(found) == 1
    return found


def test_a_process_id_that_was_reused_is_swept_and_gets_no_signal(state: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        ticks = registry.start_ticks(other.pid)
        assert ticks is not None
        state.mkdir(parents=True)
        file = state / f"{other.pid}.json"
        entry = {"format": registry.FORMAT, "pid": other.pid, "start_ticks": ticks - 1, "directory": "/x"}
        file.write_text(json.dumps(entry))
        registry.Running(other.pid, ticks - 1, Path("/x"), file).stop()
        assert other.poll() is None
        assert registry.running() == []
        assert not file.exists()
    finally:
        other.kill()
        other.wait()


def test_entries_that_are_rubbish_are_passed_over(state: Path) -> None:
    state.mkdir(parents=True)
    for name, text in (("1", "{"), ("2", "[]"), ("3", '{"pid": "x"}'), ("4", "")):
        (state / f"{name}.json").write_text(text)
    assert registry.running() == []


def test_no_place_for_state_costs_the_entry_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    path = registry.enter(tmp_path)
    assert path is None
    registry.leave(path)
    assert registry.running() == []


def test_start_ticks_of_nobody() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert registry.start_ticks(child.pid) is None
    assert registry.start_ticks(os.getpid()) is not None
