"""Hosts of kind slurm: agents as tasks of an array job of a real Slurm."""

from __future__ import annotations

import json
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Lab, descendants_in
from tests.real.dial_in import (
    Start,
    carried,
    events,
    experiment,
    finish,
    measuring,
    no_secret_stays,
    program_of_its_own,
    starting,
    summary,
    until,
)
from tests.real.emulated import agents
from tests.real.slurm import Cluster, running_slurm

SECRET = "a secret of the experiment"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_slurm() as found:
        yield found


@pytest.fixture
def at(lab: Lab, cluster: Cluster) -> Iterator[Lab]:
    """A lab on the login node of the cluster."""
    lab.env["SLURM_CONF"] = str(cluster.config)
    yield lab
    until("an empty queue", lambda: not cluster.queue(), 30)


@pytest.fixture
def start(at: Lab) -> Iterator[Start]:
    with starting(at) as found:
        yield found


def shared(lab: Lab) -> Path:
    return lab.directory / "shared" / "plimsoll"


def job(lab: Lab, slurm: str = "{tasks: 3}", more: str = "", **how: object) -> Path:
    lines = f"kind: slurm\nslurm: {slurm}\ndirectory: {shared(lab)}\n{more}"
    return lab.file(experiment(lines, **how))  # type: ignore[arg-type]


def nothing_left(lab: Lab, cluster: Cluster) -> None:
    assert cluster.queue() == []
    assert not descendants_in(lab.directory)
    there = sorted(path.name for path in shared(lab).glob("*"))
    assert [name[:7] for name in there] in ([], ["engine-"]), there
    no_secret_stays(lab.directory)


def test_an_array_job_carries_all_runs(at: Lab, cluster: Cluster, start: Start) -> None:
    at.env["PLIMSOLL_TEST_SECRET"] = SECRET
    process = start(job(at, "{tasks: 3, partition: batch, time: 5m}", duration="3s", repetitions=2))
    until("measuring", measuring(at, process))
    [token] = shared(at).glob("spool-*/token")
    assert stat.S_IMODE(token.stat().st_mode) == 0o600 and stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    [number] = {line.split("_")[0] for line in cluster.queue()}
    told = cluster.call("scontrol", "--oneliner", "show", "job", f"{number}_1")
    assert "TimeLimit=00:05:00" in told and "JobName=plimsoll-" in told and "Partition=batch" in told
    assert "time_key" not in cluster.call("scontrol", "write", "batch_script", number, "-")
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in agents(shared(at))]
    assert len(environments) == 3
    assert all(b"PATH=" in found and SECRET.encode() not in found for found in environments)
    done = finish(process)
    assert done.code == 0, done.err
    for run in ("0001", "0002"):
        books = summary(at.results(), run)
        assert books["balanced"] and not books["damage"]
        assert [one["name"] for one in carried(at.results(), run)] == ["slurm.1", "slurm.2", "slurm.3"]
        assert {one["host"] for one in carried(at.results(), run)} == {"n1", "n2"}
        assert {one["site"] for one in carried(at.results(), run)} == {"batch"}
    nothing_left(at, cluster)
    [engine] = shared(at).glob("engine-*")
    inode = engine.stat().st_ino
    done = at.run("run", job(at, "{tasks: 1}", "keep: nothing"))
    assert done.code == 0, done.err
    assert {one["site"] for one in carried(at.results())} == {"slurm"}
    assert inode and not shared(at).exists()


@pytest.mark.long
def test_a_task_that_is_cancelled_is_an_agent_lost(at: Lab, cluster: Cluster, start: Start) -> None:
    process = start(job(at, more="keep: nothing", duration="8s"))
    until("measuring", measuring(at, process))
    [number] = {line.split("_")[0] for line in cluster.queue()}
    cluster.call("scancel", "--batch", "--signal=KILL", f"{number}_2")
    done = finish(process)
    assert done.code == 98, done.err
    lost = {one["name"]: one["lost"] for one in carried(at.results())}
    assert lost == {"slurm.1": False, "slurm.2": True, "slurm.3": False}
    assert any(one["kind"] == "agent-lost" and "slurm.2" in one["text"] for one in events(at.results()))
    assert cluster.queue() == [] and not descendants_in(at.directory)
    no_secret_stays(at.directory)
    done = at.run("hosts", "clean", job(at), "--discard")
    assert done.code == 0 and not shared(at).exists(), done.out


@pytest.mark.long
def test_a_task_that_is_asked_to_end_hands_over_what_it_has(at: Lab, cluster: Cluster, start: Start) -> None:
    process = start(job(at, duration="8s"))
    until("measuring", measuring(at, process))
    [number] = {line.split("_")[0] for line in cluster.queue()}
    cluster.call("scancel", f"{number}_2")
    done = finish(process)
    assert done.code == 98, done.err
    books = summary(at.results())
    [lost] = [one for one in books["agents"] if one["lost"]]
    assert lost["name"] == "slurm.2" and lost["books"]["counters"]["succeeded"] > 0
    assert books["rows"]["counters"] == books["counters"], "all that it measured is here"
    [text] = books["damage"]
    assert "slurm.2" in text and "was asked to end (SIGTERM)" in text and "were transferred" in text
    [event] = [one for one in events(at.results()) if one["kind"] == "agent-lost"]
    assert event["t_s"] == pytest.approx(lost["lost_ns"] / 1e9, abs=0.001)
    nothing_left(at, cluster)


@pytest.mark.long
def test_files_of_a_workload_are_put_where_the_nodes_see_them(at: Lab, cluster: Cluster) -> None:
    address = "controller: {address: 127.0.0.1}"
    place = f"directory: {shared(at)}"
    hosts = f"{{kind: slurm, slurm: {{tasks: 2}}, {place}, {address}}}"
    done = at.run("run", program_of_its_own(at, hosts))
    assert done.code == 0, done.err
    assert summary(at.results())["counters"]["items"] > 0
    nothing_left(at, cluster)


@pytest.mark.long
def test_a_task_that_waits_in_the_queue_comes_late(at: Lab, cluster: Cluster, start: Start) -> None:
    blocker = cluster.call("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 600")
    more = "wait: 4s\nat_least: 3"
    process = start(job(at, "{tasks: 4}", more, duration="4s", repetitions=2))
    until("measuring", measuring(at, process))
    assert [line for line in cluster.queue() if line.endswith("_4 PENDING")]
    cluster.call("scancel", blocker)
    done = finish(process)
    assert done.code == 0, done.err
    assert "host-left-out: slurm.4: it did not connect within 4 s" in done.err
    first = json.loads((at.results() / "runs" / "0001" / "run.json").read_text())["places"]
    late = [one for one in carried(at.results()) if one["name"] == "slurm.4"]
    for one in late:  # it may also have come between the runs
        assert one["host"] != "slurm.4", "what it says of itself stands in the books"
        assert {"n1", "n2"} >= {place["host"] for place in first if place["agent"] == "slurm.4"}
    second = summary(at.results(), "0002")
    assert second["balanced"]
    assert [one["name"] for one in carried(at.results(), "0002")] == [
        f"slurm.{number}" for number in range(1, 5)
    ]
    assert all(one["books"]["counters"]["succeeded"] > 0 for one in carried(at.results(), "0002"))
    nothing_left(at, cluster)


@pytest.mark.long
def test_who_waits_for_ever_is_given_up(at: Lab, cluster: Cluster, start: Start) -> None:
    done = at.run("run", job(at, "{tasks: 2, options: [--hold]}", "wait: 1s"))
    assert done.code == 98
    assert (
        "0 of 2 agents can be used, at least 2 are required: slurm.1: it did not connect within 1 s"
        in done.err
    )
    nothing_left(at, cluster)
    process = start(job(at, "{tasks: 2, options: [--hold]}"))
    until("the job", cluster.queue)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    done = finish(process, 30)
    assert done.code == 130, done.err
    nothing_left(at, cluster)


@pytest.mark.long
def test_tasks_that_end_at_once_say_why(at: Lab, cluster: Cluster) -> None:
    assert at.run("run", job(at, "{tasks: 1}")).code == 0
    [engine] = shared(at).glob("engine-*")
    engine.chmod(0o600)
    done = at.run("run", job(at, "{tasks: 2}"))
    assert done.code == 98
    assert (
        f"its task has ended; last output of slurm.1: {engine} does not exist on this node: the nodes must "
        f"share its directory" in done.err
    )
    nothing_left(at, cluster)
    engine.chmod(0o700)
    done = at.run("run", job(at, "{tasks: 1, options: ['--output=/dev/null', '--wrap=exit 1']}"))
    assert done.code != 0 and "slurm" in done.err
    nothing_left(at, cluster)


def test_what_sbatch_refuses_is_said(at: Lab, cluster: Cluster) -> None:
    done = at.run("run", job(at, "{tasks: 1, partition: nowhere}"))
    assert done.code == 2
    assert "hosts.slurm: sbatch rejects the job: " in done.err and "nvalid partition" in done.err, done.err
    nothing_left(at, cluster)


def test_without_a_slurm_it_says_so(lab: Lab) -> None:
    done = lab.run("run", job(lab), PATH="/nowhere")
    assert done.code == 2 and "hosts.kind: sbatch is not installed here" in done.err, done.err
    assert not shared(lab).exists()


def test_a_cluster_is_checked_and_left(at: Lab, cluster: Cluster) -> None:
    path = job(at, "{tasks: 2, partition: batch}", "require: {cores: '>=1'}")
    done = at.run("hosts", "check", path, "--json")
    assert done.code == 0, done.err
    [told] = done.json["checks"]
    assert [(one["name"], one["site"], one["taken"]) for one in told["hosts"]] == [
        ("slurm.1", "batch", True),
        ("slurm.2", "batch", True),
    ]
    nothing_left(at, cluster)


def test_a_lab_that_is_killed_is_cleaned_after(at: Lab, cluster: Cluster, start: Start) -> None:
    path = job(at, "{tasks: 2}", duration="60s")
    process = start(path)
    until("measuring", measuring(at, process))
    process.kill()
    process.communicate()
    until("the agents' end", lambda: not cluster.queue(), 30)  # they hear of it, and end with their tasks
    done = at.run("hosts", "clean", path, "--discard")
    assert done.code == 0, done.out
    assert not shared(at).exists()
    assert not descendants_in(at.directory)
