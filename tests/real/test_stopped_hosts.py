"""Hosts that stop answering (SIGSTOP): for less than the silence that is noticed, for more, and beyond the grace."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.conftest import Lab
from tests.real.emulated import agents, events, measuring, record, summary, wait_for
from tests.real.sshd import Sshd, running_sshd
from tests.real.test_hosts_faults import agent_of, experiment, started_by


@pytest.fixture
def sshd(lab: Lab) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(lab.directory / "sshd") as found:
        yield found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_host_that_goes_on_in_time_loses_nothing_and_one_that_does_not_is_lost(
    sshd: Sshd, lab: Lab
) -> None:
    process = lab.start("run", experiment(sshd, lab.directory, 18, link_grace="6s"), "--quiet")
    run = measuring(lab)
    blink, pause, gone = (agent_of(sshd, name) for name in ("h1", "h2", "h3"))
    stopped = time.time()
    for pid in (blink, pause, gone):
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(2)
        os.kill(blink, signal.SIGCONT)
        time.sleep(5.5)
        os.kill(pause, signal.SIGCONT)
        _, err = process.communicate(timeout=90)
    finally:
        for pid in (blink, pause, gone):
            with contextlib.suppress(ProcessLookupError):  # it has ended with its experiment
                os.kill(pid, signal.SIGCONT)
    assert process.returncode in (97, 98), err
    books, zero = summary(run), record(run)["t0_unix_ns"] / 1e9
    told = [(one["kind"], one["text"].split(" agent ")[-1].split()[0], one["t_s"]) for one in events(run)]
    print(f"STOPPED at {stopped - zero:.1f} s: {events(run)}")
    assert not [one for one in events(run) if "h1" in one["text"]], "nobody notices two seconds"
    [cut] = [one for one in events(run, "link-cut") if "h2" in one["text"]]
    [made] = [one for one in events(run, "link-made") if "h2" in one["text"]]
    assert stopped - zero + 4 < cut["t_s"] < made["t_s"], told
    [lost] = events(run, "agent-lost")
    assert "h3" in lost["text"] and lost["t_s"] > stopped - zero + 10
    assert [one["name"] for one in books["agents"] if one["lost"]] == ["h3"]
    assert all("h3" in text for text in books["damage"]), books["damage"]
    for name in ("h1", "h2"):
        [one] = [one for one in books["agents"] if one["name"] == name]
        counters = one["books"]["counters"]
        assert counters["started"] == counters["succeeded"] + counters["failed"] > 50
    # What the third had measured is brought in once it answers.
    wait_for("the end of the agent that woke up", lambda: not agents(sshd.home), 30)
    done = lab.run("collect", lab.results())
    assert done.code == 0, done.out + done.err
    books = summary(run)
    assert started_by(books, "h3") > 50
    assert books["rows"]["counters"]["started"] == books["counters"]["started"]
    [web] = record(run)["services"]
    assert (
        web["counters"]["answered"] >= books["counters"]["succeeded"] - 8
    )  # six testers, and what came after the last reading
    wait_for("the agents' end", lambda: not agents(sshd.home))
    assert not [path for path in sshd.home.rglob("spool-*") if any(one.is_file() for one in path.rglob("*"))]
