"""Hosts of kind dask: agents on real worker processes of a Dask cluster."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plimsoll.deploy.binary import find_engine
from tests.conftest import Lab, descendants_in, missing
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

CLUSTER = """\
import json, sys
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
        local_directory=sys.argv[1],
    ) as cluster:
        pids = [nanny.pid for nanny in cluster.workers.values()]
        print(json.dumps({"address": cluster.scheduler_address, "pids": pids}), flush=True)
        sys.stdin.read()
"""
FROM_A_SCRIPT = """\
import sys
from pathlib import Path
from distributed import LocalCluster
from plimsoll.drive.scripted import run_experiment

if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
        local_directory=sys.argv[2],
    ) as cluster:
        outcome = run_experiment(sys.argv[1], cluster=cluster, out="results")
        print(outcome.directory, outcome.done, outcome.agents_lost)
        assert len(cluster.scheduler_info["workers"]) == 2, "the cluster is the script's, and goes on"
"""


@dataclass(frozen=True)
class Cluster:
    """`pids`: of the workers; `place`: what they write."""

    address: str
    pids: list[int]
    place: Path
    log: Path


@contextmanager
def running_dask(directory: Path) -> Iterator[Cluster]:
    """A cluster of two workers in a process of its own, which ends with its input."""
    script = directory / "cluster.py"
    script.write_text(CLUSTER)
    (directory / "workers").mkdir()
    with (directory / "cluster.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, script, directory / "workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None and process.stdin is not None
    try:
        line = process.stdout.readline()
        if "No module named" in (directory / "cluster.log").read_text():
            missing("dask", "pip install 'plimsoll-lab[dask]'")
        told: dict[str, Any] = json.loads(line)
        yield Cluster(told["address"], told["pids"], directory / "workers", directory / "cluster.log")
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_dask(tmp_path_factory.mktemp("dask")) as found:
        yield found


@pytest.fixture
def start(lab: Lab) -> Iterator[Start]:
    with starting(lab) as found:
        yield found


def on(cluster: Cluster, more: str = "", **how: object) -> str:
    return experiment(f"kind: dask\ndask: {{address: '{cluster.address}'}}\n{more}", **how)  # type: ignore[arg-type]


def agents_of(cluster: Cluster) -> list[str]:
    """Command lines of what the workers have started for us."""
    return [words for words in descendants_in(cluster.place) if "plimsoll-engine" in words]


def nothing_left(lab: Lab, cluster: Cluster) -> None:
    assert not agents_of(cluster)
    assert not list(cluster.place.rglob("plimsoll-spool-*"))
    no_secret_stays(lab.directory)
    no_secret_stays(cluster.place.parent)


def test_workers_carry_all_runs(lab: Lab, cluster: Cluster, start: Start) -> None:
    process = start(lab.file(on(cluster, duration="3s", repetitions=2)))
    until("measuring", measuring(lab, process))
    running = agents_of(cluster)
    assert len([words for words in running if " agent --join - --name dask." in words]) >= 2
    assert not any("plimsoll.token" in words or "time_key" in words for words in running)
    done = finish(process)
    assert done.code == 0, done.err
    for run in ("0001", "0002"):
        books = summary(lab.results(), run)
        assert books["balanced"] and not books["damage"]
        assert [one["name"] for one in carried(lab.results(), run)] == ["dask.1", "dask.2"]
        assert {(one["host"], one["site"]) for one in carried(lab.results(), run)} == {
            (os.uname().nodename, "dask")
        }
        assert all(one["books"]["counters"]["succeeded"] > 0 for one in carried(lab.results(), run))
    nothing_left(lab, cluster)


@pytest.mark.long
def test_the_address_may_be_checked(lab: Lab, cluster: Cluster) -> None:
    path = lab.file(on(cluster, "link: quic"))
    done = lab.run("hosts", "check", path, "--json")
    assert done.code == 0, done.err
    [told] = done.json["checks"]
    assert [(one["name"], one["taken"]) for one in told["hosts"]] == [("dask.1", True), ("dask.2", True)]
    nothing_left(lab, cluster)
    assert len(list(cluster.place.rglob("plimsoll-engine-*"))) == 2, "one for each worker, for the next time"
    done = lab.run("hosts", "clean", path)
    assert done.code == 0 and "no process or file of Plimsoll is left" in done.out
    assert not list(cluster.place.rglob("plimsoll-*"))


@pytest.mark.long
def test_files_of_a_workload_are_put_on_every_worker(lab: Lab, cluster: Cluster) -> None:
    address = "controller: {address: 127.0.0.1}"
    path = program_of_its_own(lab, f"{{kind: dask, dask: {{address: '{cluster.address}'}}, {address}}}")
    done = lab.run("run", path)
    assert done.code == 0, done.err
    assert summary(lab.results())["counters"]["failed"] == 0
    assert not list(cluster.place.rglob("plimsoll-files-*"))
    nothing_left(lab, cluster)


@pytest.mark.long
def test_an_interrupt_ends_the_tasks(lab: Lab, cluster: Cluster, start: Start) -> None:
    process = start(lab.file(on(cluster, duration="60s")))
    until("measuring", measuring(lab, process))
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    nothing_left(lab, cluster)


@pytest.mark.long
def test_a_worker_that_dies_is_an_agent_lost(lab: Lab, tmp_path: Path, start: Start) -> None:
    with running_dask(tmp_path) as cluster:
        process = start(lab.file(on(cluster, "at_least: 1", duration="10s")))
        until("measuring", measuring(lab, process))
        os.kill(cluster.pids[0], signal.SIGKILL)
        done = finish(process)
        assert done.code == 98, done.err
        assert sorted(one["lost"] for one in carried(lab.results())) == [False, True]
        assert any(one["kind"] == "agent-lost" for one in events(lab.results()))
        assert not agents_of(cluster), "the agent of the dead worker has ended with it"
        assert "plimsoll.token" not in cluster.log.read_text()


@pytest.mark.long
def test_a_worker_that_does_not_answer_is_not_waited_for_without_end(lab: Lab, tmp_path: Path) -> None:
    with running_dask(tmp_path) as cluster:
        os.kill(cluster.pids[0], signal.SIGSTOP)
        try:
            done = lab.run("run", lab.file(on(cluster)))
        finally:
            os.kill(cluster.pids[0], signal.SIGCONT)
    assert done.code == 2 and "hosts.dask: the cluster does not answer: " in done.err, done.err


@pytest.mark.long
def test_a_cluster_that_is_gone_is_said(lab: Lab) -> None:
    at = "kind: dask\ndask: {address: 'tcp://127.0.0.1:1'}"
    began = time.monotonic()
    done = lab.run("run", lab.file(experiment(at)))
    assert done.code == 2 and "hosts.dask.address: no scheduler answers at tcp://127.0.0.1:1" in done.err
    assert time.monotonic() - began < 60
    done = lab.run("run", lab.file(experiment(at.replace("tcp://", "nonsense://"))))
    assert done.code == 2 and "no scheduler answers at nonsense://" in done.err
    assert not list(lab.directory.glob("results/far-*"))


@pytest.mark.long
def test_a_cluster_that_ends_under_a_run_is_survived(lab: Lab, tmp_path: Path, start: Start) -> None:
    with running_dask(tmp_path) as cluster:
        process = start(lab.file(on(cluster, duration="8s")))
        until("measuring", measuring(lab, process))
    done = finish(process)  # the workers were asked to end, and their agents with them
    assert done.code in (97, 98), done.err
    assert not agents_of(cluster)


@pytest.mark.long
def test_without_dask_it_says_what_to_install(lab: Lab) -> None:
    package = lab.directory / "without" / "distributed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('none')\n")
    path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])
    text = experiment("kind: dask\ndask: {address: 'tcp://127.0.0.1:1'}")
    done = lab.run("run", lab.file(text), PYTHONPATH=path)
    assert done.code == 2 and "dask is not installed here: pip install 'plimsoll-lab[dask]'" in done.err


@pytest.mark.long
def test_a_script_hands_its_own_cluster_over(lab: Lab) -> None:
    find_engine()
    (lab.directory / "script.py").write_text(FROM_A_SCRIPT)
    text = experiment("keep: nothing")  # hosts of kind local, as far as the file says
    done = subprocess.run(
        [sys.executable, "script.py", lab.file(text), lab.directory / "workers"],
        cwd=lab.directory,
        env=lab.env,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    directory, runs, lost = done.stdout.split()
    assert (runs, lost) == ("1", "False")
    assert [one["name"] for one in carried(Path(lab.directory / directory))] == ["dask.1", "dask.2"]
    year = str(datetime.datetime.now(datetime.UTC).year)
    assert f"far-{year}" in directory
    assert not list((lab.directory / "workers").rglob("plimsoll-*")), "keep: nothing"
