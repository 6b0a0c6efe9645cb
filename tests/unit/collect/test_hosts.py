"""Agents, clocks and round trips of a run as they are read; also old results and damaged files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.hosts_made import MS, Made, S, make

from plimsoll.collect import hosts
from plimsoll.collect.check import check
from plimsoll.collect.hosts import RunAgents, cores_of_hosts, owners, read_agents, read_round_trips
from plimsoll.collect.results import open_results
from plimsoll.errors import DamagedResults

DATA = Path(__file__).resolve().parents[2] / "data"


def crew(path: Path) -> RunAgents:
    return read_agents(open_results(path).runs[0])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return make(tmp_path / "results", Made(seconds=4, testers=1, lost={"f3": 2.0}))


def test_a_run_of_many_agents(made: Path) -> None:
    run_agents = crew(made)
    assert run_agents.several and run_agents.t0_ns == 5_000 * S
    assert [agent.name for agent in run_agents.agents] == [
        "n1",
        "n2",
        "n3",
        "n4",
        "m1",
        "m2",
        "m3",
        "f1",
        "f2",
        "f3",
    ]
    far = run_agents.agents[-1]
    assert (far.site, far.host, far.lost, far.lost_ns) == ("far", "f3", True, 2 * S)
    assert far.clock.bound_ns == 157_750_000 and far.clock.started_ns == 270_000
    assert sorted(far.trips.tolist()) == [315 * MS + extra * 10_000 for extra in range(4)]
    assert run_agents.agents[-3].via == {"link": 4}
    assert run_agents.live_started is not None and run_agents.live_started >= run_agents.started > 0


def test_an_old_result_has_one_agent_with_the_controllers_clock() -> None:
    run_agents = crew(DATA / "results-v1")
    assert not run_agents.several
    (only,) = run_agents.agents
    assert (only.name, only.site, only.clock.same, only.clock.bound_ns, only.lost) == (
        "local",
        "local",
        True,
        0,
        False,
    )


def test_a_real_run_over_ssh_that_lost_an_agent() -> None:
    """Three agents over a real sshd; one was killed during the run, and its segments were not fetched."""
    results = open_results(DATA / "results-hosts-v1")
    run_agents = read_agents(results.runs[0])
    assert [(agent.name, agent.site, agent.lost, agent.rows) for agent in run_agents.agents] == [
        ("h1", "a", False, 322),
        ("h2", "a", True, 0),
        ("h3", "b", False, 323),
    ]
    assert run_agents.agents[1].clock.bound_ns is None and run_agents.agents[1].clock.remark
    assert all(agent.trips.size and agent.trips.min() > 0 for agent in run_agents.agents if not agent.lost)
    assert cores_of_hosts(results.environment) == {"h1": 2, "h2": 2, "h3": 2}
    assert results.runs[0].transactions is not None
    assert owners(results.runs[0].transactions, 7) == ["h1", "", "h3", "h1", "", "h3", ""]
    assert any("h2 is lost" in finding.what for finding in check(results))


def test_round_trips_are_those_of_the_window(made: Path) -> None:
    metrics = made / "runs" / "0001" / "metrics.parquet"
    tester, value = read_round_trips(metrics, 1 * S, 3 * S)
    near, far = value[tester == 0], value[tester == 7]
    assert near.size > 5 and far.size
    assert np.median(near) == pytest.approx(0.0003, abs=1e-5) and np.median(far) == pytest.approx(
        0.315, abs=1e-5
    )
    assert read_round_trips(made / "none.parquet", 0, S)[0].size == 0


def test_at_most_max_trips_probes_are_read(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MAX_TRIPS", 20)
    assert sum(agent.trips.size for agent in crew(made).agents) == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "plimsoll.clock-map/2"}, "use a newer Plimsoll"),
        ({"format": "plimsoll.clock/1"}, "not a plimsoll.clock-map file"),
        ({"t0_ns": "soon"}, "t0_ns"),
        ({"agents": {"n1": {"bound_ns": -1}}}, "agents.n1.bound_ns"),
        ({"agents": {"n1": {"pieces": [{"from_ns": 1}]}}}, "agents.n1.pieces.0.to_ns"),
        ({"agents": []}, "agents"),
    ],
)
def test_an_invalid_clock_map_is_refused(made: Path, change: dict[str, Any], message: str) -> None:
    path = made / "runs" / "0001" / "clock.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedResults) as caught:
        crew(made)
    assert message in str(caught.value) and "clock.json" in str(caught.value)


def test_a_file_that_is_no_table_is_refused(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made / "runs" / "0001"
    (run / "probes.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DamagedResults, match="probes"):
        crew(made)
    shutil.copy(run / "metrics.parquet", run / "probes.parquet")
    with pytest.raises(DamagedResults, match=r"plimsoll\.probes"):
        crew(made)
    (run / "probes.parquet").unlink()
    monkeypatch.setattr(hosts, "MAX_CLOCK_BYTES", 1000)
    with pytest.raises(DamagedResults, match="too large for a clock map"):
        crew(made)
    assert any("too large for a clock map" in finding.what for finding in check(open_results(made)))
