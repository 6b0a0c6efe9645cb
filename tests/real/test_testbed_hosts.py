"""Hosts of kind testbed: the command goes to the testbed's host `lab` by itself, and leaves nothing, however it ends.

The workload is that of the tests of slurm, dask and join (`dial_in.WORKLOAD`): here it runs on local, ssh and testbed,
and nothing but `hosts:` differs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.testbed import down, running_testbeds, up
from plimsoll.plan.hosts.testbed import load_testbed
from tests.conftest import Lab, descendants_in
from tests.real import test_testbed
from tests.real.dial_in import WORKLOAD, carried, events, experiment, finish, measuring, summary, until
from tests.real.sshd import Sshd, running_sshd

BED = """\
testbed: 1
name: hosts
lab: here
sites: {near: {hosts: 1}, here: {hosts: 0}, far: {hosts: 2}}
links:
  - {between: [here, near], rtt: 1ms}
  - {between: [here, far], rtt: 30ms, rate: 50Mbit/s}
"""
CONTROLLER = "  controller: {address: 127.0.0.1}\n"
HOSTS = ("near-1", "far-1", "far-2")
COLUMNS = ("agent", "tester", "start", "scheduled")
"""Of transactions.parquet; `scheduled` is relative to `start`."""
home = test_testbed.home


@pytest.fixture
def bed(home: Path, lab: Lab) -> Iterator[Path]:
    """The file of a testbed, which is not up. Everything that commands of it start is gone at the end."""
    lab.env["XDG_RUNTIME_DIR"] = str(home)
    yield lab.file(BED, "bed.yaml")
    until("its processes are gone", lambda: not descendants_in(lab.directory), 20)
    left = running_testbeds()
    for one in left:
        down(one.name)
    assert not left, "a testbed is left"
    # Where both who brought it up and who was inside are gone, nobody has waited for its owner's last steps.
    until("its directory is gone", lambda: not list((home / "plimsoll" / "testbed").glob("*")), 20)


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd") as found:
        yield found


def on_testbed(lab: Lab, more: str = "", **how: Any) -> Path:
    """An experiment on the three hosts, whose things lie below the directory of the test."""
    hosts = f"kind: testbed\ntestbed: bed.yaml\ndirectory: {lab.directory}/hosts\n{more}"
    return lab.file(experiment(hosts, **how).replace(CONTROLLER, ""))


def spools(lab: Lab) -> list[Path]:
    """What agents keep."""
    return list((lab.directory / "hosts").glob("hosts/*/spool-*/*"))


def whole(results: Path, agents: tuple[str, ...]) -> None:
    """All carried their share of the six testers to the end, and the books say so."""
    books = summary(results)
    assert books["status"] == "done" and books["balanced"]
    assert {one["name"] for one in carried(results)} == set(agents)
    told = json.loads((results / "analysis.json").read_text())["runs"][0]
    assert {one["host"]: one["testers"] for one in told["hosts"]["hosts"]} == dict.fromkeys(agents, 2)


SITES = "sites: {near: [near-1], far: [far-1, far-2]}\n"


def same_workload(lab: Lab, file: Path) -> None:
    """It runs unchanged, and each of the hosts carries its share."""
    done = lab.run("run", file)
    assert done.code == 0, done.err
    whole(lab.results(), HOSTS)
    workload = (lab.results() / "experiment.yaml").read_text().partition("\nhosts:")[0]
    assert workload == WORKLOAD.format(duration="2s", repetitions=1).partition("\nhosts:")[0]


def test_the_same_workload_on_local(lab: Lab) -> None:
    same_workload(lab, lab.file(experiment(f"kind: local\n{SITES}")))


def test_the_same_workload_on_ssh(lab: Lab, sshd: Sshd) -> None:
    config = f"ssh: {{config: {sshd.aliases(*HOSTS)}}}\n"
    same_workload(lab, lab.file(experiment(f"kind: ssh\n{SITES}{config}")))


@pytest.mark.long
def test_the_same_workload_on_a_testbed(lab: Lab, bed: Path) -> None:
    same_workload(lab, on_testbed(lab))
    far = json.loads((lab.results() / "analysis.json").read_text())["runs"][0]["hosts"]
    trips = {one["site"]: one["rtt_ms"] for one in far["sites"]}
    assert trips["near"] < 20 < 29 < trips["far"], trips
    # The engine stays, once for all; nothing else does.
    left = [path for path in (lab.directory / "hosts").rglob("*") if path.is_file()]
    assert len(left) == 4 and len({path.stat().st_ino for path in left}) == 1, left
    done = lab.run("hosts", "clean", lab.directory / "experiment.yaml")
    assert done.code == 0 and done.out.count("no process or file of Plimsoll is left") == 3, (
        done.out + done.err
    )
    assert not list((lab.directory / "hosts").rglob("*"))


WATCHED = """\
plimsoll: 1
name: watched
services: {{web: {{kind: echo}}}}
targets: {{site: {{endpoints: [web], watch: [{{host: near-1, pid: {pid}, link: 1Gbit/s}}]}}}}
workload: {{driver: http, target: site}}
load: {{testers: 2, think: 5ms}}
run: {{duration: 3s, drain: 5s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
hosts: {{kind: testbed, testbed: bed.yaml, directory: {directory}/hosts, hosts: [far-1], link: tcp}}
"""


@pytest.mark.long
def test_a_host_of_the_testbed_is_watched(lab: Lab, bed: Path) -> None:
    with subprocess.Popen(
        ["sh", "-c", "while :; do :; done"]
    ) as burner:  # processes are seen from all its hosts
        try:
            file = lab.file(WATCHED.format(pid=burner.pid, directory=lab.directory))
            checked = lab.run("hosts", "check", file)
            assert (
                checked.code == 0 and "1 of 1 hosts can be watched, at least 1 are required" in checked.out
            ), checked.out
            done = lab.run("run", file, "--json")
        finally:
            burner.kill()
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    used = run["utilization"][f"pid {burner.pid} on near-1"]
    assert used["role"] == "service" and 0.05 < used["detail"]["busiest_thread"] <= 1.05
    assert run["utilization"]["near-1"]["role"] == "host"
    assert {one["name"]: one["role"] for one in carried(lab.results())} == {
        "far-1": "testers",
        "near-1": "watch",
    }
    assert not spools(lab)


@pytest.mark.long
def test_check_takes_a_testbed_that_is_up_and_leaves_it_up(lab: Lab, bed: Path) -> None:
    with up(load_testbed(bed)) as mine:
        done = lab.run("hosts", "check", on_testbed(lab, "hosts: [far-1, near-1]\n"), "--json")
        assert done.code == 0, done.err
        found = {one["name"]: one for one in done.json["checks"][0]["hosts"]}
        assert found["far-1"]["site"] == "far" and found["far-1"]["facts"]["rtt_ns"]["min"] > 29e6
        assert (
            found["near-1"]["facts"]["clock"]["bound_ns"]
            < 15e6
            < found["far-1"]["facts"]["clock"]["bound_ns"]
        )
        assert [one.name for one in running_testbeds()] == ["hosts"]
        # From within, by hand, it stays where it is; on another host it is refused.
        words = [
            sys.executable,
            "-m",
            "plimsoll.cli.main",
            "hosts",
            "check",
            str(lab.directory / "experiment.yaml"),
        ]
        there = subprocess.run(
            [*mine.enter_argv(), *words], env=lab.env, capture_output=True, text=True, check=False
        )
        assert there.returncode == 0 and "2 of 2 hosts" in there.stdout, there.stderr
        astray = subprocess.run(
            [*mine.enter_argv("far-1"), *words], env=lab.env, capture_output=True, text=True, check=False
        )
        assert (
            astray.returncode == 2
            and "this process runs on the host far-1 of the testbed hosts" in astray.stderr
        )
        # Another testbed of that name.
        bed.write_text(BED.replace("1ms", "2ms"))
        done = lab.run("hosts", "check", lab.directory / "experiment.yaml")
        assert done.code == 2 and "from another file" in done.err


def test_a_script_outside_is_told_where_to_go(lab: Lab, bed: Path) -> None:
    script = f"from plimsoll.drive.scripted import run_experiment\nrun_experiment({str(on_testbed(lab))!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=lab.env,
        cwd=lab.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "BadInput: hosts.kind: this process does not run on the host lab of the testbed" in done.stderr
    assert not list((lab.directory / "results").glob("*")), "nothing was begun"


def test_two_testbeds_and_ways_out_are_refused(lab: Lab, bed: Path) -> None:
    lab.file(BED.replace("name: hosts", "name: others"), "other.yaml")
    factor = "factors: {hosts.testbed: [bed.yaml, other.yaml]}\n"
    done = lab.run("run", lab.file(on_testbed(lab).read_text() + factor))
    assert done.code == 2 and "belong to 2 testbeds" in done.err, done.err
    factor = "  hosts: [near-1]\n  controller: {address: ADDRESS}\nfactors: {hosts.kind: [testbed, ssh]}\n"
    factor = factor.replace("ADDRESS", load_testbed(bed).lab.address)
    done = lab.run("run", lab.file(on_testbed(lab).read_text() + factor))
    assert done.code == 2 and "a testbed has no network to the outside" in done.err, done.err


def inner(outer: subprocess.Popen[str]) -> int:
    """The process on the host lab: a child of the outer one in a session of its own."""
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
    [child] = [int(child) for child in children if os.getsid(int(child)) == int(child)]
    return child


def by_ctrl_c(outer: subprocess.Popen[str], lab: Lab) -> None:
    os.killpg(outer.pid, signal.SIGINT)


def by_ctrl_c_twice(outer: subprocess.Popen[str], lab: Lab) -> None:
    os.killpg(outer.pid, signal.SIGINT)
    time.sleep(0.3)
    os.killpg(outer.pid, signal.SIGINT)


def by_sigterm(outer: subprocess.Popen[str], lab: Lab) -> None:
    outer.terminate()


def by_stop(outer: subprocess.Popen[str], lab: Lab) -> None:
    done = lab.run("stop", "--all")
    assert done.code == 0 and done.out.startswith("stopped "), done.err
    assert not running_testbeds(), "what was brought up for it is down, too"


def by_killing_the_outer_process(outer: subprocess.Popen[str], lab: Lab) -> None:
    outer.kill()


def by_taking_the_testbed_down(outer: subprocess.Popen[str], lab: Lab) -> None:
    assert lab.run("testbed", "down", "hosts").code == 0


LONG = pytest.mark.long
ENDS = [
    pytest.param(by_ctrl_c, {130}, id="Ctrl-C"),
    pytest.param(
        by_ctrl_c_twice, {130, 1}, id="Ctrl-C twice", marks=LONG
    ),  # the second ends the engine at once
    pytest.param(by_sigterm, {130}, id="SIGTERM", marks=LONG),
    pytest.param(by_stop, {130}, id="plimsoll stop", marks=LONG),
    pytest.param(by_killing_the_outer_process, {-signal.SIGKILL}, id="kill -9", marks=LONG),
    pytest.param(by_taking_the_testbed_down, {1, 130}, id="testbed down", marks=LONG),
]


@pytest.mark.long
@pytest.mark.parametrize(("end", "codes"), ENDS)
def test_however_it_ends_nothing_is_left(
    lab: Lab, bed: Path, end: Callable[[subprocess.Popen[str], Lab], None], codes: set[int]
) -> None:
    outer = lab.start("run", on_testbed(lab, duration="120s"))
    until("it measures", measuring(lab, outer))
    end(outer, lab)
    done = finish(outer)
    assert done.code in codes, (done.code, done.err)
    until("the testbed is down", lambda: not running_testbeds(), 30)
    until("its processes are gone", lambda: not descendants_in(lab.directory), 20)
    if end in (by_ctrl_c, by_sigterm, by_stop, by_killing_the_outer_process):
        assert not spools(lab), "what was measured was brought in"
        results = next((lab.directory / "results").glob("on-*"), None) or lab.results()
        assert summary(results)["balanced"] and not list(results.rglob("*.arrow"))


@pytest.mark.long
def test_what_agents_keep_is_collected_after_the_testbed_was_brought_up_again(lab: Lab, bed: Path) -> None:
    outer = lab.start("run", on_testbed(lab, duration="120s"))
    until("it measures", measuring(lab, outer))
    os.kill(inner(outer), signal.SIGKILL)
    assert finish(outer).code == 1 and not running_testbeds()
    assert {path.name for path in spools(lab)} == set(HOSTS)
    results = lab.results()
    done = lab.run("collect", results)
    assert done.code == 0, done.out + done.err
    assert "transactions in the results" in done.out and not running_testbeds() and not spools(lab)
    # Going on is a run like any other.
    text = (results / "experiment.yaml").read_text()
    assert "duration: 120s" in text
    done = lab.run("run", "--resume", results, "--set", "x=1")
    assert done.code == 2 and not running_testbeds()


@pytest.mark.long
def test_a_run_is_gone_on_with(lab: Lab, bed: Path) -> None:
    outer = lab.start("run", on_testbed(lab, repetitions=2, duration="3s"))
    until("it measures", measuring(lab, outer, "0002"))
    outer.send_signal(signal.SIGINT)
    assert finish(outer).code == 130
    results = lab.results()
    done = lab.run("run", "--resume", results)
    assert done.code == 0, done.err
    assert summary(results, "0002")["balanced"] and not [
        one for one in events(results) if one["kind"] == "agent-lost"
    ]


@pytest.mark.long
def test_properties_of_a_link_are_levels_of_a_factor(lab: Lab, bed: Path) -> None:
    """The testbed stays up between the runs, and its links have the values of its file at the end."""
    factor = "factors: {hosts.links.here-far.rtt: [4ms, 80ms]}\n"
    assert lab.run("testbed", "up", bed).code == 0
    done = lab.run("run", lab.file(on_testbed(lab, "sites: {far: [far-1, far-2]}\n").read_text() + factor))
    assert done.code == 0, done.err
    trips = {}
    for run in json.loads((lab.results() / "analysis.json").read_text())["runs"]:
        [rtt] = run["cell"].values()
        trips[rtt] = run["response_ms"]["p50"]
    assert 4 < trips["4ms"] < 20 and 80 < trips["80ms"] < 100, trips
    texts = [event["text"] for event in events(lab.results()) if event["kind"] == "links"]
    assert texts in (
        ["link here-far: round trip 4ms, rate 50Mbit/s"],
        ["link here-far: round trip 80ms, rate 50Mbit/s"],
    )
    [status] = json.loads(lab.run("testbed", "status", "hosts", "--json").out)
    links = status["links"]
    [delay] = [one["shape"]["delay_ns"] for one in links if (one["from"], one["to"]) == ("here", "far")]
    assert delay == 15_000_000
    assert lab.run("testbed", "down", "hosts").code == 0


def test_a_link_is_cut_and_restored_during_a_run(lab: Lab, bed: Path) -> None:
    actions = "actions: [{at: 1s, cut: {link: here-far}, for: 1s}]\n"
    file = on_testbed(lab, "sites: {far: [far-1, far-2]}\n", duration="5s").read_text() + actions
    done = lab.run("run", lab.file(file))
    assert done.code == 0, done.err
    [run] = json.loads((lab.results() / "analysis.json").read_text())["runs"]
    used = run["utilization"]["link here-far"]
    assert used["role"] == "link" and 0 < used["mean"] < 1, used
    emulator = run["utilization"]["link emulator"]
    assert (emulator["role"], emulator["resource"]) == ("emulator", "cpu of its process")
    [resources] = [one for one in run["components"] if one["component"] == "link emulator"]
    # Each of the hundreds of packets of this run costs at least some microseconds.
    assert 0.0005 < resources["cpu"] <= 1.05 and resources["cpu"] == emulator["detail"]["cores_used"], (
        resources
    )
    # A busy machine can stop the testers for longer than the shortest outage; such an outage is not that of the cut.
    outages = run["actions"]["outages"]
    [outage] = [one for one in outages if one["start_s"] < 2 < one["end_s"]]
    # A lost frame is sent again after at least 200 ms, and later after a longer time.
    assert 0.9 < outage["start_s"] < 1.3 and 2.0 < outage["end_s"] < 3.5, outages
    [action] = run["actions"]["actions"]
    assert (action["outcome"], action["label"]) == ("done", "cut of link here-far"), action
    assert re.search(r"Cut of link here-far at 1\.\d s for 1(\.\d+)? s", done.out.replace("\u00a0", " ")), (
        done.out
    )


@pytest.mark.long
@pytest.mark.alone
def test_a_full_link_is_the_bottleneck(lab: Lab, bed: Path) -> None:
    text = (
        "plimsoll: 1\nname: thin\nservices: {web: {kind: echo, body: 100kB}}\n"
        "workload: {driver: http, target: web}\nload: {testers: 4}\nrun: {warmup: 1s, duration: 4s}\n"
        "validity: {gaps: 100%, lateness_floor: 1s}\n"
        "hosts: {kind: testbed, testbed: bed.yaml, sites: {far: [far-1, far-2]}, "
        f"directory: {lab.directory}/hosts}}\n"
    )
    done = lab.run("run", lab.file(text))
    assert done.code == 0, done.err
    [run] = json.loads((lab.results() / "analysis.json").read_text())["runs"]
    assert run["bottleneck"] == "link here-far", run["bottleneck_reason"]
    used = run["utilization"]["link here-far"]
    assert used["role"] == "link" and used["resource"] == "here to far" and used["mean"] > 0.9, used
    assert "the link here-far (here to far at" in " ".join(done.out.split())


@pytest.mark.long
def test_a_ramp_with_testers_per_host(lab: Lab, bed: Path) -> None:
    """The testers join host after host: tester i of the ramp at i times 200 ms, two on each of the three hosts."""
    path = on_testbed(lab)
    text = path.read_text().replace(
        "{testers: 6, think: 5ms}", "{ramp: {per_host: 2, every: 200ms}, every: 50ms}"
    )
    path.write_text(text)
    done = lab.run("run", path, "--json")
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    rows = pq.read_table(lab.results() / "runs" / "0001" / "transactions.parquet").to_pydict()
    firsts: dict[tuple[int, int], int] = {}
    for agent, tester, start, early in zip(*(rows[name] for name in COLUMNS), strict=True):
        firsts[agent, tester] = min(firsts.get((agent, tester), start + early), start + early)
    assert sorted(Counter(agent for agent, _ in firsts).values()) == [2, 2, 2]
    joined = np.sort(np.array(list(firsts.values()), dtype=np.float64)) / 1e6
    assert np.abs(joined - joined[0] - 200 * np.arange(6)).max() < 60, joined
    assert run["ramp"]["steps"][-1]["load_high"] == 6
