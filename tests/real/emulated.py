"""Experiments on emulated hosts: a testbed, a lab inside it, servers that count, and what may not be left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.testbed import Testbed, up
from plimsoll.plan.hosts.testbed import parse_testbed
from tests.conftest import Lab, descendants_in, missing

TIMEOUT_S = 60.0
VALIDITY = "{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}"
"""How busy this machine is, and what is left of a run after a fault, makes none invalid."""


@dataclass(frozen=True)
class Emulated:
    """`lab`: works on the host lab; `directory`: of the agents on all hosts, which share a file system."""

    bed: Testbed
    lab: Lab
    directory: Path
    _begun: list[subprocess.Popen[Any]] = field(default_factory=list)

    def start_on(self, host: str, *words: str | Path, **more: Any) -> subprocess.Popen[str]:
        """A command on a host, ended with the test."""
        argv = [*self.bed.enter_argv(host), *map(str, words)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, text=True, **more)
        self._begun.append(process)
        return process

    def run_on(self, host: str, *words: str | Path) -> str:
        """The output of a command on a host."""
        argv = [*self.bed.enter_argv(host), *map(str, words)]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout

    def serve(self, host: str, kind: str = "echo") -> Server:
        """One of our services on a host, outside of any experiment."""
        listen = f"{self.bed.host(host).address}:0"
        words = (find_engine(), "serve", kind, "--end-with-parent", "--listen", listen)
        process = self.start_on(host, *words, stdout=subprocess.PIPE)
        assert process.stdout is not None
        return Server(self, host, str(json.loads(process.stdout.readline())["listening"]))

    def cut(self, one: str, other: str) -> float:
        """Cuts a link; when."""
        return self._link(one, other, down=True)

    def mend(self, one: str, other: str) -> float:
        """The opposite."""
        return self._link(one, other, down=False)

    def _link(self, one: str, other: str, *, down: bool) -> float:
        words = ("testbed", "link", self.bed.name, one, other, "--down" if down else "--up")
        done = Lab(self.lab.directory).run(*words)
        assert done.code == 0, done.err
        return time.time()

    def end(self) -> None:
        """Ends what was started."""
        for process in self._begun:
            process.kill()
            process.communicate()


@dataclass(frozen=True)
class Server:
    """A service on a host; it is asked from that host itself, whatever its links are like."""

    emulated: Emulated
    host: str
    address: str

    @property
    def url(self) -> str:
        """What a workload names."""
        return f"http://{self.address}/"

    def count(self) -> int:
        """Requests that it has answered."""
        script = f"import urllib.request as u; print(u.urlopen('http://{self.address}/plimsoll/count').read().decode())"
        return int(self.emulated.run_on(self.host, "python3", "-c", script))


@contextlib.contextmanager
def emulated(lab: Lab, text: str) -> Iterator[Emulated]:
    """A testbed from a file's text, up for a test. At its end nothing of it or of what ran in it may be left."""
    if not shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"):
        missing("sshd", "apt-get install openssh-server")
    if subprocess.run(["unshare", "-Urn", "true"], check=False, capture_output=True).returncode:
        missing("the right to make network namespaces", "be root, or allow user namespaces")
    # The path of a socket is short, so not below tmp_path.
    with (
        tempfile.TemporaryDirectory(prefix="em-") as short,
        mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": short}),
    ):
        home = Path(short)
        bed = up(parse_testbed(text, "bed.yaml"))
        try:
            networks = {_network(bed, host.name) for host in bed.hosts}
            inside = Lab(lab.directory, bed.enter_argv())
            found = Emulated(bed, inside, home / "hosts")
            try:
                yield found
                nothing_left(found)
            finally:
                found.end()
        finally:
            bed.down()
        assert not bed.directory.exists()
        assert not descendants_in(home), "processes are left"
        assert not networks & set(_networks()), "a namespace is left"


def nothing_left(found: Emulated) -> None:
    """After an experiment: no agent, and of its files the engine only."""
    wait_for("the agents' end", lambda: not agents(found.directory))
    left = [path for path in found.directory.rglob("*") if path.is_file()]
    assert all(path.name.startswith("engine-") for path in left), left


def agents(directory: Path) -> list[int]:
    """Processes of the engine that work in a directory of agents."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if b"agent" in words and (place / "cwd").readlink().is_relative_to(directory):
                found.append(int(place.name))
    return found


def agent_of(directory: Path, name: str) -> int:
    """The process of one agent: it works in a directory of that name."""
    found = [pid for pid in agents(directory) if Path(f"/proc/{pid}/cwd").readlink().name == name]
    assert len(found) == 1, found
    return found[0]


def _networks() -> Iterator[str]:
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield str((place / "ns" / "net").readlink())


def _network(bed: Testbed, host: str) -> str:
    words = [*bed.enter_argv(host), "readlink", "/proc/self/ns/net"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def wait_for(what: str, found: Callable[[], Any], patience_s: float = TIMEOUT_S) -> Any:
    """What comes in the end, or a failure that says what did not."""
    since = time.monotonic()
    while not (value := found()):
        assert time.monotonic() - since < patience_s, f"{what}: not within {patience_s:g} s"
        time.sleep(0.05)
    return value


def measuring(lab: Lab, seconds: int = 2, run: str = "0001") -> Path:
    """The directory of the run, once its load has gone on for a while."""

    def look() -> Path | None:
        found = sorted(lab.directory.glob(f"results/*-*/runs/{run}/live.jsonl"))
        return found[-1].parent if found and len(found[-1].read_text().splitlines()) > seconds else None

    return Path(wait_for("the load", look))


def summary(run: Path) -> dict[str, Any]:
    """The books of a run."""
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def record(run: Path) -> dict[str, Any]:
    """What the lab says of a run."""
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def events(run: Path, kind: str = "") -> list[dict[str, Any]]:
    """What happened, of a kind or all."""
    lines = map(json.loads, (run / "events.jsonl").read_text().splitlines())
    return [one for one in lines if kind in ("", one["kind"])]
