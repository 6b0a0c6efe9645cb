"""Commands before and after a run on the hosts of its testers, over a real ssh."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Lab, descendants_in
from tests.real.dial_in import Start, events, finish, measuring, starting, until
from tests.real.sshd import Sshd, running_sshd
from tests.real.test_hosts_faults import agents_left, experiment


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(tmp_path / "sshd") as found:
        yield found


@pytest.fixture
def start(lab: Lab, sshd: Sshd) -> Iterator[Start]:
    with starting(lab) as found:
        yield found


def hooked(
    sshd: Sshd, lab: Lab, *, seconds: int = 1, hosts: dict[str, object] | None = None, **hooks: object
) -> Path:
    """An experiment of three hosts; `hooks`: before_run, after_run."""
    path = experiment(sshd, lab.directory, seconds, **(hosts or {}))
    lines = "".join(f"{when}: {json.dumps(hook)}\n" for when, hook in hooks.items())
    path.write_text(path.read_text(encoding="utf-8") + lines, encoding="utf-8")
    return path


def said(lab: Lab, kind: str = "hook") -> list[str]:
    return [one["text"] for one in events(lab.results()) if one["kind"] == kind]


@pytest.mark.parametrize("link", ["ssh", pytest.param("tcp", marks=pytest.mark.long)])
def test_every_host_of_a_run_and_this_one(sshd: Sshd, lab: Lab, link: str) -> None:
    odd = "a'b\"c $HOME `x` \\n\nsecond ! line"
    before = [
        {"run": 'h="$PLIMSOLL_HOST"; test -n "$h" || h=here; echo "$PLIMSOLL_RUN $h."; cat', "on": "all"},
        {"run": ["printf", "<%s>", odd, ""], "on": "hosts"},
    ]
    path = hooked(
        sshd, lab, hosts={"link": link, "use": 2}, before_run=before, after_run=[{"run": "echo over"}]
    )
    done = lab.run("run", path, "--quiet")
    assert done.code == 0, done.err
    # `use: 2` takes a host of each site: nobody runs anything on h3.
    ends = [
        "`: 0001 here.",
        "` on h1: 0001 h1.",
        "` on h2: 0001 h2.",
        f"on h1: <{odd}><>",
        f"on h2: <{odd}><>",
        "`: over",
    ]
    assert [text.endswith(end) for text, end in zip(said(lab), ends, strict=True)] == [True] * 6, said(lab)
    assert not agents_left(sshd)


@pytest.mark.long
def test_a_secret_shows_on_no_command_line_of_ours_and_in_no_file(sshd: Sshd, lab: Lab, start: Start) -> None:
    lab.env["HOOK_SECRET"] = "hunter2-of-the-hook"
    run = [
        "sh",
        "-c",
        'read -r x < "$0"; echo "$1"',
        str(lab.directory / "fifo"),
        {"secret": "${env:HOOK_SECRET}"},
    ]
    path = hooked(sshd, lab, before_run=[{"run": run, "on": "hosts"}], hosts={"sites": {"s": ["h1"]}})
    os.mkfifo(lab.directory / "fifo")
    process = start(path)
    until("the command", lambda: [one for one in descendants_in(lab.directory) if "hunter2" in one])
    assert not [
        one for one in descendants_in(lab.directory) if "hunter2" in one and one.startswith(("ssh", "sshd"))
    ]
    (lab.directory / "fifo").write_text("go\n")
    done = finish(process)
    assert done.code == 0, done.err
    [text] = said(lab)
    assert text.endswith("on h1: ***"), text
    assert not [one for one in lab.results().rglob("*") if one.is_file() and b"hunter2" in one.read_bytes()]


@pytest.mark.long
def test_one_host_on_which_it_fails_fails_the_run_and_is_named(sshd: Sshd, lab: Lab) -> None:
    run = 'echo broken here; test "$PLIMSOLL_HOST" != h2 || exit 7'
    done = lab.run("run", hooked(sshd, lab, before_run=[{"run": run, "on": "hosts"}]), "--quiet")
    assert done.code == 97, done.err
    record = json.loads((lab.results() / "runs/0001/run.json").read_text())
    assert record["status"] == "hook-failed"
    assert record["reason"].endswith("` failed\non h2 with exit status 7: broken here")
    done = lab.run("run", hooked(sshd, lab, after_run=[{"run": run, "on": "hosts"}]), "--quiet")
    assert done.code == 0, done.err
    [text] = said(lab, "hook-failed")
    assert "on h2 with exit status 7: broken here" in text and "on h1" not in text


@pytest.mark.long
def test_what_takes_too_long_is_ended_there(sshd: Sshd, lab: Lab) -> None:
    mark = lab.directory / "mark"
    run = ["sh", "-c", 'trap "" TERM HUP; setsid sleep 300 & sleep 301; :', str(mark)]
    hook = {"run": run, "on": "hosts", "timeout": "2s"}
    done = lab.run("run", hooked(sshd, lab, before_run=[hook]), "--quiet")
    assert done.code == 97, done.err
    reason = json.loads((lab.results() / "runs/0001/run.json").read_text())["reason"]
    assert [f"on h{number}: it took longer than 2 s" in reason for number in (1, 2, 3)] == [True] * 3
    until(
        "its end",
        lambda: not [one for one in descendants_in(lab.directory) if "mark" in one or "sleep" in one],
        20,
    )


@pytest.mark.long
def test_after_an_interrupt_the_hosts_are_still_put_right(sshd: Sshd, lab: Lab, start: Start) -> None:
    path = hooked(sshd, lab, seconds=60, after_run=[{"run": "echo put right", "on": "hosts"}])
    process = start(path)
    until("measuring", measuring(lab, process))
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    assert [text.rpartition("` on ")[2] for text in said(lab)] == [
        f"h{number}: put right" for number in (1, 2, 3)
    ]


def test_the_plan_says_what_runs_on_hosts_and_what_cannot(sshd: Sshd, lab: Lab) -> None:
    hook = {"run": ["sync"], "on": "all", "needs": "root"}
    done = lab.run("plan", hooked(sshd, lab, before_run=[hook]))
    assert done.code == 0, done.err
    assert "needs root: sync (here and on every host)\n" in done.out
    assert "on every host: sync, before each run\n" in done.out
    text = lab.file(hooked(sshd, lab, after_run=[hook]).read_text())
    done = lab.run(
        "plan",
        text,
        "--set",
        "hosts.kind=join",
        "--set",
        "hosts.join={agents: 2}",
        "--set",
        "hosts.sites=null",
    )
    assert done.code == 2
    assert "after_run.0.on: Plimsoll cannot start a command on hosts of kind join" in done.err.replace(
        "[0]", ".0"
    ), done.err
