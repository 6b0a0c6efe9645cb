"""A search for the highest load at which a goal holds, with the real engine."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.conftest import Lab

pytestmark = pytest.mark.long

FILE = """
plimsoll: 1
name: find
services: {web: {kind: delay, servers: 2, time: 20ms}}
workload: {driver: http, target: web, timeout: 5s}
load: {in_flight: 200}
search:
  axis: load.rate
  from: %s
  to: 1000/s
  goals: {fast: {response: "med<150ms", width: 20%%}}
  trial: {initial: 300ms, final: 500ms, sum: 1s}
  repeat: %d
  max_time: 40s
run: {drain: 5s}
design: {seed: 3}
validity: {lateness_floor: 10s, tester_cpu: 100%%, gaps: 100%%, trend: false}
"""


def lines_of(lab: Lab) -> list[dict[str, object]]:
    first, *lines = (json.loads(text) for text in (lab.results() / "trials.jsonl").read_text().splitlines())
    assert first["format"] == "plimsoll.trials/1"
    return lines


def test_the_lowest_load_already_fails(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE % ("400/s", 1)), "--json")
    assert done.code == 0, done.err
    (cell,) = done.json["search"]["cells"]
    (found,) = cell["capacities"]
    assert found["searches"][0]["ending"] == "lowest-fails" and found["estimate"] is None
    (text,) = (text for text in done.json["answer"] if text.startswith("fast:"))
    assert "400 requests/s, the lowest load, already fails" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert {run["cell"]["load.rate"] for run in done.json["runs"]} == {"400/s"}
    assert "no problems" in lab.run("check", lab.results()).out


def test_a_bracket_contains_a_plausible_load_and_a_removed_trial_is_made_again(lab: Lab) -> None:
    done = lab.run("run", lab.file(FILE % ("20/s", 2)), "--json")
    assert done.code == 0, done.err
    assert done.json["experiment"]["complete"]
    (cell,) = done.json["search"]["cells"]
    (found,) = cell["capacities"]
    # Two servers of 20 ms serve 100/s. At a rate r above, the queue grows, and half of the requests of a trial of 0.5 s
    # wait longer than (r / 100 - 1) * 0.25 s: 150 ms at 160/s. The bounds are wide, for a machine that is busy.
    assert 50 < found["estimate"] < 400
    lines = lines_of(lab)
    assert lines[-1] == {"decision": "end", "reason": "every search has its answer"}
    assert [line["run"] for line in lines[:-1]] == [run["id"] for run in done.json["runs"]]
    assert "no problems" in lab.run("check", lab.results()).out

    last = lines[-2]["run"]
    shutil.rmtree(lab.results() / "runs" / str(last))
    resumed = lab.run("run", "--resume", lab.results(), "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["experiment"]["complete"]
    assert str(last) in [run["id"] for run in resumed.json["runs"]]
    again = lines_of(lab)
    assert again[: len(lines) - 2] == lines[:-2], "the trials before it are kept"
    assert "no problems" in lab.run("check", lab.results()).out
