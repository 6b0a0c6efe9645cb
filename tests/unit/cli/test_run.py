"""Messages of `run` before the first run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.cli.experiments.run import busy_host_warnings
from plimsoll.drive import registry


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has registered itself as an experiment."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    enters = f"register(Path({str(tmp_path)!r})); print(1, flush=True); input()"
    code = f"from pathlib import Path; from plimsoll.drive.registry import register; {enters}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield process
        process.kill()


def test_another_experiment_on_this_host_causes_a_warning(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (line,) = busy_host_warnings()
    assert line.startswith("plimsoll: warning: another experiment runs on this host")
    assert str(tmp_path) in line and f"process {sleeper.pid}" in line
    sleeper.kill()
    sleeper.wait()
    assert busy_host_warnings() == []


def test_its_own_entry_causes_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = registry.register(tmp_path)
    assert [experiment.pid for experiment in registry.running_experiments()] == [
        os.getpid()
    ] and busy_host_warnings() == []
    registry.unregister(path)
