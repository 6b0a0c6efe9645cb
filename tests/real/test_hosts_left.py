"""What an experiment leaves on its hosts, wherever it is broken off: while files are copied, while agents are started,
in mid-run; by Ctrl-C, by `plimsoll stop`, by a kill -9. `plimsoll hosts clean` proves it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Lab, descendants_in
from tests.real.dial_in import Start, finish, starting, until
from tests.real.sshd import Sshd, running_sshd
from tests.real.test_hosts_faults import (
    agent_of,
    agents_left,
    experiment,
    has_load,
    spools,
    started_by,
    summary_of,
)

THIN = """\
import os, selectors, socket, sys, time
there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
with selectors.DefaultSelector() as ready:
    ready.register(0, selectors.EVENT_READ)
    ready.register(there, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            data = os.read(key.fd, 20_000)
            if not data:
                sys.exit()
            if key.fd == 0:
                there.sendall(data)
                time.sleep(len(data) / 3e6)
            else:
                os.write(1, data)
"""
"""A link to a host that takes 3 MB/s."""
STUCK = 'case "$SSH_ORIGINAL_COMMAND" in *attach*/h2) exec cat ;; esac; exec sh -c "$SSH_ORIGINAL_COMMAND"'
"""A host on which h2's agent never begins to speak."""


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(tmp_path / "sshd") as found:
        yield found


@pytest.fixture
def stuck(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd", f"ForceCommand {STUCK}") as found:
        yield found


@pytest.fixture
def start(lab: Lab) -> Iterator[Start]:
    with starting(lab) as found:
        yield found


def files(sshd: Sshd) -> list[str]:
    """What lies on the hosts, an engine by its word."""
    return [
        "engine" if path.name.startswith("engine-") else path.name
        for path in sshd.home.rglob("*")
        if path.is_file()
    ]


def busy(sshd: Sshd) -> list[str]:
    """Processes on the hosts, and calls of ssh to them."""
    found = descendants_in(sshd.directory)
    return [one for one in found if not one.startswith("sshd:") or "[listener]" not in one]


def proves(lab: Lab, path: Path, *options: str) -> str:
    done = lab.run("hosts", "clean", path, *options)
    assert done.code == 0, done.out + done.err
    return done.out


CLEAN = "".join(f"h{number}: clean: no process or file of Plimsoll is left\n" for number in (1, 2, 3))


def broken_off(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    assert finish(process, 40).code == (130 if number == signal.SIGINT else -number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.long
def test_broken_off_while_the_engine_is_copied(
    sshd: Sshd, lab: Lab, start: Start, number: signal.Signals
) -> None:
    thin = lab.file(THIN, "thin.py")
    options = ["-o", f"ProxyCommand={sys.executable} {thin} {sshd.port}"]
    told = {"config": str(sshd.aliases("h1", "h2", "h3")), "options": options}
    path = experiment(sshd, lab.directory, 5, ssh=told, sites={"s": ["h1"]})
    process = start(path)
    until("a part", lambda: [one for one in sshd.home.rglob("part-*") if one.stat().st_size > 500_000])
    broken_off(process, number)
    until("the end of every call", lambda: not busy(sshd), 60)
    # Calls of a lab that was killed go on to their end: what they bring has its name only when all of it is there.
    assert set(files(sshd)) <= (set() if number == signal.SIGINT else {"engine"})
    assert proves(lab, experiment(sshd, lab.directory, 5)) == CLEAN
    assert not (sshd.home / ".cache" / "plimsoll").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_broken_off_while_agents_are_started(
    stuck: Sshd, lab: Lab, start: Start, number: signal.Signals
) -> None:
    path = experiment(stuck, lab.directory, 5)
    process = start(path)
    agent_of(stuck, "h1")
    agent_of(stuck, "h3")
    broken_off(process, number)
    until("the end of the agents", lambda: not busy(stuck), 20)
    assert files(stuck) == ["engine"]
    assert proves(lab, path) == CLEAN and files(stuck) == []


@pytest.mark.parametrize("link", ["ssh", pytest.param("tcp", marks=pytest.mark.long)])
def test_stopped_in_mid_run(sshd: Sshd, lab: Lab, start: Start, link: str) -> None:
    path = experiment(sshd, lab.directory, 60, link=link)
    process = start(path)
    results = has_load(lab.directory)
    done = lab.run("stop", results)
    assert (done.code, done.out) == (0, f"stopped {results}\n"), done.err
    assert not busy(sshd) and files(sshd) == ["engine"], "it says so when it is so"
    assert finish(process, 5).code == 130
    summary = summary_of(results)
    assert summary["balanced"] and started_by(summary, "h2") > 50
    assert proves(lab, path) == CLEAN and files(sshd) == []


@pytest.mark.parametrize("link", [pytest.param("ssh", marks=pytest.mark.long), "tcp"])
@pytest.mark.long
def test_the_host_of_the_lab_goes_in_mid_run(sshd: Sshd, lab: Lab, start: Start, link: str) -> None:
    path = experiment(sshd, lab.directory, 60, link=link)
    process = start(path)
    results = has_load(lab.directory)
    ours = [process.pid, *children(process.pid)]
    ours += [child for one in ours[1:] for child in children(one)]
    # Stopped first, parents before their children, so that none ends by itself when it sees another one end.
    for sent in (signal.SIGSTOP, signal.SIGKILL):
        for pid in ours:
            os.kill(pid, sent)
    process.communicate()
    # link_grace is 2 s, and transactions in progress have the drain to end in.
    until("the end of the agents", lambda: not agents_left(sshd), 30)
    assert len(list(sshd.home.rglob("*.arrow"))) >= 3, "what was measured is kept"
    said = proves(lab, path)
    assert said.count("kept ") == 3 and "contains data that was not collected" in said
    assert len(spools(sshd)) == 1, "they share a directory here"
    done = lab.run("collect", results)
    assert done.code == 0, done.out + done.err
    assert started_by(summary_of(results), "h2") > 50 and not spools(sshd)
    assert proves(lab, path) == CLEAN and files(sshd) == []


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
