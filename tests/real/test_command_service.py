"""`kind: command`: any server, and what is said of one that does not come up."""

from __future__ import annotations

import json
import sys

import pytest

from tests.conftest import Lab


def experiment(command: str, ready: str, more: str = "") -> str:
    return f"""
plimsoll: 1
name: command
services: {{web: {{kind: command, command: {command}, ready: {ready}{more}}}}}
workload: {{driver: http, target: web, timeout: 20s, http: {{path: /}}}}
load: {{testers: 1, think: 5ms}}
design: {{seed: 1}}
run: {{duration: 700ms, drain: 10s}}
validity: {{lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}}
"""


def test_any_server_binary_is_started_measured_and_stopped(lab: Lab) -> None:
    (lab.directory / "site").mkdir()
    (lab.directory / "site" / "index.html").write_text("hello")
    command = (
        f'["{sys.executable}", -m, http.server, "{{port}}", --bind, 127.0.0.1, --directory, '
        f'"{lab.directory}/site"]'
    )
    done = lab.run("run", lab.file(experiment(command, "{http: /}")), "--json")
    assert done.code == 0, done.err
    [run] = done.json["runs"]
    assert run["counts"]["succeeded"] > 0
    assert run["counts"]["failed"] == 0
    assert run["utilization"]["web"]["role"] == "service"
    assert "GET / HTTP" in (lab.results() / "runs" / "0001" / "services" / "web" / "log").read_text()
    record = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    assert record["services"][0]["kind"] == "command"


def test_a_server_that_ends_at_once_is_told_with_its_last_words(lab: Lab) -> None:
    text = experiment('[sh, -c, "echo no licence found >&2; exit 3"]', "{tcp: true}")
    done = lab.run("run", lab.file(text))
    assert done.code not in (0, 99)
    assert "exit status 3" in done.err
    assert "no licence found" in done.err


def test_a_server_that_is_never_ready_is_told_and_ended(lab: Lab) -> None:
    done = lab.run("run", lab.file(experiment('[sleep, "300"]', "{tcp: true}", ", ready_timeout: 1s")))
    assert done.code not in (0, 99)
    assert "was not ready after 1 s" in done.err
    assert "ready_timeout" in done.err


def test_a_program_that_is_not_there(lab: Lab) -> None:
    done = lab.run("run", lab.file(experiment("[/no/such/server]", "{tcp: true}")))
    assert done.code not in (0, 99)
    assert "/no/such/server" in done.err


@pytest.mark.long
def test_a_server_gets_the_time_to_stop_that_it_was_promised(lab: Lab) -> None:
    mark = lab.directory / "stopped"
    script = f"trap 'sleep 6; touch {mark}; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    text = experiment(f'[sh, -c, "{script}"]', "{log: up}", ", stop_timeout: 60s")
    lab.run("run", lab.file(text))
    assert mark.exists(), "it was killed before its stop_timeout"
