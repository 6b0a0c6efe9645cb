"""Options of a search with the real engine: what holds whatever the machine measures."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Done, Lab

# One server of 60 ms: the median of N testers is N * 60 ms, so 2 testers meet the goal and 4 do not.
FILE = """
plimsoll: 1
name: options
services: {web: {kind: delay, servers: 1, time: 60ms}}
workload: {driver: http, target: web, timeout: 5s}
search:
  axis: load.testers
  from: 1
  to: 6
  goals: {fast: {response: "med<200ms", width: 50%}}
  trial: {initial: 250ms, final: 350ms, sum: 700ms}
  repeat: 1
  max_time: 80s
run: {drain: 2s}
design: {seed: 3}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}
"""


def changed(*changes: tuple[str, str]) -> str:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def with_option(option: str) -> str:
    return changed(("  repeat: 1\n", f"  repeat: 1\n  {option}\n"))


def searched(lab: Lab, text: str) -> Done:
    """A search that has ended with an answer."""
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err
    assert done.json["experiment"]["complete"]
    assert "no problems" in lab.run("check", lab.results()).out
    return done


def trials(results: Path) -> list[dict[str, Any]]:
    lines = [json.loads(text) for text in (results / "trials.jsonl").read_text().splitlines()]
    return [line for line in lines if "run" in line]


def ends(cell: Mapping[str, Any]) -> tuple[float, float]:
    """Ends of the bracket of the first search."""
    first = cell["capacities"][0]["searches"][0]
    assert first["ending"] == "bracket", first
    return first["lower"]["load"], first["upper"]["load"]


@pytest.mark.long
def test_runs_at_both_ends_confirm_the_bracket(lab: Lab) -> None:
    done = searched(lab, with_option("confirm: 2"))
    (cell,) = done.json["search"]["cells"]
    low, high = ends(cell)
    made = [line for line in trials(lab.results()) if line["rule"] == "confirm"]
    assert sorted(line["load"] for line in made) == [low, low, high, high]
    assert {line["seconds"] for line in made} == {0.35} and {line["search"] for line in made} == {2}
    met = {
        load: sum(not line["result"]["goals"]["fast"]["high_loss"] for line in made if line["load"] == load)
        for load in (low, high)
    }
    confirmed = cell["capacities"][0]["confirmed"]
    assert {(one["load"], one["met"], one["runs"]) for one in confirmed} == {
        (low, met[low], 2),
        (high, met[high], 2),
    }
    assert any("met the goal" in text for text in done.json["answer"])


@pytest.mark.long
def test_the_approach_from_above_follows_an_overload(lab: Lab) -> None:
    done = searched(lab, with_option("hysteresis: true"))
    (cell,) = done.json["search"]["cells"]
    low, high = ends(cell)
    overload, *after = [line for line in trials(lab.results()) if line["rule"] == "from-above"]
    assert overload["load"] >= high
    at_low = [line for line in after if line["load"] == low]
    assert len(at_low) == 6
    found = cell["capacities"][0]["from_above"]
    assert (found["load"], found["trials"]) == (low, 6)
    assert found["high"] == sum(line["result"]["goals"]["fast"]["high_loss"] for line in at_low)
    assert any("after an overload" in text for text in done.json["answer"])


@pytest.mark.long
def test_the_searches_of_two_cells_alternate(lab: Lab) -> None:
    text = changed(
        ("repeat: 1", "repeat: 2"),
        ("design:", "factors: {servers: {path: services.web.servers, levels: [1, 2]}}\ndesign:"),
        ("to: 6", "to: 12"),
    )
    done = searched(lab, text)
    cells = done.json["search"]["cells"]
    assert [cell["cell"] for cell in cells] == [{"servers": "1"}, {"servers": "2"}]
    order = [(line["search"], line["cell"]["servers"]) for line in trials(lab.results())]
    # The order of the cells within a block is random.
    blocks = [block for block, _ in groupby(order)]
    assert [search for search, _ in blocks] == [0, 0, 1, 1]
    assert [set(blocks[:2]), set(blocks[2:])] == [{(n, "1"), (n, "2")} for n in (0, 1)]
    for cell in cells:
        assert {trial["search"] for trial in cell["trials"]} == {0, 1}
        assert len(cell["capacities"][0]["searches"]) == 2
    assert {run["cell"]["servers"] for run in done.json["runs"]} == {"1", "2"}


@pytest.mark.long
def test_testers_are_whole_numbers(lab: Lab) -> None:
    done = searched(lab, FILE)
    (cell,) = done.json["search"]["cells"]
    low, high = ends(cell)
    assert 1 <= low < high <= 6
    for line in trials(lab.results()):
        assert line["load"] == int(line["load"])
        record = json.loads((lab.results() / "runs" / line["run"] / "run.json").read_text())
        assert record["cell"] == {"load.testers": f"{line['load']:.0f}"}


@pytest.mark.long
def test_testers_per_host_are_counted_on_each_of_two_hosts(lab: Lab) -> None:
    text = changed(
        ("load.testers", "load.per_host"),
        ("to: 6", "to: 4"),
        ("run:", "hosts: {kind: local, hosts: [a, b]}\nrun:"),
    )
    done = searched(lab, text)
    assert done.json["search"]["axis"] == "load.per_host"
    for run in done.json["runs"]:
        hosts = run["hosts"]["hosts"]
        assert {host["host"] for host in hosts} == {"a", "b"}
        assert {host["testers"] for host in hosts} == {int(run["cell"]["load.per_host"])}


@pytest.mark.long
def test_a_ceiling_ends_a_hopeless_trial_which_has_high_loss(lab: Lab) -> None:
    text = changed(
        ("from: 1", "from: 8"),
        ("to: 6", "to: 16"),
        ("initial: 250ms, final: 350ms, sum: 700ms", "initial: 6s, final: 6s, sum: 6s"),
        ("max_time: 80s", "max_time: 14s"),
        ("run:", 'ceiling: [{metric: response, test: "p(50)>200ms", for: 1s}]\nrun:'),
    )
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err
    made = trials(lab.results())
    assert made
    for line in made:
        record = json.loads((lab.results() / "runs" / line["run"] / "run.json").read_text())
        assert record["status"] == "ceiling"
        assert line["result"]["invalid"] is None
        assert line["result"]["goals"]["fast"]["high_loss"]
        assert line["result"]["spent_s"] < line["seconds"] + 2


@pytest.mark.long
def test_a_late_generator_is_no_limit_as_long_as_the_goal_is_met(lab: Lab) -> None:
    """Every run is invalid, because any lateness is above the limit of the file."""
    text = changed(
        ("load.testers", "load.rate"),
        ("from: 1", "from: 40/s"),
        ("to: 6", "to: 60/s"),
        ("med<200ms", "med<5s"),
        ("lateness_floor: 10s", "lateness_floor: 1ns, lateness_share: 0.001%"),
        ("initial: 250ms, final: 350ms", "initial: 500ms, final: 500ms"),
        ("servers: 1, time: 60ms", "servers: 100, time: 60ms"),
        ("run:", "load: {arrivals: even}\nrun:"),
    )
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err
    made = trials(lab.results())
    assert {line["result"]["invalid"] for line in made} == {"generator"}
    assert all(not line["result"]["goals"]["fast"]["high_loss"] for line in made)
    (cell,) = done.json["search"]["cells"]
    assert cell["capacities"][0]["searches"][0]["ending"] == "highest-holds"


def test_a_search_that_was_killed_continues_with_the_trials_that_it_has(lab: Lab) -> None:
    text = changed(("time: 60ms", "time: 15ms"), ("to: 6", "to: 24"), ("width: 50%", "width: 15%"))
    process = lab.start("run", lab.file(text), "--json")
    try:
        before = next(made for made in polled(lab) if sum("result" in line for line in made) >= 4)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    resumed = lab.run("run", "--resume", lab.results(), "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["experiment"]["complete"]
    after = trials(lab.results())
    kept = [line for line in before if "result" in line]
    assert after[: len(kept)] == kept, "what was measured is not measured again"
    assert all("result" in line for line in after) and len(after) > len(kept)
    assert "no problems" in lab.run("check", lab.results()).out


def polled(lab: Lab) -> Iterator[list[dict[str, Any]]]:
    """The trials of the search in progress, again and again."""
    end = time.monotonic() + lab.limit_s
    while time.monotonic() < end:
        if (lab.directory / "results" / "latest" / "trials.jsonl").exists():
            yield trials(lab.results())
        time.sleep(0.05)
    raise AssertionError("no trial had a result")
