"""Limits of services and of client programs, with real control groups. Without the right to create them, the tests of
their effect are skipped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.limits import proof_of, prove_here, require_limits
from plimsoll.deploy.process import GuardedProcess, Program
from plimsoll.errors import BadInput
from plimsoll.plan import parse_experiment
from plimsoll.plan.model.limits import Limits
from tests.conftest import Lab, missing
from tests.real.second_host import second_host
from tests.real.test_trouble import wait_for

SERVER = """\
import http.server, random, socketserver, sys, time

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        # The kernel kills this process first: a child of the forking server, not the server.
        open("/proc/self/oom_score_adj", "w").write("1000")
        kept = bytearray(random.choice([1, {megabytes}]) << 20)
        time.sleep(0.1)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

class Server({kind}, http.server.HTTPServer):
    allow_reuse_address = True

Server(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
EXPERIMENT = """\
plimsoll: 1
name: short
services:
  web:
    kind: command
    command: [python3, {server}, "{{port}}"]
    limits: {{memory: 64MB}}
workload: {{driver: http, target: web, timeout: 5s}}
load: {{testers: 4, think: 20ms}}
run: {{duration: {duration}}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
"""


def groups_left() -> list[str]:
    """Control groups of guards that have ended."""
    found = subprocess.run(
        ["find", "/sys/fs/cgroup", "-name", "plimsoll-*", "-type", "d"],
        capture_output=True,
        text=True,
        check=False,
    )
    paths = found.stdout.split()
    return [
        path for path in paths if not Path(f"/proc/{path.rpartition('plimsoll-')[2].split('-')[0]}").exists()
    ]


def require(tmp_path: Path, *resources: str) -> None:
    """Skips the test on a host that cannot limit this."""
    if text := prove_here(find_engine(), tmp_path, resources).text():
        missing(text, "run the tests as root, on a host with control groups")


def server(tmp_path: Path, kind: str, megabytes: int) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER.format(kind=kind, megabytes=megabytes))
    return path


@pytest.mark.alone
def test_memory_is_named_as_the_limit_of_a_server_whose_limit_is_hit(lab: Lab, tmp_path: Path) -> None:
    require(tmp_path, "memory")
    program = server(tmp_path, "socketserver.ForkingMixIn", 45)
    done = lab.run("run", lab.file(EXPERIMENT.format(server=program, duration="4s")), "--json")
    record = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert (record["status"], record["reason"]) == ("done", "")
    run = done.json["runs"][0]
    assert run["bottleneck"] == "web"
    assert run["bottleneck_why"]["code"] == "memory"
    assert run["bottleneck_why"]["values"]["oom_kills"] >= 1
    assert run["bottleneck_why"]["values"]["limit"] == pytest.approx(64e6, rel=0.001)
    answer = " ".join(done.json["answer"]).replace("\u00a0", " ")
    assert "bottleneck: the memory of the web service (the kernel killed" in answer
    assert "at its limit of 64 MB" in answer
    assert record["services"][0]["limits"] == {"memory": 64_000_000}
    assert groups_left() == []


def test_a_service_that_dies_at_its_limit_is_reported_with_the_reason(lab: Lab, tmp_path: Path) -> None:
    require(tmp_path, "memory")
    program = server(tmp_path, "socketserver.ThreadingMixIn", 60)
    lab.run("run", lab.file(EXPERIMENT.format(server=program, duration="30s")), "--no-probe")
    record = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert record["status"] == "service-gone"
    assert (
        "ran out of memory: the kernel killed it at its memory limit of 64 MB (`limits`)" in record["reason"]
    )
    assert groups_left() == []


def cpu_seconds(pid: int) -> float:
    """Processor time of the child of a guard, s."""
    child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def guarded(tmp_path: Path, limits: Limits, command: str) -> GuardedProcess:
    return GuardedProcess(
        find_engine(), Program("busy", ["sh", "-c", command], tmp_path / "log", limits=limits)
    )


def test_a_group_is_removed_also_when_its_guard_was_killed(tmp_path: Path) -> None:
    require(tmp_path, "cpu")
    process = guarded(tmp_path, Limits(cpu=0.1), "while :; do :; done")
    wait_for(lambda: bool(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()), 20)
    begin, before = time.monotonic(), cpu_seconds(process.pid)
    time.sleep(1.0)
    assert cpu_seconds(process.pid) - before <= 0.2 * (time.monotonic() - begin) + 0.05
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stop()
    assert groups_left() != []
    subprocess.run([find_engine(), "limits", "clean"], check=True, capture_output=True)
    assert groups_left() == []


def test_a_stop_removes_the_group(tmp_path: Path) -> None:
    require(tmp_path, "memory")
    process = guarded(tmp_path, Limits(memory=64_000_000), "setsid sleep 1000 & sleep 1000")
    name = f"plimsoll-{process.pid}-"
    wait_for(lambda: any(name in path for path in all_groups()), 20)
    process.kill_tree()
    process.start_again()
    process.stop()
    assert not any(name in path for path in all_groups())


def all_groups() -> list[str]:
    return [str(path) for path in Path("/sys/fs/cgroup").rglob("plimsoll-*") if path.is_dir()]


def test_a_client_program_is_killed_at_its_limit(lab: Lab, tmp_path: Path) -> None:
    require(tmp_path, "memory")
    text = (
        "plimsoll: 1\nname: client\nworkload:\n  driver: exec\n  exec:\n"
        "    command: [python3, -c, 'bytearray(60000000)']\n    limits: {memory: 40MB}\n"
        "load: {testers: 1}\nrun: {duration: 2s}\n"
    )
    document = lab.run("run", lab.file(text), "--json", "--no-probe").json
    kinds = {(error["outcome"], error["code"]) for error in document["runs"][0]["errors_by_kind"]}
    assert kinds == {("error", "out of memory")}
    assert groups_left() == []


def test_limits_are_refused_without_the_right_to_set_them(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("only root can become another user", "run the tests as root")
    engine = Path("/var/tmp") / f"plimsoll-engine-{os.getpid()}"
    shutil.copy(find_engine(), engine)
    engine.chmod(0o755)
    try:
        done = subprocess.run(
            [engine, "limits", "test", "--directory", "/var/tmp", "memory", "cpu"],
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        engine.unlink()
    proof = proof_of(done.returncode, done.stdout, ["memory", "cpu"])
    assert set(proof.reasons) == {"memory", "cpu"}
    assert "Limits need root, or a group that is delegated to this user" in proof.text()
    file = EXPERIMENT.format(server="/dev/null", duration="1s")
    with pytest.raises(
        BadInput, match=r"x.yaml:7: services.web.limits.memory: this host cannot limit it: no control"
    ):
        require_limits(proof, parse_experiment(file, "x.yaml", tmp_path, [], {}))


@pytest.mark.long
@pytest.mark.xdist_group("second host")
def test_another_host_refuses_limits_that_do_not_hold_there(lab: Lab, tmp_path: Path) -> None:
    with second_host(tmp_path / "second") as second:
        text = (
            "plimsoll: 1\nname: far\n"
            f"hosts: {{kind: ssh, keep: nothing, ssh: {{config: {second.config}}},\n"
            "  hosts: [{host: second, agents: 0}]}\n"
            "services: {web: {kind: echo, host: second, limits: {memory: 64MB}}}\n"
            "workload: {driver: http, target: web}\nload: {testers: 1}\nrun: {duration: 1s}\n"
        )
        done = lab.run("run", lab.file(text))
        assert done.code != 0
        assert (
            "services cannot run on these hosts: second: memory cannot be limited: no control group"
            in done.err
        )
        assert second.processes() == []
