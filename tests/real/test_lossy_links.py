"""Agents behind a link of 315 ms that loses 5 % of the frames in each direction: all that they measured arrives."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab
from tests.real.emulated import VALIDITY, Emulated, emulated, record, summary, wait_for

BED = """
testbed: 1
name: lossy
lab: here
sites: {here: {hosts: 0}, far: {hosts: 2}}
links: [{between: [here, far], rtt: 1ms}]
"""


@pytest.fixture
def bed(lab: Lab) -> Iterator[Emulated]:
    with emulated(lab, BED) as found:
        yield found


def experiment(bed: Emulated, **hosts: object) -> Path:
    told = {"controller": {"address": bed.bed.lab_address}, "directory": str(bed.directory), **hosts}
    return bed.lab.file(f"""
plimsoll: 1
name: lossy
services: {{web: {{kind: echo}}}}
workload: {{driver: http, target: web, timeout: 60s}}
load: {{testers: 8, think: 50ms}}
run: {{duration: 6s, drain: 20s}}
validity: {VALIDITY}
hosts: {json.dumps(told)}
""")


def worsen(bed: Emulated) -> None:
    """Once the engine is there: 31 MB over such a link would be another test."""
    words = ("testbed", "link", bed.bed.name, "here", "far", "--rtt", "315ms", "--loss", "5%")
    done = Lab(bed.lab.directory).run(*words)
    assert done.code == 0, done.err


def all_is_there(bed: Emulated, agents: int) -> None:
    """As many as the service has counted, over links that did lose frames."""
    run = bed.lab.results() / "runs" / "0001"
    books = summary(run)
    assert books["balanced"] and not books["damage"], books["damage"]
    [web] = record(run)["services"]
    assert len(books["agents"]) == agents + 1
    assert books["rows"]["counters"] == books["counters"]
    assert 0 < books["counters"]["succeeded"] <= web["counters"]["answered"] <= books["counters"]["started"]
    for one in books["agents"][:-1]:
        assert one["books"]["counters"]["started"] > 0 and not one["lost"]
    links = [link for link in bed.bed.status()["links"] if link["from"] != link["to"]]
    assert len(links) == 2 and all(link["lost_packets"] > 0 for link in links), links


@pytest.mark.long
@pytest.mark.timeout(300)
def test_over_ssh(bed: Emulated) -> None:
    file = experiment(bed, kind="ssh", hosts=["far-1", "far-2"], ssh={"config": str(bed.bed.ssh_config)})
    done = bed.lab.run("hosts", "check", file)
    assert done.code == 0, done.out + done.err
    worsen(bed)
    done = bed.lab.run("run", "--no-probe", file, "--quiet")
    assert done.code == 0, done.err
    all_is_there(bed, 2)


@pytest.mark.timeout(300)
@pytest.mark.long
def test_over_quic(bed: Emulated) -> None:
    worsen(bed)
    process = bed.lab.start(
        "run", "--no-probe", experiment(bed, kind="join", link="quic", join={"agents": 2})
    )
    results = bed.lab.directory / "results"
    [token] = wait_for("the token", lambda: list(results.glob("*/.work/hosts/join/token")))
    agents: list[subprocess.Popen[bytes]] = []
    try:
        for host in ("far-1", "far-2"):
            words = ["agent", "--join", "-", "--name", host, "--directory", f"{bed.directory}-{host}"]
            with token.open("rb") as stdin:
                agents.append(
                    subprocess.Popen([*bed.bed.enter_argv(host), find_engine(), *words], stdin=stdin)
                )
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        assert [agent.wait(30) for agent in agents] == [0, 0]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    all_is_there(bed, 2)
    assert not list(bed.directory.parent.glob("hosts-*")), "directories of agents"
