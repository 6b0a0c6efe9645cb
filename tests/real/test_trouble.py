"""What can go wrong while an experiment runs: a clear message or a marked run, and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.conftest import Lab, missing

LONG = """
plimsoll: 1
name: long
services: {web: {kind: echo, http: true, body: 10B}}
workload: {driver: http, target: web, timeout: 2s, http: {path: /}}
load: {testers: 2, think: 1ms}
factors: {load.testers: [1, 2]}
design: {repetitions: 2, seed: 5, order: listed}
run: {warmup: 200ms, duration: 3s, drain: 1s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


def wait_for(what: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def measured(lab: Lab) -> bool:
    """Whether the first run has written a second."""
    live = lab.directory / "results" / "latest" / "runs" / "0001" / "live.jsonl"
    return live.exists() and len(live.read_text().splitlines()) >= 2


def children(pid: int) -> list[int]:
    """All descendants."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for word in task.read_text().split():
            found += [int(word), *children(int(word))]
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(lab: Lab) -> None:
    process = lab.start("run", lab.file(LONG + "thresholds: [{metric: response, test: 'p(95)<10s'}]\n"))
    wait_for(lambda: measured(lab))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "--resume" in err
    assert "not judged yet: no valid run so far" in " ".join(out.split())
    assert "! the run is invalid" in out
    assert "FAILED" not in out and "failed:" not in out
    first = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert first["status"] == "stopped"
    summary = json.loads((lab.results() / "runs" / "0001" / "summary.json").read_text())
    assert summary["counters"]["succeeded"] > 0
    assert (lab.results() / "runs" / "0001" / "transactions.parquet").exists()
    assert "So far: 1 of 4 runs" in (lab.results() / "report.html").read_text()
    assert not (lab.results() / "runs" / "0002").exists()
    results = lab.results()
    done = lab.run("run", "--resume", results)
    assert done.code == 0, done.err
    assert "not judged" not in done.out
    runs = sorted(path.name for path in (results / "runs").iterdir())
    assert runs == ["0001", "0002", "0003", "0004"]
    records = [json.loads((results / "runs" / run / "run.json").read_text()) for run in runs]
    assert [record["status"] for record in records] == ["done"] * 4
    assert (results / "abandoned" / "0001.1" / "transactions.parquet").exists()


def test_a_killed_lab_leaves_no_process(lab: Lab) -> None:
    process = lab.start("run", lab.file(LONG))
    wait_for(lambda: measured(lab))
    all_of_them = children(process.pid)
    assert len(all_of_them) >= 3, "engine, agent and guarded service"
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not any(command_of(pid) for pid in all_of_them))


def test_a_killed_service_ends_the_run_with_its_last_lines(lab: Lab) -> None:
    process = lab.start("run", lab.file(LONG))
    wait_for(lambda: measured(lab))
    service = [
        pid
        for pid in children(process.pid)
        if " serve echo" in command_of(pid) and "guard" not in command_of(pid)
    ]
    assert len(service) == 1
    os.kill(service[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    first = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert first["status"] == "service-gone"
    assert "web" in first["reason"]
    assert "signal 9" in first["reason"]
    runs = json.loads((lab.results() / "analysis.json").read_text())["runs"]
    assert not runs[0]["valid"]
    assert runs[1]["valid"], "the service is started anew for the next run"


@pytest.mark.long
def test_a_killed_agent_is_an_event_and_costs_its_run_only(lab: Lab) -> None:
    process = lab.start("run", lab.file(LONG))
    wait_for(lambda: measured(lab))
    agent = [pid for pid in children(process.pid) if " agent " in command_of(pid)]
    assert len(agent) == 1
    os.kill(agent[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 98 or process.returncode == 97, err
    first = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert first["status"] == "agent-lost"
    events = (lab.results() / "runs" / "0001" / "events.jsonl").read_text()
    assert "agent-lost" in events
    second = json.loads((lab.results() / "runs" / "0002" / "run.json").read_text())
    assert second["status"] == "done"


def test_a_full_disk_marks_the_run_and_ends_in_words(lab: Lab) -> None:
    if os.geteuid() != 0:
        missing("root, to mount a small file system,", "run the tests as root")
    small = lab.directory / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", small],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        missing(f"the right to mount ({mounted.stderr.strip()})", "run the tests where mounting is allowed")
    try:
        process = lab.start("run", lab.file(LONG), "--out", small)
        wait_for(lambda: bool(list(small.glob("*/runs/0001/live.jsonl"))))
        with (small / "filler").open("wb") as filler, pytest.raises(OSError, match="No space"):
            while True:
                filler.write(b"x" * 1_000_000)
                filler.flush()
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err
        assert process.returncode != 0
        assert "space" in err.lower() or "damaged" in err.lower(), err
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_second_experiment_beside_it_is_not_disturbed_and_both_are_seen(lab: Lab) -> None:
    one = lab.start("run", lab.file(LONG))
    wait_for(lambda: measured(lab))
    two = lab.start("run", lab.file(LONG.replace("name: long", "name: second"), "second.yaml"))
    wait_for(lambda: lab.run("status").out.count("running") == 2)
    stopped = lab.run("stop", "--all")
    assert stopped.code == 0, stopped.err
    for process in (one, two):
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
    assert "no experiment of yours runs" in lab.run("status").out


@contextmanager
def hostile(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on loopback that does something else than it should."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)
    listener.settimeout(0.1)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            with peer:
                peer.settimeout(5)
                with suppress(OSError):
                    answer(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        thread.join()
        listener.close()


def rubbish(peer: socket.socket) -> None:
    peer.recv(4096)
    peer.sendall(b"\x00\xff<script>alert(1)</script> \r\n\r\n" * 20)


def early(peer: socket.socket) -> None:
    peer.recv(4096)
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def silent(peer: socket.socket) -> None:
    time.sleep(1.5)


@pytest.mark.parametrize(("answer", "outcome"), [(rubbish, "error"), (early, "error"), (silent, "timeout")])
def test_a_target_that_misbehaves_is_counted_by_kind(
    lab: Lab, answer: Callable[[socket.socket], None], outcome: str
) -> None:
    with hostile(answer) as port:
        done = lab.run(f"http://127.0.0.1:{port}/", "-c", "1", "-n", "2", "-t", "1s", "--json")
    assert done.code == 0, done.err
    run = done.json["runs"][0]
    kinds = {one["outcome"] for one in run["errors_by_kind"]}
    assert kinds == {outcome}
    assert run["counts"]["failed"] == 2
    assert run["valid"] and run["error_rate"] == 1, "the target was measured: it fails"


def test_a_target_that_refuses_is_said(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    done = lab.run(f"http://127.0.0.1:{port}/", "-c", "1", "-n", "5", "--no-probe")
    assert done.code == 0
    assert "The target served nothing: all 5 requests failed: refused (5)" in " ".join(done.out.split())
