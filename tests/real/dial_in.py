"""What the tests of hosts that dial in share: one workload, and what must hold after each experiment."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import Done, Lab

WORKLOAD = """\
plimsoll: 1
name: far
services: {{web: {{kind: echo}}}}
workload: {{driver: http, target: web}}
load: {{testers: 6, think: 5ms}}
run: {{duration: {duration}, drain: 5s}}
design: {{repetitions: {repetitions}}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
hosts:
  controller: {{address: 127.0.0.1}}
  link_grace: 2s
"""


def experiment(hosts: str, *, duration: str = "2s", repetitions: int = 1) -> str:
    """The file; `hosts`: the keys that differ, a line each."""
    lines = "".join(f"  {line}\n" for line in hosts.strip().splitlines())
    return WORKLOAD.format(duration=duration, repetitions=repetitions) + lines


PROGRAM = """\
plimsoll: 1
name: program
workload:
  driver: exec
  timeout: 20s
  exec: {{command: [./client.sh], files: [./client.sh, data.csv], env: {{DATA: data.csv}}, bytes: {{json: true}}}}
load: {{testers: 2, think: 20ms}}
run: {{duration: 2s, drain: 10s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}}
hosts: {hosts}
"""
CLIENT = """\
#!/bin/sh
case "$0" in {place}/client.sh) ;; *) echo "not this one: $0" >&2; exit 3;; esac
test "$(cat "$DATA")" = "1,2" || exit 4
echo '{{"items": 7}}'
"""


def program_of_its_own(lab: Lab, hosts: str, *, copied: bool = True) -> Path:
    """An experiment with a program and data beside it. `copied`: it refuses to be anything but a copy."""
    program = lab.directory / "client.sh"
    program.write_text(CLIENT.format(place="*/file-*" if copied else lab.directory))
    program.chmod(0o755)
    (lab.directory / "data.csv").write_text("1,2\n")
    return lab.file(PROGRAM.format(hosts=hosts))


def summary(results: Path, run: str = "0001") -> dict[str, Any]:
    """The engine's books of a run."""
    found: dict[str, Any] = json.loads((results / "runs" / run / "summary.json").read_text())
    return found


def carried(results: Path, run: str = "0001") -> list[dict[str, Any]]:
    """The agents of a run that have testers, without the one that watches this host."""
    return [one for one in summary(results, run)["agents"] if one["name"] != "lab"]


def events(results: Path, run: str = "0001") -> list[dict[str, Any]]:
    """What happened in a run."""
    lines = (results / "runs" / run / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def finish(process: subprocess.Popen[str], limit_s: float = 100) -> Done:
    """The end of a command that was started."""
    out, err = process.communicate(timeout=limit_s)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)


def until(what: str, holds: Callable[[], object], limit_s: float = 60) -> None:
    """Waits for something that will come."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {limit_s} s"
        time.sleep(0.05)


def measuring(lab: Lab, process: subprocess.Popen[str], run: str = "0001") -> Callable[[], bool]:
    """Whether the load of a run has begun."""

    def holds() -> bool:
        assert process.poll() is None, process.communicate()[1]
        live = lab.directory / "results"
        found = list(live.glob(f"*/runs/{run}/live.jsonl"))
        return bool(found) and len(found[0].read_text().splitlines()) > 1

    return holds


def no_secret_stays(directory: Path) -> None:
    """The keys of the experiment stand in no file."""
    for path in directory.rglob("*"):
        if path.is_file() and path.stat().st_size < 10_000_000:
            data = path.read_bytes()
            assert b"plimsoll.token/1" not in data and b"time_key" not in data, path


Start = Callable[[Path], subprocess.Popen[str]]


@contextmanager
def starting(lab: Lab) -> Iterator[Start]:
    """Starts experiments that go on; none outlives a test that fails."""
    begun: list[subprocess.Popen[str]] = []

    def start(path: Path) -> subprocess.Popen[str]:
        begun.append(lab.start("run", path))
        return begun[-1]

    try:
        yield start
    finally:
        for process in begun:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Asks first, so that it can leave its hosts."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
