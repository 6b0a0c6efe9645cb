"""The network of the testers' hosts is measured before and after an experiment, over emulated links of known rate and
round trip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.hosts import Agent
from plimsoll.deploy.network import lab_sink, measure_paths
from plimsoll.deploy.ports import LOOPBACK, free_port
from plimsoll.deploy.talk import EngineTalk
from plimsoll.deploy.testbed import down, running_testbeds
from plimsoll.plan.sections.baseline import LAB, PathEnd
from tests.conftest import Lab
from tests.real import test_testbed
from tests.real.sshd import running_sshd

BED = """\
testbed: 1
name: paths
lab: here
sites: {near: {hosts: 1}, here: {hosts: 0}, far: {hosts: 1}}
links:
  - {between: [here, near], rtt: 1ms, rate: 200Mbit/s}
  - {name: far, between: [here, far], rtt: 20ms, rate: 20Mbit/s}
"""
EXPERIMENT = """\
plimsoll: 1
name: paths
services: {{web: {{kind: echo{placed}}}}}
targets: {{site: {{endpoints: [web]}}}}
workload: {{driver: http, target: site}}
load: {{testers: 2, think: 50ms}}
run: {{duration: 2s, drain: 5s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
{more}
hosts: {{kind: testbed, testbed: bed.yaml, directory: {directory}/hosts, baseline: true{keys}}}
"""
home = test_testbed.home


@pytest.fixture
def bed(home: Path, lab: Lab) -> Iterator[Path]:
    lab.env["XDG_RUNTIME_DIR"] = str(home)
    yield lab.file(BED, "bed.yaml")
    left = running_testbeds()
    for one in left:
        down(one.name)
    assert not left, "a testbed is left"


def experiment(lab: Lab, keys: str = "", more: str = "", placed: str = "") -> Path:
    return lab.file(EXPERIMENT.format(directory=lab.directory, keys=keys, more=more, placed=placed))


def measurements(lab: Lab) -> list[dict[str, dict[str, Any]]]:
    """The path of each host to its only end, at each time."""
    document = json.loads((lab.results() / "baseline.json").read_text())
    assert document["format"] == "plimsoll.baseline/1"
    assert [each["when"] for each in document["measurements"]] == ["before", "after"]
    found = []
    for measurement in document["measurements"]:
        assert all(len(host["paths"]) == 1 for host in measurement["hosts"])
        found.append({host["host"]: host["paths"][0] for host in measurement["hosts"]})
    return found


def assert_link(path: dict[str, Any], rate_mbit: float, rtt_ms: float) -> None:
    for way in ("send", "receive"):
        assert 0.85 * rate_mbit <= path[f"{way}_bytes_s"] * 8e-6 <= rate_mbit, path
    assert rtt_ms <= path["rtt_min_ns"] / 1e6 <= rtt_ms + 1, path


@pytest.mark.long
def test_a_link_that_an_action_slows_down_is_reported_as_a_changed_pool(lab: Lab, bed: Path) -> None:
    action = "actions: [{at: 1s, link: {name: far, rate: 5Mbit/s}}]"
    done = lab.run("run", experiment(lab, more=action))
    assert done.code == 0, done.err
    before, after = measurements(lab)
    assert_link(before["far-1"], 20, 20)
    assert before["far-1"]["to"] == "lab" and before["far-1"]["is_target"]
    assert after["far-1"]["tries"] == 3 and after["far-1"]["send_bytes_s"] * 8e-6 < 6.5
    answer = " ".join(done.out.split())
    assert "The pool changed: the network of 1 of 2 hosts of testers was worse" in answer, done.out
    assert "far-1 (throughput to lab fell from 19" in answer, done.out
    analysis = json.loads((lab.results() / "analysis.json").read_text())
    worse = {path["host"]: path["worse"] for path in analysis["pool"]["paths"]}
    assert worse == {"near-1": [], "far-1": ["send", "receive"]}, worse
    assert analysis["pool"]["changed"] and analysis["pool"]["rule"]["name"] == "hosts.pool"
    done = lab.run("report", lab.results())
    assert done.code == 0, done.err
    page = (lab.results() / "report.html").read_text()
    assert "Network of the hosts" in page and "Throughput before" in page


@pytest.mark.long
def test_links_as_factors_change_no_pool_and_paths_lead_to_hosts_of_services(lab: Lab, bed: Path) -> None:
    """The first and the last run have different rates by plan. The service runs at the near site."""
    factor = "factors: {hosts.links.far.rate: [20Mbit/s, 5Mbit/s]}\ndesign: {order: listed}"
    keys = ", sites: {far: [far-1], near: [{host: near-1, agents: 0}]}"
    done = lab.run("run", experiment(lab, keys, factor, ", host: near-1"))
    assert done.code == 0, done.err
    before, after = measurements(lab)
    assert set(before) == {"far-1"} and before["far-1"]["to"] == "near-1"
    for path in (before["far-1"], after["far-1"]):
        assert_link(path, 20, 21)
    assert "The pool changed" not in done.out, done.out
    run = json.loads((lab.results() / "analysis.json").read_text())["runs"][0]
    used = [entry for entry in run["utilization"] if entry.startswith("far-1") or entry == "testers' host"]
    assert used and 0 < run["utilization"][used[0]]["detail"]["link eth0"] < 0.5, run["utilization"]


@pytest.mark.long
def test_a_host_with_too_little_throughput_is_left_out(lab: Lab, bed: Path) -> None:
    done = lab.run("run", experiment(lab, ', at_least: 1, require: {network: ">=50Mbit/s"}'))
    assert done.code == 0, done.err
    assert "far-1: its network throughput to lab is 19" in done.out + done.err, done.err
    environment = json.loads((lab.results() / "environment.json").read_text())
    reasons = {host["name"]: host["reason"] for host in environment["hosts"]}
    assert not reasons["near-1"] and reasons["far-1"].endswith("required is >=50Mbit/s"), reasons
    run = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert "far-1" not in run["agents"] and "near-1" in run["agents"]
    before, after = measurements(lab)
    assert set(before) == {"near-1", "far-1"} and set(after) == {"near-1"}


def test_paths_are_measured_by_an_agent(tmp_path: Path) -> None:
    agent = Agent("here", "here", "site", {"kind": "local"})
    closed = f"127.0.0.1:{free_port()}"
    ends = {"here": (PathEnd(LAB, "lab"), PathEnd(closed, "system", address=closed))}
    with (
        lab_sink(find_engine(), tmp_path / "work", LOOPBACK, None) as reached,
        EngineTalk(find_engine()) as talk,
    ):
        measured = measure_paths(talk, [agent], ends, {LAB: reached})["here"]
    to_lab, to_system = measured.paths
    assert not measured.error and not to_lab.error, measured
    assert to_lab.rtt_min_ns and to_lab.throughput_bytes_s, to_lab
    assert to_system.rtt_min_ns and to_system.throughput_bytes_s is None and not to_system.error, to_system


@pytest.mark.long
def test_hosts_check_measures_a_required_network(lab: Lab, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd") as sshd:
        config = sshd.aliases("h1")
        file = lab.file(
            f"hosts: 1\nkind: ssh\nsites: {{s: [h1]}}\nssh: {{config: {config}}}\ndirectory: {lab.directory}/hosts\n"
            'controller: {address: 127.0.0.1}\nbaseline: true\nrequire: {network: ">=900Gbit/s"}\n',
            "hosts.yaml",
        )
        done = lab.run("hosts", "check", file, "--json")
    assert done.code == 1, done.err
    (host,) = done.json["checks"][0]["hosts"]
    assert host["reason"].startswith("its network throughput to lab is "), host
    assert (
        host["reason"].endswith("required is >=900Gbit/s")
        and host["facts"]["baseline"]["network_bytes_s"] > 0
    )
