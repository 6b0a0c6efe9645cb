"""Actions during a run, with real services: what is measured agrees with the logs of the servers."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Lab
from tests.real.test_services import needs, place, record  # noqa: F401  (`place` is a fixture)
from tests.real.test_trouble import wait_for

VALIDITY = "validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}"
KILLED_AT, RESTARTED_AT = 10.0, 15.0
INTERVAL_S = 0.01
DATABASE = f"""\
plimsoll: 1
services: {{db: {{kind: postgres}}}}
workload:
  driver: sql
  target: db
  timeout: 2s
  sql: {{queries: ["SELECT 1"]}}
load: {{rate: 100/s, arrivals: even, in_flight: 40}}
run: {{warmup: 2s, duration: 38s}}
actions:
  - {{at: 10s, kill: {{service: db}}}}
  - {{at: 15s, restart: {{service: db}}}}
factors:
  state: {{killed: {{run.duration: 38s}}, normal: {{actions: [], run.duration: 6s}}}}
responses: [{{metric: throughput}}, {{metric: outage_s}}, {{metric: recovery_s}}, {{metric: throughput@after}}]
thresholds:
  - {{metric: outage_s, test: "avg>4s", where: {{state: killed}}}}
  - {{metric: availability, test: "rate>30%", where: {{state: killed}}}}
design: {{order: listed, seed: 1}}
{VALIDITY}
"""
WEB = f"""\
plimsoll: 1
services:
  web: {{kind: nginx, root: ROOT}}
  cache: {{kind: squid, origin: web}}
workload: {{driver: http, target: TARGET, timeout: 5s, http: {{path: /page}}}}
load: {{rate: 50/s, arrivals: even, in_flight: 400}}
run: {{duration: 9s, drain: 3s}}
actions:
  ACTIONS
{VALIDITY}
"""


@pytest.fixture
def root(place: Path) -> Iterator[Path]:  # noqa: F811
    path = place / "root"
    path.mkdir()
    path.chmod(0o755)
    (path / "page").write_text("hello")
    yield path
    (path / "page").unlink()
    path.rmdir()


def unix_s(line: str) -> float:
    """The time of a line of PostgreSQL's log."""
    stamp = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    return stamp.timestamp()


@pytest.mark.long
def test_a_database_that_is_killed_and_restarted(lab: Lab, place: Path) -> None:  # noqa: F811
    """The outage is that of the server's log to 0.3 s and one planned interval; the recovery is in its printed
    interval; the next run, on the same server, is normal."""
    needs("postgres")
    done = lab.run("run", lab.file(DATABASE), "--json", TMPDIR=str(place))
    assert done.code == 0, done.err
    killed, normal = done.json["runs"]
    run = record(lab)
    assert run["status"] == "done"
    kill, restart = run["actions"]
    assert (kill["outcome"], restart["outcome"]) == ("done", "done")
    assert kill["began_s"] == pytest.approx(KILLED_AT, abs=0.2)
    assert restart["began_s"] == pytest.approx(RESTARTED_AT, abs=0.2)
    log = (lab.results() / "runs/0001/services/db/log").read_text()
    assert "automatic recovery in progress" in log, "a crash recovery, not a new cluster"
    ready = [line for line in log.splitlines() if "ready to accept connections" in line]
    ready_s = unix_s(ready[-1]) - run["t0_unix_ns"] / 1e9
    (incident,) = killed["actions"]["incidents"]
    (outage,) = incident["outages"]
    taken_s = kill["ended_s"] - kill["began_s"]
    assert outage["has_ended"]
    assert abs(outage["length_s"] - (ready_s - kill["began_s"])) <= 0.3 + INTERVAL_S + taken_s
    assert {"refused"} <= {error["outcome"] for error in outage["errors"]}
    recovery = incident["recovery"]
    assert recovery["verdict"] == "recovered"
    assert RESTARTED_AT + recovery["latest_s"] >= ready_s - 0.1
    assert recovery["at_s"] >= outage["end_s"] - 0.02
    assert killed["valid"] and normal["valid"]
    assert 0.3 < killed["actions"]["availability"] < 0.95
    answer = " ".join(done.json["answer"]).replace("\u00a0", " ")
    assert f"db was killed at {kill['began_s']:.1f} s and restarted at" in answer
    (db,) = run["services"]
    assert db["counters"]["xact_commit"] > 500, "counted before the kill and after it"
    assert len(db["counters_reset_s"]) == 1 and db["counter_gaps"]
    assert normal["actions"] is None
    assert normal["errors"] == 0
    assert normal["throughput_per_s"] == pytest.approx(100, rel=0.02)
    following = json.loads((lab.results() / "runs/0002/run.json").read_text())
    assert following["services"][0]["pid"] == db["pid"], "the server was not started again for the next run"
    assert "service-started" not in (lab.results() / "runs/0002/events.jsonl").read_text()
    assert lab.run("check", lab.results()).code == 0


def web_run(lab: Lab, place: Path, root: Path, target: str, *actions: str) -> dict[str, Any]:  # noqa: F811
    needs("nginx", "squid")
    text = WEB.replace("ROOT", str(root)).replace("TARGET", target)
    text = text.replace("ACTIONS", "\n  ".join(f"- {action}" for action in actions))
    done = lab.run("run", lab.file(text), "--json", TMPDIR=str(place))
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    assert run["valid"], run["invalid_reasons"]
    return dict(run)


def test_nginx_is_killed_and_comes_back_on_its_port(lab: Lab, place: Path, root: Path) -> None:  # noqa: F811
    run = web_run(
        lab,
        place,
        root,
        "web",
        "{at: 3s, kill: {service: web}}",
        "{at: 5s, restart: {service: web}}",
        "{at: 7s, run: 'test -n \"$PLIMSOLL_URL_WEB\"', timeout: 5s}",
    )
    assert [action["outcome"] for action in run["actions"]["actions"]] == ["done"] * 3
    first, command = run["actions"]["incidents"]
    assert 1.9 <= first["outage_s"] <= 3
    assert first["during"]["error_rate"] > 0.9
    assert first["before"]["error_rate"] == 0
    assert command["outages"] == []
    assert "web was killed" not in run["reasons"]


@pytest.mark.long
def test_a_paused_squid_answers_late_and_continues(lab: Lab, place: Path, root: Path) -> None:  # noqa: F811
    run = web_run(lab, place, root, "cache", "{at: 4s, pause: {service: cache}, for: 1500ms}")
    (incident,) = run["actions"]["incidents"]
    assert incident["outage_s"] == pytest.approx(1.5, abs=0.4)
    assert run["errors"] == 0, "requests waited"
    assert run["response_ms"]["max"] > 1000
    assert run["actions"]["actions"][0]["ended_s"] - run["actions"]["actions"][0]["began_s"] >= 1.5


@pytest.mark.long
def test_a_service_that_stays_dead_is_started_for_the_next_run(
    lab: Lab,
    place: Path,  # noqa: F811
    root: Path,
) -> None:
    needs("nginx")
    text = WEB.replace("  cache: {kind: squid, origin: web}\n", "").replace("ROOT", str(root))
    text = text.replace("TARGET", "web").replace("9s", "3s").replace("drain: 3s", "drain: 1s")
    text = text.replace("ACTIONS", "- {at: 2s, kill: {service: web}}") + "design: {repetitions: 2, seed: 1}\n"
    done = lab.run("run", lab.file(text), "--json", TMPDIR=str(place))
    assert done.code == 0, done.err
    for run in done.json["runs"]:
        (incident,) = run["actions"]["incidents"]
        assert incident["before"]["error_rate"] == 0
        assert not incident["outages"][0]["has_ended"]
        assert incident["recovery"]["verdict"] == "not recovered"


@pytest.mark.long
def test_ctrl_c_during_a_pause_continues_the_service(lab: Lab, place: Path, root: Path) -> None:  # noqa: F811
    needs("nginx", "squid")
    text = WEB.replace("ROOT", str(root)).replace("TARGET", "cache").replace("9s", "60s")
    text = text.replace("ACTIONS", "- {at: 1s, pause: {service: cache}, for: 50s}")
    process = lab.start("run", lab.file(text), TMPDIR=str(place))
    events = lab.directory / "results"
    wait_for(
        lambda: any("pause cache" in path.read_text() for path in events.glob("*Z/runs/0001/events.jsonl")),
        60,
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    (action,) = record(lab)["actions"]
    assert action["outcome"] == "done" and action["ended_s"] < 40
    assert re.search(
        "pause cache: continued at the end of the run", (lab.results() / "runs/0001/events.jsonl").read_text()
    )
