"""A load generator that is the limit of a run is found, with the evidence of what it did; a slow target never is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab
from tests.real.test_trouble import children, command_of, measured, wait_for

# One after the other: each wants a core for itself.
pytestmark = pytest.mark.xdist_group("generator")

# Only summaries are kept: millions of transactions a second would make testers wait for the recorder's lock.
CLOSED = """
plimsoll: 1
name: closed
workload: {driver: "null"}
load: {testers: 4, think: %s}
run: {duration: %s, keep: summaries}
cpus: {testers: [0]}
"""


def verdict(lab: Lab, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The one run, which must be invalid."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 97, err + out
    (run,) = json.loads((lab.results() / "analysis.json").read_text())["runs"]
    assert not run["valid"]
    return dict(run)


def agent_of(process: subprocess.Popen[str]) -> int:
    """The process that runs the testers."""
    (found,) = (pid for pid in children(process.pid) if " agent" in command_of(pid))
    return found


@contextmanager
def busy_loop(core: int) -> Iterator[None]:
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(loop.pid, {core})
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


@pytest.mark.long
def test_a_core_shared_with_a_busy_loop(lab: Lab) -> None:
    """Its thread uses half of a core and waits for the other half."""
    # The kernel counts a wait when it ends, so the last second lacks a wait in progress: up to 0.3 s were seen. In 6 s
    # that is 5 %, and the run is only doubtful.
    with busy_loop(0):
        run = verdict(lab, lab.start("run", lab.file(CLOSED % ("0s", "12s"))))
    assert run["evidence"]["tester_demand"] > 0.95 or run["evidence"]["gaps"] > 0.01
    assert {"tester cpu", "gaps"} & {each["code"] for each in run["reasons"]}


@pytest.mark.long
def test_a_quota_of_the_processor(lab: Lab) -> None:
    """20 % of a core, in slices of 100 ms, as a container has it."""
    group = Path(f"/sys/fs/cgroup/cpu/plimsoll-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("20000")
    except OSError:
        pytest.skip("needs a cgroup of version 1 for the processor, and root")
    process = lab.start("run", lab.file(CLOSED % ("0s", "5s")))
    try:
        wait_for(lambda: measured(lab))
        (group / "cgroup.procs").write_text(str(agent_of(process)))
        run = verdict(lab, process)
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text().strip())
        group.rmdir()
    assert run["evidence"]["gaps"] > 0.01 or run["evidence"]["tester_demand"] > 0.98


def test_a_generator_that_stands_still(lab: Lab) -> None:
    """4 s of 12, under a closed load: nothing was late by its schedule, and nothing was measured meanwhile."""
    process = lab.start("run", lab.file(CLOSED % ("1ms", "12s")))
    wait_for(lambda: measured(lab))
    agent = agent_of(process)
    os.kill(agent, signal.SIGSTOP)
    try:
        time.sleep(4)
    finally:
        with suppress(ProcessLookupError):
            os.kill(agent, signal.SIGCONT)
    run = verdict(lab, process)
    assert run["evidence"]["gaps"] > 0.25
    assert "gaps" in {each["code"] for each in run["reasons"]}


def test_a_target_that_is_too_slow_makes_no_run_invalid(lab: Lab) -> None:
    """Every slot waits for the server: the starts are late and many are missing, and the generator does nothing."""
    text = """
plimsoll: 1
services: {web: {kind: delay, time: 50ms, servers: 1}}
workload: {driver: http, target: web, http: {path: /}}
load: {rate: 200/s, in_flight: 10}
run: {duration: 4s, drain: 1s}
validity: {tester_cpu: 100%, gaps: 100%, lateness_floor: 100ms, trend: false}     # the machine of the tests may be busy
"""
    done = lab.run("run", lab.file(text))
    assert done.code == 0, done.err + done.out
    (run,) = json.loads((lab.results() / "analysis.json").read_text())["runs"]
    assert run["valid"] and run["evidence"]["started"] < 0.5
