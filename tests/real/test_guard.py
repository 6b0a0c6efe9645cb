"""The guard of a service kills, starts, pauses and continues a real process tree, and ends it in every state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.process import GuardedProcess, Program
from plimsoll.errors import ServiceError
from tests.real.test_trouble import wait_for

SCRIPT = "setsid sleep 1000 & sleep 1000 & echo started >> {file}; wait"


def tree_below(pid: int) -> dict[int, str]:
    """The descendants of a process, with their states."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found[child] = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
            found |= tree_below(child)
    return found


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedProcess]:
    script = SCRIPT.format(file=tmp_path / "starts")
    process = GuardedProcess(
        find_engine(), Program("tree", ["sh", "-c", script], tmp_path / "log", grace_s=2.0)
    )
    wait_for(lambda: len(tree_below(process.pid)) == 3, 20)
    yield process
    process.stop()
    assert process.has_ended()


def test_a_tree_is_killed_and_started_again_below_the_same_root(
    guarded: GuardedProcess, tmp_path: Path
) -> None:
    root, before = guarded.pid, set(tree_below(guarded.pid))
    guarded.kill_tree()
    assert guarded.is_down and not guarded.has_ended()
    assert not [pid for pid in before if Path(f"/proc/{pid}").exists()]
    guarded.start_again()
    assert not guarded.is_down and guarded.pid == root
    wait_for(lambda: len(tree_below(root)) == 3, 20)
    assert not before & set(tree_below(root))
    assert (tmp_path / "starts").read_text().count("started") == 2


def test_a_tree_is_paused_and_continued(guarded: GuardedProcess) -> None:
    guarded.pause_tree()
    assert set(tree_below(guarded.pid).values()) == {"T"}
    guarded.continue_tree()
    assert "T" not in tree_below(guarded.pid).values()


def test_a_paused_tree_ends_in_an_orderly_way(guarded: GuardedProcess) -> None:
    guarded.pause_tree()
    members = set(tree_below(guarded.pid))
    began = time.monotonic()
    guarded.stop()
    assert time.monotonic() - began < 10
    assert not [pid for pid in members if Path(f"/proc/{pid}").exists()]


def test_a_tree_that_ends_by_itself_still_ends_its_guard(guarded: GuardedProcess) -> None:
    (shell,) = [
        pid for pid in tree_below(guarded.pid) if b"sh\0-c" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(shell, 9)
    wait_for(guarded.has_ended, 20)
    assert "killed by signal 9" in guarded.end_message()


def test_a_guard_without_a_program_ends(guarded: GuardedProcess) -> None:
    guarded.kill_tree()
    guarded.stop()
    assert guarded.returncode == 0


def test_a_program_is_bound_to_its_cores_and_this_process_is_not(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    core, log = min(before), tmp_path / "log"
    script = "grep Cpus_allowed_list /proc/self/status; exec sleep 1000"
    process = GuardedProcess(find_engine(), Program("bound", ["sh", "-c", script], log, cpus=[core]))
    try:
        wait_for(lambda: log.read_text() == f"Cpus_allowed_list:\t{core}\n", 20)
        assert os.sched_getaffinity(process.pid) == {core}
        assert os.sched_getaffinity(0) == before
    finally:
        process.stop()
    with pytest.raises(ServiceError, match=r"cpus \[1022\] cannot be used: this process may run on"):
        GuardedProcess(find_engine(), Program("bound", ["true"], log, cpus=[1022]))


def test_the_directory_of_a_service_is_removed_if_the_lab_was_killed_and_only_then(tmp_path: Path) -> None:
    directory = tmp_path / "work" / "service-1"
    directory.mkdir(parents=True)
    program = Program("swept", ["sleep", "1000"], directory / "log", remove=directory)
    stopped = GuardedProcess(find_engine(), program)
    wait_for(lambda: len(tree_below(stopped.pid)) == 1, 20)
    stopped.stop()
    assert directory.is_dir(), "the lab reads the log of a service that has ended"
    killed = GuardedProcess(find_engine(), program)
    wait_for(lambda: len(tree_below(killed.pid)) == 1, 20)
    assert killed._process.stdin is not None
    killed._process.stdin.close()  # as when this process ends
    killed.wait(20)
    assert not (tmp_path / "work").exists()


def test_an_orphan_that_has_ended_is_reaped_while_the_program_runs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "(setsid sh -c 'sleep 0.1; echo $$' &); exec sleep 1000"
    process = GuardedProcess(find_engine(), Program("orphans", ["sh", "-c", script], log, grace_s=2.0))
    try:
        wait_for(lambda: log.read_text().strip().isdigit(), 20)
        orphan = Path(f"/proc/{log.read_text().strip()}")
        wait_for(lambda: not orphan.exists(), 20)
        assert len(tree_below(process.pid)) == 1
        assert not process.has_ended()
    finally:
        process.stop()
