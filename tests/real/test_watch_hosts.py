"""Hosts of the target that are watched by an agent, over a real ssh: what is on them shows in the results, and nothing
that happens to them ends a run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab
from tests.real.sshd import Sshd, running_sshd
from tests.real.test_hosts_faults import agent_of, agents_left, has_load, spools, wait_for

TIMEOUT_S = 120.0


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(tmp_path / "sshd") as found:
        yield found


class Burner:
    """A process with a name of its own that fills a core, as a service of somebody else does."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / f"burn{os.getpid() % 100_000}"
        shutil.copy("/bin/dash", self.program)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.program.name

    def start(self) -> int:
        self.process = subprocess.Popen([self.program, "-c", "while :; do :; done"])
        return self.process.pid

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def burner(tmp_path: Path) -> Iterator[Burner]:
    found = Burner(tmp_path)
    yield found
    found.end()


def experiment(lab: Lab, sshd: Sshd, seconds: int, *watch: dict[str, Any], **hosts: Any) -> Path:
    """`hosts`: where testers run, default here."""
    names = ["h1", *(str(one["host"]) for one in watch)]
    told = {"ssh": {"config": str(sshd.aliases(*names))}, "link_grace": "3s", **hosts}
    return lab.file(
        f"""plimsoll: 1
name: faults
services: {{echo: {{kind: echo, http: true}}}}
targets: {{site: {{endpoints: [echo], watch: {json.dumps(watch)}}}}}
workload: {{driver: http, target: site, http: {{path: /}}}}
load: {{testers: 2, think: 20ms}}
run: {{duration: {seconds}s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}}
hosts: {json.dumps(told)}
"""
    )


def record(lab: Lab) -> dict[str, Any]:
    return dict(json.loads((lab.results() / "runs/0001/run.json").read_text()))


def events(lab: Lab) -> list[tuple[str, str]]:
    lines = (lab.results() / "runs/0001/events.jsonl").read_text().splitlines()
    return [(one["kind"], one["text"]) for one in map(json.loads, lines)]


def test_a_host_of_the_target_and_a_process_on_it_are_in_the_results(
    lab: Lab, sshd: Sshd, burner: Burner
) -> None:
    pid = burner.start()
    watch = {"host": "db1", "process": burner.name, "pid": pid, "link": "10Gbit/s"}
    file = experiment(lab, sshd, 5, watch, {"host": "local", "process": burner.name})
    assert f"watched: the host db1 and {burner.name}" in lab.run("plan", file).out
    checked = lab.run("hosts", "check", file)
    assert checked.code == 0 and "1 of 1 hosts can be watched, at least 1 are required" in checked.out, (
        checked.out
    )
    done = lab.run("run", file, "--json")
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    used = run["utilization"]
    on_db1 = used[f"{burner.name} on db1"]
    assert on_db1["role"] == "service" and on_db1["host"] == "db1"
    # It takes whatever it gets of the machine, which others want, too.
    assert 0.05 < on_db1["detail"]["busiest_thread"] <= 1.05
    assert used[f"pid {pid} on db1"]["detail"]["cores_used"] == pytest.approx(
        on_db1["detail"]["cores_used"], rel=0.2, abs=0.1
    )
    assert used["db1"]["role"] == "host" and used["db1"]["host"] == "db1"
    assert used["db1"]["detail"]["cpu.busy"] >= on_db1["detail"]["cores_used"] / (os.cpu_count() or 1) - 0.1
    assert any(name.startswith("core ") for name in used["db1"]["detail"]), "the busiest core"
    assert used[burner.name]["host"] == "", "the same process, watched by the agent of this host"
    assert [one["role"] for one in record(lab)["places"]] == ["testers", "watch"]
    (clock,) = [one for one in run["hosts"]["clocks"] if one["agent"] == "db1"]
    # One machine, so that the truth is known: no offset at all.
    assert clock["bound_ms"] > 0 and abs(clock["offset_ms"]) <= clock["bound_ms"]
    assert run["hosts"]["bound_ms"] == 0, "that of the testers"
    assert not [note for note in run["notes"] if "watched" in note or burner.name in note]
    hosts = json.loads((lab.results() / "environment.json").read_text())["hosts"]
    assert [(one["name"], one["role"], one["link_bytes_s"]) for one in hosts] == [("db1", "watch", 1.25e9)]
    page = (lab.results() / "report.html").read_text()
    assert f"{burner.name} on db1" in page and "All testers use the controller" in page
    assert lab.run("check", lab.results()).code == 0
    assert not agents_left(sshd) and not spools(sshd)
    cleaned = lab.run("hosts", "clean", file)
    assert cleaned.code == 0 and "db1: clean: no process or file of Plimsoll is left" in cleaned.out
    assert [path for path in sshd.home.rglob("*") if path.is_file()] == []


@pytest.mark.long
def test_a_watcher_that_is_killed_is_an_event_and_costs_the_run_nothing(lab: Lab, sshd: Sshd) -> None:
    process = lab.start("run", experiment(lab, sshd, 6, {"host": "db1"}), "--json")
    has_load(lab.directory)
    os.kill(agent_of(sshd, "db1"), signal.SIGKILL)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    (run,) = json.loads(out)["runs"]
    assert run["status"] == "finished" and run["valid"] and run["counts"]["balanced"], run["notes"]
    assert run["hosts"]["lost"] == [] and run["counts"]["started"] > 50
    kinds = dict(events(lab))
    assert kinds["watch-lost"].startswith("db1 is no longer watched (") and "agent-lost" not in kinds
    assert any("db1 is no longer watched" in note for note in run["notes"])
    assert not agents_left(sshd)
    # What it had seen until then is still with it.
    assert spools(sshd)
    done = lab.run("collect", lab.results())
    assert done.code == 0, done.out + done.err
    found = json.loads(lab.run("analyse", lab.results(), "--json").out)["runs"][0]["utilization"]
    assert found["db1"]["detail"]["cpu.busy"] > 0
    assert not spools(sshd)


@pytest.mark.long
def test_a_process_that_comes_late_and_is_restarted_is_told(lab: Lab, sshd: Sshd, burner: Burner) -> None:
    process = lab.start("run", experiment(lab, sshd, 24, {"host": "db1", "process": burner.name}), "--json")
    results = has_load(lab.directory)
    path = results / "runs/0001/events.jsonl"

    def told(kind: str, times: int) -> bool:
        return path.read_text().count(f'"{kind}"') >= times

    wait_for(lambda: told("watch-lost", 1))
    for times in (1, 2):
        first = burner.start()
        wait_for(partial(told, "watch-found", times))
        time.sleep(1.5)
        burner.end()
        wait_for(partial(told, "watch-lost", times + 1))
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    (run,) = json.loads(out)["runs"]
    assert run["status"] == "finished" and f"{burner.name} on db1" in run["utilization"]
    said = [text for kind, text in events(lab) if kind.startswith("watch-")]
    assert said[0] == f"db1: there is no process called {burner.name}"
    assert said[-2:] == [f"db1: {burner.name} is running as process {first}", f"db1: {burner.name} has ended"]
    assert len(said) == 5 and sum("has ended" in note for note in run["notes"]) == 2


@pytest.mark.long
def test_one_that_cannot_be_had_is_named_before_anything_begins(lab: Lab, sshd: Sshd) -> None:
    dead = {"host": "127.0.0.1", "name": "db2", "port": 1}
    file = experiment(lab, sshd, 2, {"host": "db1"}, dead)
    done = lab.run("run", file)
    assert done.code == 1 and "db2: it cannot be reached (" in done.err and "optional: true" in done.err
    assert "db1:" not in done.err, "this one answers"
    assert not list((lab.directory / "results").glob("faults-*")), "nothing was begun"
    assert lab.run("hosts", "check", file).code == 1
    file = experiment(lab, sshd, 2, {"host": "db1"}, {**dead, "optional": True})
    checked = lab.run("hosts", "check", file, "--json")
    assert checked.code == 0, "what is optional is not needed"
    assert [one["role"] for one in checked.json["checks"][-1]["hosts"]] == ["watch", "watch"]
    done = lab.run("run", file, "--json")
    assert done.code == 0 and "host-left-out" in done.err, done.err
    (run,) = done.json["runs"]
    assert any(note.startswith("db2 is not watched: it cannot be reached") for note in run["notes"])
    assert "db1" in run["utilization"] and "db2" not in run["utilization"]
    assert "db2 is not watched" in (lab.results() / "report.html").read_text()


@pytest.mark.long
def test_testers_on_one_host_and_the_target_on_another(lab: Lab, sshd: Sshd) -> None:
    where = {"kind": "ssh", "hosts": ["h1"], "controller": {"address": "127.0.0.1"}}
    done = lab.run("run", experiment(lab, sshd, 3, {"host": "db1"}, **where), "--json")
    assert done.code == 0, done.err
    places = [(one["agent"], one["role"]) for one in record(lab)["places"]]
    assert places == [("h1", "testers"), ("lab", "watch"), ("db1", "watch")]
    (run,) = done.json["runs"]
    assert run["hosts"]["agents"] == 1 and {"db1", "lab", "testers' host"} <= set(run["utilization"])
    assert not agents_left(sshd) and not spools(sshd)
