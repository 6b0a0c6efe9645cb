"""Limits of testers and of disks, with real control groups. Without the right to create them, the tests are skipped."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import Lab
from tests.real.second_host import second_host
from tests.real.sshd import running_sshd
from tests.real.test_hosts_faults import experiment
from tests.real.test_limits import groups_left, require

LIMITED = """\
plimsoll: 1
name: limited
services: {web: {kind: echo}}
workload: {driver: http, target: web}
load: {testers: 4}
run: {duration: 2s}
hosts: {kind: local, hosts: [a, b]}
factors: {share: {path: hosts.limits.cpu, levels: [5%, none]}}
validity: {gaps: 10%, trend: false, steal: 100%}
"""
READER = """\
import http.server, mmap, os, sys

piece = mmap.mmap(-1, 1 << 20)
file = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECT)

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if not os.preadv(file, [piece], 0):
            raise OSError
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def values(run: Path, metric: str) -> dict[str, list[float]]:
    """The samples of the testers of each agent."""
    found = defaultdict(list)
    for row in pq.read_table(run / "samples.parquet").to_pylist():
        if (row["component"], row["metric"]) == ("testers", metric):
            found[row["agent"]].append(row["value"])
    return found


def runs_by_level(lab: Lab) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The directory and the result of the run of each level."""
    analysis = json.loads((lab.results() / "analysis.json").read_text())
    return {run["cell"]["share"]: (lab.results() / "runs" / run["id"], run) for run in analysis["runs"]}


@pytest.mark.alone
def test_two_agents_keep_to_their_share_and_the_run_is_valid(lab: Lab, tmp_path: Path) -> None:
    require(tmp_path, "cpu")
    done = lab.run("run", lab.file(LIMITED), "--no-probe")
    assert done.code in (0, 97), done.err
    runs = runs_by_level(lab)
    directory, limited = runs["5%"]
    assert set(values(directory, "cpu.limit")) == {"a", "b"}
    for shares in values(directory, "cpu").values():
        assert sum(shares) / len(shares) <= 2 * 0.05
    assert limited["verdict"] == "valid", limited["reasons"]
    assert limited["utilization"]["testers"]["resource"] == "cpu of its limit of 0.05 cores"
    # CPU time has steps of 10 ms. 5 % of a core is 5 steps per second: a short run may not show
    # that the limit is full. If it does, it is no full load generator.
    assert limited["bottleneck_verdict"] in ("resolved", "not resolved")
    (note,) = (text for text in limited["notes"] if "CPU limit" in text)
    assert note.startswith("the testers used their CPU limit of 5.0\u00a0% of a core")
    free, unlimited = runs["none"]
    assert not values(free, "cpu.limit")
    assert unlimited["counts"]["succeeded"] > 1.5 * limited["counts"]["succeeded"]
    assert groups_left() == []


@pytest.mark.long
def test_an_agent_that_is_killed_at_its_memory_limit_is_named(lab: Lab, tmp_path: Path) -> None:
    require(tmp_path, "memory")
    text = (
        "plimsoll: 1\nname: full\nhosts: {limits: {memory: 40MB}}\n"
        "workload: {driver: exec, exec: {command: [python3, -c, 'bytearray(100000000)']}}\n"
        "load: {testers: 1}\nrun: {duration: 2s}\n"
    )
    done = lab.run("run", lab.file(text), "--json", "--no-probe")
    # The kernel chooses the program, which is larger than the agent.
    kinds = {(error["outcome"], error["code"]) for error in done.json["runs"][0]["errors_by_kind"]}
    assert kinds == {("error", "signal 9")}
    assert groups_left() == []


@pytest.mark.long
def test_a_disk_limit_is_named_as_the_bottleneck(lab: Lab, tmp_path: Path) -> None:
    require(tmp_path, "disk_read")
    program, data = tmp_path / "reader.py", tmp_path / "data"
    program.write_text(READER)
    data.write_bytes(bytes(1 << 20))
    text = (
        "plimsoll: 1\nname: disk\nservices:\n"
        f'  web: {{kind: command, command: [python3, {program}, "{{port}}", {data}], '
        "limits: {disk_read: 8MB/s}}\n"
        "workload: {driver: http, target: web, timeout: 20s}\nload: {testers: 4}\n"
        "run: {warmup: 2s, duration: 8s}\n"
        "validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}\n"
    )
    done = lab.run("run", lab.file(text), "--json", "--no-probe")
    run = done.json["runs"][0]
    assert run["bottleneck"] == "web"
    assert run["bottleneck_why"]["values"]["resource"] == "disk reads of its limit of 8 MB/s"
    answer = " ".join(done.json["answer"]).replace("\u00a0", " ")
    assert "bottleneck: the web service (disk reads of its limit of 8 MB/s at" in answer
    assert groups_left() == []


@pytest.mark.long
@pytest.mark.parametrize("link", ["ssh", "tcp"])
def test_agents_on_other_hosts_change_their_limits_between_runs(lab: Lab, tmp_path: Path, link: str) -> None:
    require(tmp_path, "cpu")
    with running_sshd(tmp_path / "sshd") as sshd:
        text = experiment(sshd, lab.directory, 2, link=link, limits={"cpu": "none"}).read_text()
        text += "factors: {share: {path: hosts.limits.cpu, levels: [20%, none]}}\n"
        done = lab.run("run", lab.file(text), "--no-probe")
        assert done.code in (0, 97), done.err
        runs = runs_by_level(lab)
        limits = values(runs["20%"][0], "cpu.limit")
        assert {tuple(set(of_agent)) for of_agent in limits.values()} == {(0.2,)}
        assert len(limits) == 3
        assert not values(runs["none"][0], "cpu.limit")
    assert groups_left() == []


@pytest.mark.long
@pytest.mark.xdist_group("second host")
def test_a_host_of_testers_on_which_limits_do_not_hold_is_left_out(lab: Lab, tmp_path: Path) -> None:
    with second_host(tmp_path / "second") as second:
        text = (
            "plimsoll: 1\nname: far\n"
            f"hosts: {{kind: ssh, keep: nothing, ssh: {{config: {second.config}}}, hosts: [second],\n"
            "  controller: {address: 127.0.0.1}, limits: {cpu: 20%}}\n"
            "services: {web: {kind: echo}}\n"
            "workload: {driver: http, target: web}\nload: {testers: 1}\nrun: {duration: 1s}\n"
        )
        file = lab.file(text)
        done = lab.run("run", file)
        reason = "second: cpu cannot be limited: no control group can be created"
        assert done.code != 0
        assert reason in done.err
        checked = lab.run("hosts", "check", file)
        assert checked.code != 0
        assert "second: left out: cpu cannot be limited: no control group can be created" in checked.out
        assert second.processes() == []
