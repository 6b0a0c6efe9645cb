"""Messages of `run` before the first run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.cli.experiments.run import announcement, busy_host_warnings
from plimsoll.drive import registry
from plimsoll.plan import load_experiment, make_plan

LOAD = "workload: {driver: http, target: web, http: {path: /}}\nload: {testers: 1}\n"


@pytest.mark.parametrize(
    ("text", "what", "services"),
    [
        ("run: {duration: 10s}", "1 run, 11 s, 510 kB", ["starts delay; installs nothing"]),
        (
            "run: {duration: 10s}\ndesign: {repetitions: 3}",
            "3 runs, 32 s, 1.53 MB",
            ["starts delay; installs nothing"],
        ),
        ("run: {until: {transactions: 9}}", "1 run, 50.2 kB", ["starts delay; installs nothing"]),
    ],
)
def test_a_run_announces_its_time_its_disk_space_and_its_services(
    tmp_path: Path, text: str, what: str, services: list[str]
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        f"plimsoll: 1\nname: x\nservices: {{web: {{kind: delay, time: 50ms}}}}\n{LOAD}{text}\n",
        encoding="utf-8",
    )
    plan = make_plan(load_experiment(file, []), 1)
    assert announcement(plan, plan.seconds_left(), Path("results/x")) == [
        f"x: {what}; results in results/x",
        *services,
    ]
    # Of an experiment that is continued, the disk space that is left is not known.
    left = dict(list(plan.seconds_left().items())[1:])
    if left:
        assert announcement(plan, left, Path("results/x"))[0] == "x: 2 runs, 21 s; results in results/x"


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
