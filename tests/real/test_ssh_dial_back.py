"""Hosts of kind ssh whose agents dial back, over TCP and QUIC: ssh starts them, and nothing hangs on it afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Lab, descendants_in
from tests.real.dial_in import Start, no_secret_stays, starting
from tests.real.sshd import Sshd, running_sshd
from tests.real.test_hosts_faults import (
    TIMEOUT_S,
    agent_of,
    agents_left,
    experiment,
    has_load,
    spools,
    started_by,
    summary_of,
    wait_for,
)

LINKS = ["tcp", "quic"]


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(tmp_path / "sshd") as found:
        yield found


@pytest.fixture
def start(lab: Lab, sshd: Sshd) -> Iterator[Start]:
    with starting(lab) as found:
        yield found


def nothing_left(sshd: Sshd, lab: Lab) -> None:
    """But the engine, which stays for the next time."""
    assert [path.name[:7] for path in sshd.home.rglob("*") if path.is_file()] == ["engine-"]
    assert not agents_left(sshd)
    no_secret_stays(lab.directory)


def events_of(results: Path, run: str = "0001") -> list[tuple[str, str]]:
    lines = (results / "runs" / run / "events.jsonl").read_text().splitlines()
    return [(event["kind"], event["text"]) for event in map(json.loads, lines)]


def repeated(path: Path, more: str) -> Path:
    path.write_text(path.read_text() + more)
    return path


@pytest.mark.parametrize("link", [pytest.param("tcp", marks=pytest.mark.long), "quic"])
def test_runs_are_shared_without_a_connection_of_ssh(sshd: Sshd, lab: Lab, start: Start, link: str) -> None:
    sites = {"near": ["h1"], "far": [{"host": "h2", "agents": 2}]}
    path = repeated(experiment(sshd, lab.directory, 5, link=link, sites=sites), "design: {repetitions: 2}\n")
    process = start(path)
    results = has_load(lab.directory)
    words = descendants_in(lab.directory)
    agents = [one for one in words if " agent --join - --name " in one]
    assert len(agents) == 3 and not any(one.startswith("ssh ") for one in words), words
    assert not any(b"time_key" in one.encode() for one in words)
    _, err = process.communicate(timeout=TIMEOUT_S * 2)
    assert process.returncode == 0, err
    for run in ("0001", "0002"):
        summary = json.loads((results / f"runs/{run}/summary.json").read_text())
        assert summary["balanced"] and not summary["damage"], summary["damage"]
        # Testers are dealt to the first agent of each host before the second.
        names = [(one["name"], one["host"], one["site"]) for one in summary["agents"]]
        assert names[:3] == [("h1", "h1", "near"), ("h2.1", "h2", "far"), ("h2.2", "h2", "far")]
        assert all(started_by(summary, name) > 50 for name, *_ in names[:3])
    nothing_left(sshd, lab)


@pytest.mark.long
def test_the_end_of_sshd_in_mid_run_costs_nothing(sshd: Sshd, lab: Lab, start: Start) -> None:
    process = start(experiment(sshd, lab.directory, 4, link="tcp"))
    results = has_load(lab.directory, 1)
    # Whoever asks it hangs from now on: a host to which ssh does not come through any more.
    os.kill(sshd.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: (results / "runs/0001/run.json").exists())
    finally:
        os.kill(sshd.pid, signal.SIGCONT)
    _, err = process.communicate(timeout=TIMEOUT_S * 2)
    assert process.returncode == 0, err
    summary = summary_of(results)
    assert summary["balanced"] and not [one for one in summary["agents"] if one["lost"]]
    assert not [event for event in events_of(results) if event[0].startswith(("agent-", "link-"))]
    nothing_left(sshd, lab)


@pytest.mark.long
def test_an_agent_that_is_killed_is_lost_and_the_next_run_has_it_again(
    sshd: Sshd, lab: Lab, start: Start
) -> None:
    path = repeated(experiment(sshd, lab.directory, 6, link="quic"), "design: {repetitions: 2}\n")
    path.write_text(path.read_text().replace("steal: 100%", "steal: 100%, started: 0%"))
    process = start(path)
    results = has_load(lab.directory)
    os.kill(agent_of(sshd, "h2"), signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT_S * 2)
    # 97 where so much of the record is still with the agent that the run says nothing: it outranks 98.
    assert process.returncode in (97, 98), err
    first, second = summary_of(results), json.loads((results / "runs/0002/summary.json").read_text())
    assert [one["name"] for one in first["agents"] if one["lost"]] == ["h2"]
    assert any(kind == "agent-lost" and "h2" in text for kind, text in events_of(results))
    assert second["balanced"] and not [one for one in second["agents"] if one["lost"]]
    assert started_by(second, "h2") > 50
    assert spools(sshd), "what was measured is kept"
    done = lab.run("collect", results)  # over ssh: whoever dialled had the key of an engine that is gone
    assert done.code == 0, done.out + done.err
    assert started_by(summary_of(results), "h2") > 50
    assert not spools(sshd)
    nothing_left(sshd, lab)


@pytest.mark.long
def test_a_killed_engine_is_replaced_and_agents_dial_the_new_one(sshd: Sshd, lab: Lab, start: Start) -> None:
    path = repeated(experiment(sshd, lab.directory, 5, link="tcp"), "design: {repetitions: 2}\n")
    process = start(path)
    results = has_load(lab.directory)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    [engine] = [
        pid for pid in children if b"control" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]
    os.kill(int(engine), signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT_S * 2)
    assert "run 0001: engine-lost" in err, err
    second = json.loads((results / "runs/0002/summary.json").read_text())
    assert second["status"] == "done" and second["balanced"]
    assert [one["name"] for one in second["agents"]] == ["h1", "h2", "h3", "lab"]
    done = lab.run("collect", results)
    assert done.code == 0, done.out + done.err
    nothing_left(sshd, lab)


@pytest.mark.long
def test_a_killed_lab_leaves_nothing(sshd: Sshd, lab: Lab, start: Start) -> None:
    process = start(experiment(sshd, lab.directory, 60, link="quic"))
    results = has_load(lab.directory)
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    wait_for(lambda: (results / "runs/0001/summary.json").exists() and not agents_left(sshd))
    assert summary_of(results)["balanced"]
    wait_for(lambda: not [path for path in spools(sshd) if any(one.is_file() for one in path.rglob("*"))])


def test_an_interrupt_while_agents_are_awaited_leaves_nothing(sshd: Sshd, lab: Lab, start: Start) -> None:
    # Nobody reaches this host at an address of which it knows nothing.
    told = {"address": "192.0.2.1"}
    process = start(experiment(sshd, lab.directory, 5, link="tcp", controller=told))
    agent_of(sshd, "h2")
    since = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130 and time.monotonic() - since < 20, err
    nothing_left(sshd, lab)


@pytest.mark.long
def test_ports_and_addresses_that_do_not_lead_here_are_said(sshd: Sshd, lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = {"address": "127.0.0.1", "ports": port}
        done = lab.run("run", experiment(sshd, lab.directory, 2, link="tcp", controller=told), "--quiet")
        assert done.code == 1 and "the engine rejects the command: " in done.err and str(port) in done.err, (
            done.err
        )
    told = {"address": "192.0.2.1", "ports": "4000..4100"}
    path = experiment(sshd, lab.directory, 2, link="tcp", controller=told)
    done = lab.run("hosts", "check", path)
    assert done.code == 1, done.out + done.err
    said = "h1: left out: its agent did not connect to 192.0.2.1 within 25 s: no link to the controller of experiment"
    assert said in done.out and "tcp 192.0.2.1:4" in done.out, done.out
    assert "0 of 3 hosts can be used, at least 3 are required" in done.out
    nothing_left(sshd, lab)


@pytest.mark.parametrize("link", LINKS)
def test_hosts_are_checked_by_the_way_that_agents_will_go(sshd: Sshd, lab: Lab, link: str) -> None:
    sites = {"near": ["h1", {"host": "127.0.0.1", "port": 1, "name": "dead"}]}
    path = experiment(sshd, lab.directory, 2, link=link, sites=sites)
    done = lab.run("hosts", "check", path, "--json")
    assert done.code == 1, done.err
    near, dead = done.json["checks"][0]["hosts"]
    assert near["taken"] and near["facts"]["rtt_ns"]["min"] > 0
    assert not dead["taken"] and dead["reason"].startswith("it cannot be reached")
    nothing_left(sshd, lab)


def test_the_address_that_agents_dial_must_be_said(sshd: Sshd, lab: Lab) -> None:
    done = lab.run("plan", experiment(sshd, lab.directory, 2, link="quic", controller=None))
    assert done.code == 2
    assert "hosts.link: with link: quic agents dial this host: give the address" in done.err
