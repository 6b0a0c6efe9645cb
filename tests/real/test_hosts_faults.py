"""What may happen to an experiment on other hosts: agents, lab and engine are killed mid-run. Nothing that was measured
is lost in silence, nothing of ours stays."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab, descendants_in
from tests.real.sshd import Sshd, running_sshd

TIMEOUT_S = 60.0


@pytest.fixture
def sshd(lab: Lab, tmp_path: Path) -> Iterator[Sshd]:  # ended before the lab looks for what is left
    with running_sshd(tmp_path / "sshd") as found:
        yield found


def experiment(sshd: Sshd, directory: Path, seconds: int, **hosts: object) -> Path:
    told = {
        "kind": "ssh",
        "sites": {"near": ["h1"], "far": ["h2", "h3"]},
        "ssh": {"config": str(sshd.aliases("h1", "h2", "h3"))},
        "controller": {"address": "127.0.0.1"},
        "link_grace": "2s",
        **hosts,
    }
    path = directory / "experiment.yaml"
    path.write_text(
        f"""plimsoll: 1
name: faults
services: {{echo: {{kind: echo, http: true}}}}
workload: {{driver: http, target: echo, http: {{path: /}}}}
load: {{testers: 6, think: 10ms}}
run: {{duration: {seconds}s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}}
hosts: {json.dumps(told)}
""",
        encoding="utf-8",
    )
    return path


def wait_for(found: Callable[[], Any]) -> Any:
    since = time.monotonic()
    while not (value := found()):
        assert time.monotonic() - since < TIMEOUT_S, "it does not come"
        time.sleep(0.05)
    return value


def agent_of(sshd: Sshd, name: str) -> int:
    """The process of a host's agent: it lives in a directory of that name."""

    def look() -> int | None:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                place = (path / "cwd").readlink()
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if place.is_relative_to(sshd.home) and place.name == name and b"agent" in words:
                return int(path.name)
        return None

    return int(wait_for(look))


def agents_left(sshd: Sshd) -> list[str]:
    return [
        words for words in descendants_in(sshd.directory.parent) if " agent " in words or " control" in words
    ]


def has_load(directory: Path, seconds: int = 2) -> Path:
    """The results directory, once its run has gone on for a while."""
    live = wait_for(lambda: next(iter(directory.glob("results/faults-*/runs/0001/live.jsonl")), None))
    wait_for(lambda: len(live.read_text().splitlines()) > seconds)
    return Path(live.parents[2])


def summary_of(results: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / "runs/0001/summary.json").read_text())
    return found


def started_by(summary: dict[str, Any], agent: str) -> int:
    return next(int(one["books"]["counters"]["started"]) for one in summary["agents"] if one["name"] == agent)


def spools(sshd: Sshd) -> list[Path]:
    return list(sshd.home.rglob("spool-*"))


def test_three_hosts_share_a_run_and_nothing_stays_but_the_engine(sshd: Sshd, lab: Lab) -> None:
    done = lab.run("run", experiment(sshd, lab.directory, 2), "--quiet")
    assert done.code == 0, done.err
    results = next(lab.directory.glob("results/faults-*"))
    summary = summary_of(results)
    assert summary["balanced"] and not summary["damage"], summary["damage"]
    # The last one only watches this host, where the service runs.
    assert [one["site"] for one in summary["agents"]] == ["near", "far", "far", "lab"]
    assert started_by(summary, "lab") == 0
    clocks = json.loads((results / "runs/0001/clock.json").read_text())["agents"]
    for clock in (clocks[name] for name in ("h1", "h2", "h3")):
        # One machine, so that the truth is known: no offset at all.
        assert abs(clock["pieces"][0]["offset_ns"]) <= clock["bound_ns"]
    assert [one["answers"] for one in json.loads((results / "environment.json").read_text())["hosts"]] == [
        True
    ] * 3
    left = [path for path in sshd.home.rglob("*") if path.is_file()]
    assert [path.name.startswith("engine-") for path in left] == [True]
    assert not agents_left(sshd)


def test_a_killed_agent_is_an_event_and_collect_brings_in_what_it_had(sshd: Sshd, lab: Lab) -> None:
    process = lab.start("run", experiment(sshd, lab.directory, 6), "--quiet")
    results = has_load(lab.directory)
    os.kill(agent_of(sshd, "h2"), signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT_S * 2)
    # 97 where so much of the record is still with the agent that the run says nothing: it outranks 98.
    assert process.returncode in (97, 98), err
    before = summary_of(results)
    assert [one["name"] for one in before["agents"] if one["lost"]] == ["h2"]
    events = [json.loads(line) for line in (results / "runs/0001/events.jsonl").read_text().splitlines()]
    assert any(event["kind"] == "agent-lost" and "h2" in event["text"] for event in events)
    assert spools(sshd), "what was measured is kept"
    (run,) = json.loads((results / "analysis.json").read_text())["runs"]
    assert run["evidence"]["recorded"] is not None and run["evidence"]["unknown_load"] > 0
    done = lab.run("check", results)
    assert done.code == 1 and "start.json" not in done.out + done.err
    done = lab.run("collect", results)
    assert done.code == 0, done.out + done.err
    after = summary_of(results)
    assert started_by(before, "h2") == 0 and started_by(after, "h2") > 50
    assert after["rows"]["counters"]["started"] == after["counters"]["started"]
    assert not spools(sshd) and not agents_left(sshd)
    assert not after["damage"], "that it was lost is a fact of the run, and nothing is missing"
    done = lab.run("check", results)
    assert done.code == 0, done.out + done.err
    lab.run("analyse", results)
    (run,) = json.loads((results / "analysis.json").read_text())["runs"]
    assert run["evidence"]["unknown_load"] == 0
    assert "no measurements are missing" in lab.run("collect", results).out


@pytest.mark.long
def test_a_killed_lab_leaves_nothing_and_loses_nothing(sshd: Sshd, lab: Lab) -> None:
    process = lab.start("run", experiment(sshd, lab.directory, 60), "--quiet")
    results = has_load(lab.directory)
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    wait_for(lambda: (results / "runs/0001/summary.json").exists() and not agents_left(sshd))
    summary = summary_of(results)
    assert (summary["status"], summary["balanced"]) == ("stopped", True), summary["damage"]
    wait_for(lambda: not [path for path in spools(sshd) if any(one.is_file() for one in path.rglob("*"))])


@pytest.mark.long
def test_a_killed_engine_stops_the_testers_and_resume_brings_in_what_they_had(sshd: Sshd, lab: Lab) -> None:
    process = lab.start("run", experiment(sshd, lab.directory, 8), "--quiet")
    results = has_load(lab.directory)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    [engine] = [
        pid for pid in children if b"control" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]
    os.kill(int(engine), signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT_S * 2)
    assert process.returncode != 0, err
    wait_for(lambda: not agents_left(sshd))
    done = lab.run("run", "--resume", results, "--quiet")
    assert done.code == 0, done.err
    summary = summary_of(results)
    assert summary["status"] == "done" and summary["balanced"], summary["damage"]
    # The first attempt was brought in before it was moved aside.
    aside = json.loads((results / "abandoned/0001.1/summary.json").read_text())
    assert started_by(aside, "h2") > 50 and aside["status"] == "interrupted"
    assert not spools(sshd)


@pytest.mark.long
def test_one_dead_host_in_ten_is_left_out_where_enough_others_are_there(sshd: Sshd, lab: Lab) -> None:
    more = [{"host": "h1", "name": f"h{number}"} for number in range(4, 10)]
    sites = {"near": ["h1"], "far": ["h2", "h3", *more, {"host": "127.0.0.1", "port": 1}]}
    done = lab.run("run", experiment(sshd, lab.directory, 2, sites=sites), "--quiet")
    assert done.code == 98 and "9 of 10 hosts" in done.err and "refused" in done.err, done.err
    done = lab.run("run", experiment(sshd, lab.directory, 2, sites=sites, at_least=9), "--quiet")
    assert done.code == 0, done.err
    results = lab.directory / "results/latest"
    there = [*(f"h{number}" for number in range(1, 10)), "lab"]
    assert [one["name"] for one in summary_of(results)["agents"]] == there


@pytest.mark.parametrize("name", ["h2-000.arrow", "start.json"])
@pytest.mark.long
def test_an_agent_writes_over_no_file_but_its_own(sshd: Sshd, lab: Lab, name: str) -> None:
    """What a host that was taken over would send: a file that has the name of another agent's, or of ours."""
    process = lab.start("run", experiment(sshd, lab.directory, 4), "--quiet")
    results = has_load(lab.directory)
    os.kill(agent_of(sshd, "h1"), signal.SIGKILL)
    process.communicate(timeout=TIMEOUT_S * 2)
    (segment,) = sshd.home.rglob("h1-000.arrow")
    (segment.parent / name).write_bytes(b"forged")
    before = started_by(summary_of(results), "h2")
    done = lab.run("collect", results)
    assert f'it sent a file called "{name}", which is not its own' in done.out + done.err, done
    assert done.code != 0
    assert not any(path.read_bytes() == b"forged" for path in results.rglob("*") if path.is_file())
    assert started_by(summary_of(results), "h2") == before > 50
    assert segment.exists(), "what it measured is kept there"
    (segment.parent / name).unlink()
    assert lab.run("collect", results).code == 0, "and comes once that file is gone"
    assert started_by(summary_of(results), "h1") > 20
