"""Entries of running experiments: a process id that another process reuses is never accepted."""

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


def test_a_registered_process_is_listed_until_it_is_unregistered(state: Path, tmp_path: Path) -> None:
    path = registry.register(tmp_path / "results")
    assert path is not None
    [experiment] = registry.running_experiments()
    assert (experiment.pid, experiment.directory) == (os.getpid(), tmp_path / "results")
    assert experiment.is_running()
    registry.unregister(path)
    assert registry.running_experiments() == []


def test_an_experiment_has_ended_when_the_process_that_cleans_up_has_ended(
    state: Path, tmp_path: Path
) -> None:
    outer = subprocess.Popen(["sleep", "60"])
    try:
        registry.register(tmp_path, outer.pid)
        [experiment] = registry.running_experiments()
        ended = replace(
            experiment, start_ticks=experiment.start_ticks - 1
        )  # of another process with the same id
        assert experiment.is_running() and not experiment.has_ended()
        assert not ended.is_running() and not ended.has_ended()
    finally:
        outer.kill()
        outer.wait()
    assert ended.has_ended() and not experiment.has_ended()
    assert all(entry.outer is None for entry in register_with_outer(outer.pid, tmp_path)), (
        "no outer process remains"
    )


def register_with_outer(outer: int, directory: Path) -> list[registry.RunningExperiment]:
    registry.register(directory, outer)
    experiments = registry.running_experiments()
    assert len(experiments) == 1
    return experiments


def test_an_entry_with_a_reused_process_id_is_removed_and_gets_no_signal(state: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        ticks = registry.start_ticks(other.pid)
        assert ticks is not None
        state.mkdir(parents=True)
        file = state / f"{other.pid}.json"
        entry = {"format": registry.FORMAT, "pid": other.pid, "start_ticks": ticks - 1, "directory": "/x"}
        file.write_text(json.dumps(entry))
        registry.RunningExperiment(other.pid, ticks - 1, Path("/x"), file).stop()
        assert other.poll() is None
        assert registry.running_experiments() == []
        assert not file.exists()
    finally:
        other.kill()
        other.wait()


def test_invalid_entries_are_ignored(state: Path) -> None:
    state.mkdir(parents=True)
    for name, text in (("1", "{"), ("2", "[]"), ("3", '{"pid": "x"}'), ("4", "")):
        (state / f"{name}.json").write_text(text)
    assert registry.running_experiments() == []


def test_a_missing_state_directory_prevents_only_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    path = registry.register(tmp_path)
    assert path is None
    registry.unregister(path)
    assert registry.running_experiments() == []


def test_start_ticks_of_an_ended_process_are_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert registry.start_ticks(child.pid) is None
    assert registry.start_ticks(os.getpid()) is not None
