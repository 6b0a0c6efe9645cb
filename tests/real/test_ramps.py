"""A ramp whose testers start at intervals, with the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from plimsoll.plan import make_plan, parse_experiment
from tests.conftest import Lab

RAMP = """
plimsoll: 1
name: ramp
services: {web: {kind: delay, servers: 8, time: 5ms}}
workload: {driver: http, target: web, timeout: 5s, http: {path: /}}
load: {ramp: {testers: 4, every: 500ms, life: 2s}, every: 100ms, late: skip}
factors: {services.web.time: [5ms, 250ms]}
design: {seed: 5, order: listed}
run: {drain: 1s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""
STAGES = """
plimsoll: 1
name: stages
services: {web: {kind: echo}}
workload: {driver: http, target: web, timeout: 5s}
load:
  every: 100ms
  late: skip
  stages: [{for: 1s, testers: 2}, {for: 1s, testers: 5}, {for: 1s, testers: 1}]
run: {drain: 1s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}
"""
TESTERS, JOIN, LIFE, EVERY = 4, 500_000_000, 2_000_000_000, 100_000_000
NEAR = 10_000_000
"""Maximum error of the map of the agent's clock in a short run, ns."""
LATE = 400_000_000
"""Maximum lateness of a start on a busy machine, ns."""


@pytest.mark.alone
def test_testers_join_as_planned_keep_their_interval_and_leave(lab: Lab) -> None:
    done = lab.run("run", lab.file(RAMP), "--json")
    assert done.code == 0, done.err + done.out
    quick, slow = done.json["runs"]
    planned = make_plan(parse_experiment(RAMP, "x", lab.directory, (), {}), 5).estimate.transactions / 2
    _check_starts(lab.results() / "runs" / "0001", quick, planned)
    _check_steps(quick)
    _check_slow(lab.results() / "runs" / "0002", slow, planned)


@pytest.mark.long
def test_testers_of_stages_keep_their_interval_and_their_offset(lab: Lab) -> None:
    done = lab.run("run", lab.file(STAGES), "--json")
    assert done.code == 0, done.err + done.out
    (run,) = done.json["runs"]
    tester, scheduled = _scheduled(lab.results() / "runs" / "0001")
    active = {0: (0, 3), 1: (0, 2), 2: (1, 2), 3: (1, 2), 4: (1, 2)}
    for number, (begin, end) in active.items():
        own = np.sort(scheduled[tester == number])
        assert begin * 1e9 - NEAR < own[0] < begin * 1e9 + EVERY + NEAR
        assert end * 1e9 - 2 * EVERY - LATE < own[-1] < end * 1e9 + NEAR
        # A slot that a busy machine delays is skipped; the next one is at the tester's own offset again.
        phases = (own - own[0] + EVERY / 2) % EVERY - EVERY / 2
        assert np.median(np.abs(phases)) < NEAR
    assert len(tester) + run["counts"]["missed"] == 10 * (3 + 2 + 3 * 1)
    assert [stage["name"] for stage in run["stages"]] == ["stage-1", "stage-2", "stage-3"]


def _scheduled(run: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tester and planned start of each transaction, from the start of the agent."""
    tester, early, start = _columns(run, "tester", "scheduled", "start")
    return tester, start + early - (start + early).min()


def _columns(run: Path, *names: str) -> list[NDArray[np.int64]]:
    rows = pq.read_table(run / "transactions.parquet", columns=list(names)).to_pydict()
    return [np.array(rows[name], dtype=np.int64) for name in names]


def _check_starts(directory: Path, run: dict[str, Any], planned: float) -> None:
    """A tester starts when it joins, then once in each interval, until its life ends."""
    tester, early, start = _columns(directory, "tester", "scheduled", "start")
    assert len(tester) + run["counts"]["missed"] == planned
    scheduled = start + early
    zero = scheduled.min()  # the start of the agent, on the clock of the controller
    for number in range(TESTERS):
        own = np.sort(scheduled[tester == number]) - zero
        joined = number * JOIN
        assert abs(own[0] - joined) < NEAR
        assert joined + LIFE - 2 * EVERY - LATE < own[-1] < joined + LIFE + NEAR
        # A slot that a busy machine delays is skipped, or starts when the transaction before it has ended.
        gaps = np.diff(own)
        assert np.mean(np.abs(gaps[1:] - EVERY) < NEAR) > 0.7, gaps
        assert EVERY - NEAR < gaps[0] < 2 * EVERY + LATE
    assert np.median(-early) < LATE


def _check_steps(run: dict[str, Any]) -> None:
    """1, 2, 3 testers for 0.5 s each, 4 for 0.5 s, and 3, 2, 1 again: no step alone has a second."""
    steps = run["ramp"]["steps"]
    names = ("start_s", "end_s", "load_low", "load_high")  # the run ends when its last tester has ended
    loads = [tuple(round(step[name], 1) for name in names) for step in steps]
    assert loads == [(0.0, 1.5, 1, 3), (1.5, 2.0, 4, 4), (2.0, 3.5, 1, 3)]
    assert [step["merged"] for step in steps] == [3, 1, 3]
    assert 10 < steps[0]["throughput_per_s"] < 30 < steps[1]["throughput_per_s"] < 45


def _check_slow(directory: Path, run: dict[str, Any], planned: float) -> None:
    """Transactions of 250 ms in slots of 100 ms: the next starts when one ends, and the slots between are missed."""
    tester, start, end = _columns(directory, "tester", "start", "end")
    assert len(tester) + run["counts"]["missed"] == planned
    for number in range(TESTERS):
        own = tester == number
        began, ended = np.sort(start[own]), np.sort(end[own])
        assert began[-1] < number * JOIN + LIFE + LATE, "no start after the life"
        assert (began[1:] >= ended[:-1]).all(), "one transaction at a time"
        assert 4 <= len(began) <= 8
