"""Hosts of kind join: agents that a batch system starts with a token, here a shell script that starts real ones."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab, descendants_in
from tests.real.dial_in import (
    Start,
    carried,
    events,
    experiment,
    finish,
    measuring,
    no_secret_stays,
    starting,
    summary,
    until,
)

TEMPLATE = """\
#!/bin/sh
# ${{token}} is the shell's, {{other}} is nobody's
i=0
while [ $i -lt {count} ]; do
  i=$((i+1))
  setsid {{engine}} agent --join {{token}} --name {{name}}.$i --directory "$PWD/agent.$i" >>agents.log 2>&1 </dev/null &
  echo $! >agent.$i.pid
done
"""


def submitting(lab: Lab, hosts: str = "", *, agents: int = 2, start: str = "{count}", **more: object) -> Path:
    """An experiment whose agents a script starts. `start`: how many it does start."""
    (lab.directory / "job.sh").write_text(TEMPLATE.format(count=start))
    lines = f'kind: join\njoin: {{agents: {agents}, template: job.sh, submit: [sh, "{{file}}"]}}\n{hosts}'
    return lab.file(experiment(lines, **more))  # type: ignore[arg-type]


@pytest.fixture
def start(lab: Lab) -> Iterator[Start]:
    with starting(lab) as found:
        yield found


def nothing_left(lab: Lab) -> None:
    assert not descendants_in(lab.directory)
    assert not list(lab.directory.glob("agent.[0-9]")), "directories of agents"
    assert not list(lab.directory.rglob("token")) and not list(lab.directory.rglob(".work"))
    no_secret_stays(lab.directory)


def test_a_script_brings_agents_that_carry_all_runs(lab: Lab) -> None:
    done = lab.run("run", submitting(lab, agents=3, repetitions=2))
    assert done.code == 0, done.err
    assert "agents: 3 of 3 agents connected" in done.err
    for run in ("0001", "0002"):
        books = summary(lab.results(), run)
        assert books["balanced"] and not books["damage"]
        assert [one["name"] for one in carried(lab.results(), run)] == ["join.1", "join.2", "join.3"]
        assert {(one["host"], one["site"]) for one in carried(lab.results(), run)} == {
            (os.uname().nodename, "join")
        }
        assert all(one["books"]["counters"]["succeeded"] > 0 for one in carried(lab.results(), run))
    nothing_left(lab)


def test_without_a_batch_system_it_says_what_to_start(lab: Lab, start: Start) -> None:
    path = lab.file(experiment("kind: join\njoin: {agents: 2}\nlink: quic"))
    process = start(path)
    agents: list[subprocess.Popen[bytes]] = []
    try:
        until("token", lambda: list(lab.directory.glob("results/*/.work/hosts/join/token")))
        [token] = lab.directory.glob("results/*/.work/hosts/join/token")
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
        for name in ("here", "there"):
            words: list[str | Path] = [find_engine(), "agent", "--join", "-", "--name", name, "--directory"]
            with token.open("rb") as stdin:
                agents.append(subprocess.Popen([*words, lab.directory / f"agent-{name}"], stdin=stdin))
        done = finish(process)
        assert done.code == 0, done.err
        told = re.search(r"start 2 agents, .*?\n +(\S+) agent --join (\S+) --name NAME", done.err)
        assert told and told[2] == str(token)
        assert [one["name"] for one in carried(lab.results())] == ["here", "there"]
        assert [agent.wait(10) for agent in agents] == [0, 0]
    finally:
        for one in agents:
            one.kill()
            one.wait()
    nothing_left(lab)


@pytest.mark.long
def test_those_that_come_are_enough_or_not(lab: Lab) -> None:
    done = lab.run("run", submitting(lab, "wait: 2s\nat_least: 2", agents=3, start="2"))
    assert done.code == 0, done.err
    assert "host-left-out: agent 3 of 3: it did not connect within 2 s" in done.err
    assert len(carried(lab.results())) == 2
    nothing_left(lab)
    done = lab.run("run", submitting(lab, "wait: 2s", agents=3, start="2"))
    assert done.code == 98
    assert (
        "2 of 3 agents can be used, at least 3 are required: agent 3 of 3: it did not connect within 2 s"
        in done.err
    )
    nothing_left(lab)
    assert len(list((lab.directory / "results").glob("far-*"))) == 1, "what never began leaves no directory"


@pytest.mark.long
def test_two_agents_of_one_name_do_not_put_each_other_out(lab: Lab) -> None:
    path = submitting(lab, "wait: 5s", agents=2)
    script = lab.directory / "job.sh"
    script.write_text(script.read_text().replace("{name}.$i", "same"))
    done = lab.run("run", path)
    assert done.code == 98, done.err
    said = " ".join(done.err.split())
    assert "1 of 2 agents can be used, at least 2 are required" in said
    assert "it did not connect within 5 s" in said
    assert "an agent named same may not take part: another agent with this name is connected" in said
    # Whoever was turned away ends by itself, before its grace is over.
    until("their end", lambda: not descendants_in(lab.directory), 40)
    assert "another agent has the same name" in (lab.directory / "agents.log").read_text()
    path.write_text(path.read_text().replace("wait: 5s", "wait: 5s\n  at_least: 1"))
    done = lab.run("run", path)
    assert done.code == 0, done.err
    assert [one["name"] for one in carried(lab.results())] == ["same"]
    assert any(one["kind"] == "agent-refused" for one in events(lab.results()))
    until("their end", lambda: not descendants_in(lab.directory), 40)
    nothing_left(lab)


def test_an_agent_that_is_killed_is_lost(lab: Lab, start: Start) -> None:
    process = start(submitting(lab, duration="8s"))
    until("measuring", measuring(lab, process))
    live = lab.results() / "runs" / "0001" / "live.jsonl"
    until("some seconds", lambda: len(live.read_text().splitlines()) > 4)  # batches of it are on disk
    pid = int((lab.directory / "agent.2.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    done = finish(process)
    assert done.code == 98, done.err
    assert [one["lost"] for one in carried(lab.results())] == [False, True]
    assert any(one["kind"] == "agent-lost" and "join.2" in one["text"] for one in events(lab.results()))
    assert not descendants_in(lab.directory)
    assert [path.name for path in lab.directory.glob("agent.[0-9]")] == ["agent.2"], (
        "what it measured is kept"
    )
    done = lab.run("collect", lab.results())
    assert done.code == 0, done.out + done.err
    assert carried(lab.results())[1]["books"]["counters"]["started"] > 0, "brought in by one of its name"
    assert lab.run("collect", lab.results()).out.endswith("no measurements are missing\n")
    nothing_left(lab)


@pytest.mark.long
def test_nobody_is_taken_for_having_brought_in_what_is_elsewhere(lab: Lab, start: Start) -> None:
    path = submitting(lab, duration="6s")
    process = start(path)
    until("measuring", measuring(lab, process))
    os.kill(int((lab.directory / "agent.2.pid").read_text()), signal.SIGKILL)
    assert finish(process).code == 98
    (lab.directory / "agent.2").rename(lab.directory / "elsewhere")
    for _ in range(2):
        done = lab.run("collect", lab.results())
        assert done.code == 98, done.out + done.err
        assert "join.2: the agent with this name has no data of this run" in done.out


@pytest.mark.long
def test_a_run_after_a_loss_takes_those_that_are_left(lab: Lab, start: Start) -> None:
    process = start(submitting(lab, "at_least: 1", duration="5s", repetitions=2))
    until("measuring", measuring(lab, process))
    os.kill(int((lab.directory / "agent.2.pid").read_text()), signal.SIGKILL)
    done = finish(process)
    assert done.code == 98, done.err
    second = summary(lab.results(), "0002")
    assert second["balanced"] and [one["name"] for one in carried(lab.results(), "0002")] == ["join.1"]


def test_an_interrupt_while_it_waits_leaves_nothing(lab: Lab, start: Start) -> None:
    process = start(submitting(lab, agents=3, start="1"))
    until("an agent", lambda: (lab.directory / "agent.1").exists())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    done = finish(process, 20)
    assert done.code == 130, done.err
    until("the agent's end", lambda: not descendants_in(lab.directory), 10)
    nothing_left(lab)
    assert not list((lab.directory / "results").glob("far-*"))


def test_who_waits_for_hosts_is_seen_and_can_be_stopped(lab: Lab, start: Start) -> None:
    process = start(submitting(lab, "wait: 1h", agents=3, start="1"))
    until("an agent", lambda: (lab.directory / "agent.1").exists())
    [results] = (lab.directory / "results").glob("far-*")
    waits = f"{results}: in preparation, or waiting for its hosts (pid {process.pid})\n"
    assert lab.run("status").out == waits and lab.run("status", results).out == waits
    done = lab.run("stop", results)
    assert (done.code, done.out) == (0, f"stopped {results}\n"), done.err
    assert finish(process, 5).code == 130
    until("the agent's end", lambda: not descendants_in(lab.directory), 10)
    nothing_left(lab)
    assert lab.run("status").out == "no experiment of yours runs on this host\n"


def test_the_end_of_the_lab_is_the_end_of_the_agents(lab: Lab, start: Start) -> None:
    process = start(submitting(lab, duration="60s"))
    until("measuring", measuring(lab, process))
    process.kill()
    process.communicate()
    until("the agents' end", lambda: not descendants_in(lab.directory), 30)


@pytest.mark.parametrize(
    ("join", "said"),
    [
        ('{agents: 1, template: job.sh, submit: ["false", "{file}"]}', "the command failed: it ended with exit"),
        ('{agents: 1, template: job.sh, submit: ["no-such", "{file}"]}', "the command cannot be started: No such file"),
        ('{agents: 1, template: job.sh, submit: [sh, -c, "echo full >&2; exit 3 # {file}"]}', "failed: full"),
        ('{agents: 1, template: empty.sh, submit: [sh, "{file}"]}', 'template: the template must contain "{token}"'),
    ],
)  # fmt: skip
def test_what_cannot_be_handed_in_is_said(lab: Lab, join: str, said: str) -> None:
    (lab.directory / "empty.sh").write_text("echo token\n")
    submitting(lab)
    done = lab.run("run", lab.file(experiment(f"kind: join\njoin: {join}")))
    assert done.code == 2 and said in done.err, done.err
    nothing_left(lab)


def test_the_address_that_agents_dial_must_be_said(lab: Lab) -> None:
    text = experiment("kind: join\njoin: {agents: 1}").replace("  controller: {address: 127.0.0.1}\n", "")
    done = lab.run("plan", lab.file(text))
    assert done.code == 2
    assert "experiment.yaml:9: hosts: agents of kind join dial in: give the address of this host" in done.err
    assert done.err.count("experiment.yaml") == 1, "said once"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = experiment("kind: join\njoin: {agents: 1}").replace(
            "127.0.0.1}", f"127.0.0.1, ports: {port}}}"
        )
        done = lab.run("run", lab.file(text))
        assert done.code == 1 and "the engine rejects the command: " in done.err and str(port) in done.err, (
            done.err
        )
    nothing_left(lab)


def test_hosts_that_dial_in_are_checked(lab: Lab) -> None:
    path = submitting(lab)
    done = lab.run("hosts", "check", path, "--json", "--baseline")
    assert done.code == 0, done.err
    [told] = done.json["checks"]
    assert [one["name"] for one in told["hosts"]] == ["join.1", "join.2"]
    for one in told["hosts"]:
        assert one["taken"] and one["facts"]["cores"] > 0 and one["facts"]["baseline"]["cpu_per_s"] > 0
    nothing_left(lab)
    done = lab.run("hosts", "clean", path)
    assert done.code == 0 and "no process or file of Plimsoll is left" in done.out


@pytest.mark.long
def test_the_network_of_hosts_that_dial_in_is_measured(lab: Lab) -> None:
    done = lab.run("run", submitting(lab, 'baseline: true\nrequire: {network: ">=1kbit/s"}'))
    assert done.code == 0, done.err
    document = json.loads((lab.results() / "baseline.json").read_text())
    assert [measurement["when"] for measurement in document["measurements"]] == ["before", "after"]
    for measurement in document["measurements"]:
        assert [host["agent"] for host in measurement["hosts"]] == ["join.1", "join.2"]
        assert all(path["send_bytes_s"] > 0 for host in measurement["hosts"] for path in host["paths"])
    nothing_left(lab)


@pytest.mark.long
def test_an_engine_that_is_killed_is_replaced_and_agents_come_anew(lab: Lab, start: Start) -> None:
    path = submitting(lab, repetitions=2, duration="4s")
    template = lab.directory / "job.sh"
    template.write_text(template.read_text().replace('"$PWD/agent.$i"', '"$(mktemp -d)"'))
    lab.env["TMPDIR"] = str(lab.directory)
    process = start(path)
    until("measuring", measuring(lab, process))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    [engine] = [
        int(pid)
        for pid in children
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [b"control"]
    ]
    os.kill(engine, signal.SIGKILL)
    done = finish(process)
    assert "run 0001: engine-lost" in done.err, done.err
    second = summary(lab.results(), "0002")
    assert second["balanced"] and second["status"] == "done"
    assert [one["name"] for one in carried(lab.results(), "0002")] == ["join.1", "join.2"]
    until("the agents' end", lambda: not descendants_in(lab.directory), 20)


def test_the_kind_of_hosts_can_be_a_factor(lab: Lab) -> None:
    path = submitting(lab)
    done = lab.run("run", lab.file(path.read_text() + "factors: {hosts.kind: [local, join]}\n"))
    assert done.code == 0, done.err
    names = sorted([one["name"] for one in carried(lab.results(), run)] for run in ("0001", "0002"))
    assert names == [["join.1", "join.2"], ["local"]]
    nothing_left(lab)
