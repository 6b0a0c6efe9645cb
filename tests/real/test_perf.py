"""Flame graphs of real services: samples of a gateway under load, and hosts on which perf cannot be used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from plimsoll.collect.results import RunFiles, open_results
from plimsoll.deploy.perf.permission import perf_problem
from plimsoll.deploy.perf.stacks import Profile
from plimsoll.deploy.programs import HERE, VARIABLE
from tests.conftest import Lab, missing
from tests.real.emulated import events, record, wait_for
from tests.real.second_host import second_host

EXPERIMENT = """\
plimsoll: 1
name: flames
services:
  files: {kind: sqlite}
  gate: {kind: frontier, database: files, perf: true}
data: {t: {into: files, rows: 100, row: 1kB}}
workload: {driver: frontier, target: gate, timeout: 20s, table: {table: t, rows: 20}}
load: {testers: 2}
run: {warmup: 300ms, duration: 1500ms}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}
"""
ELSEWHERE = """\
plimsoll: 1
name: elsewhere
services:
  db: {kind: postgres, host: second, perf: true, ready_timeout: 100s}
hosts:
  kind: ssh
  keep: nothing
  ssh: {config: CONFIG}
  hosts: [{host: second, agents: 0}]
data: {t: {into: db, rows: 20000, row: 100B}}
workload: {driver: sql, target: db, timeout: 20s, sql: {queries: ["SELECT count(*) FROM t WHERE id % 7 = 3"]}}
load: {testers: 1}
run: {warmup: 500ms, duration: 4s}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%, started: 0%}
"""


def require_perf() -> None:
    if problem := perf_problem(HERE):
        missing("perf", problem)


def recorded(run: RunFiles, service: str) -> Profile:
    """The samples of a service, which perf counts, too."""
    profile = run.profile(service)
    assert profile is not None, run.record
    assert profile.samples > 0
    assert profile.samples + profile.guard == profile.reported
    (entry,) = (each for each in run.record["services"] if each["name"] == service)
    assert entry["perf"]["samples"] == profile.samples
    assert entry["perf"]["began_s"] >= 0.3
    assert not events(run.path, "perf")
    return profile


def test_the_report_shows_where_a_gateway_spends_its_time(lab: Lab) -> None:
    require_perf()
    file = lab.file(EXPERIMENT)
    done = lab.run("run", file)
    assert done.code == 0, done.err
    results = open_results(lab.results())
    (run,) = results.runs
    profile = recorded(run, "gate")
    page = (results.path / "report.html").read_text()
    assert page.count('class="flame"') == 1
    assert re.search(rf"{profile.samples}.samples? of the processor time of gate", page)
    assert not list(results.path.rglob("perf.data"))
    assert not (results.path / ".work").exists()


def test_without_perf_the_runs_are_measured_and_the_reason_is_stated(lab: Lab, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    without = {VARIABLE: str(programs)}
    file = lab.file(EXPERIMENT)
    reason = "perf was not found"
    assert reason in lab.run("plan", file, **without).out
    done = lab.run("run", file, **without)
    assert done.code == 0, done.err
    assert reason in done.err
    assert "apt-get install linux-perf" in done.err
    run = lab.results() / "runs" / "0001"
    (entry,) = (each for each in record(run)["services"] if each["name"] == "gate")
    assert reason in entry["perf"]["error"]
    assert record(run)["status"] == "done"
    assert [event for event in events(run, "perf") if reason in event["text"]]
    assert "No flame graph of gate: perf was not found" in (lab.results() / "report.html").read_text()
    found = json.loads(lab.run("doctor", "--json", **without).out)["findings"]
    (perf,) = (finding for finding in found if finding["what"] == "perf")
    assert (perf["verdict"], perf["mend"]) == ("mind", "apt-get install linux-perf")


@pytest.mark.long
def test_a_database_on_another_host(lab: Lab, tmp_path: Path) -> None:
    require_perf()
    lab.limit_s = 300
    with second_host(tmp_path / "second") as second:
        file = lab.file(ELSEWHERE.replace("CONFIG", str(second.config)))
        assert "perf: tried on second" in lab.run("plan", file).out
        done = lab.run("run", file)
        assert done.code == 0, done.err
        (run,) = open_results(lab.results()).runs
        assert "postgres" in {stack[0] for stack in recorded(run, "db").stacks}
        wait_for("no process", lambda: second.processes() == [])
        assert second.files() == []
