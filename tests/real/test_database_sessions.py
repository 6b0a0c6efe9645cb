"""Sessions of real databases that wait for a lock that another session holds, and the times inside a real gateway."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from plimsoll import api
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.errors import ExitCode
from plimsoll.report.labels import Labels
from plimsoll.report.tables import demands
from tests.conftest import Lab

HOLD = """
import os, sys, time
from urllib.parse import urlsplit
url = urlsplit(os.environ["PLIMSOLL_URL_DB"])
if url.scheme == "mysql":
    import pymysql
    db = pymysql.connect(host=url.hostname, port=url.port, user=url.username, database=url.path[1:])
else:
    import psycopg
    db = psycopg.connect(os.environ["PLIMSOLL_URL_DB"])
cursor = db.cursor()
cursor.execute("UPDATE t SET string = 'held' WHERE id = 1")
time.sleep(float(sys.argv[1]))
db.commit()
"""
LOCKS = """
plimsoll: 1
services:
  db: {kind: KIND, settings: SETTINGS}
GATEWAY
data: {t: {into: db, rows: 10, row: 10B}}
workloads:
  locks:
    driver: sql
    target: db
    sql: {queries: ["UPDATE t SET string = CONCAT('x', id) WHERE id = 1"]}
    load: {testers: 4}
POOL
actions: [{at: BEGIN, run: "PYTHON HOLD", timeout: 60s}]
run: {warmup: WARMUP, duration: DURATION}
design: {seed: 1}
responses: [{metric: gauge.db.sessions_waiting_lock}, {metric: gauge.db.wait.Lock.advisory}]
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
"""
POOL = """
  pool:
    driver: frontier
    target: gateway
    frontier: {queries: ["SELECT 'x' AS x FROM pg_sleep(0.05)"]}
    load: {testers: 4}
"""
READS = """
  reads:
    driver: sql
    target: db
    sql: {queries: ["SELECT string FROM t WHERE id = 2"]}
    load: {testers: 1, think: 100ms}
"""
"""Without it, no transaction would end, which makes a run invalid."""
QUERY_MS = 50.0


def locked(
    lab: Lab,
    kind: str,
    held_s: float,
    *,
    begin: str,
    warmup: str,
    duration: str,
    pool: bool,
    settings: str = "{}",
) -> Analysis:
    """The analysis of a run in which 4 testers update a row that another session holds."""
    script = lab.file(HOLD, "hold.py")
    parts = {
        "KIND": kind,
        "SETTINGS": settings,
        "GATEWAY": "  gateway: {kind: frontier, database: db, connections: 1}" if pool else "",
        "POOL": POOL if pool else READS,
        "BEGIN": begin,
        "WARMUP": warmup,
        "DURATION": duration,
        "PYTHON": sys.executable,
        "HOLD": f"{script} {held_s}",
    }
    text = LOCKS
    for name, part in parts.items():
        text = text.replace(name, part)
    done = lab.run("run", lab.file(text))
    assert done.code == ExitCode.PASSED, done.err
    return api.analysis(lab.results())


def samples(lab: Lab) -> list[dict[str, Any]]:
    """The readings of the database while the lock was held and the updates had begun to wait."""
    run = lab.results() / "runs" / "0001"
    lines = (run / "services" / "db" / "counters.jsonl").read_text().splitlines()
    values = [line["values"] for line in map(json.loads, lines) if "values" in line]
    return [each for each in values if each["lock_wait_longest_s"] >= 0.2]


def test_sessions_that_wait_for_a_lock_and_the_steps_in_the_gateway(lab: Lab) -> None:
    """One connection and four testers without think time: a closed queue, in which each waits for three queries."""
    found = locked(lab, "postgres", 2.1, begin="200ms", warmup="0s", duration="2500ms", pool=True)
    waiting = samples(lab)
    assert len(waiting) >= 1
    for each in waiting:
        # The reader itself is idle between its readings and active in them: it would be the seventh session.
        assert each["sessions_waiting_lock"] == 4
        # One waits for the transaction that holds the row, the others for it or for the row.
        assert each["wait.Lock.transactionid"] + each.get("wait.Lock.tuple", 0) == 4
        assert 4 <= each["sessions_active"] <= 5 and each["sessions_idle_in_transaction"] == 1
    (run,) = found.runs
    (sessions,) = run.sessions
    assert (sessions.service, sessions.kind, sessions.samples >= 2) == ("db", "postgres", True)
    locks = next(wait for wait in sessions.types if wait.type == "Lock")
    assert sessions.samples <= 3, "one per second in a window of 2.5 s"
    assert 4 / 3 <= locks.sessions.mean <= 4, "at least one of the samples is within the 2.1 s of the lock"
    assert sum(wait.sessions.mean for wait in sessions.waits) == pytest.approx(sessions.active.mean)
    assert sessions.longest_lock_wait_s < 4
    responses = found.cells[0].responses
    assert responses["gauge.db.wait.Lock.advisory"].mean == 0
    (component,) = (each for each in run.component_series.components if each.component == "db")  # type: ignore[union-attr]
    assert max(value for value in component.sessions["Lock"] if value is not None) == pytest.approx(4, abs=2)

    (times,) = (entry.gateway for entry in found.demands[0].components if entry.component == "gateway")
    assert times is not None
    pool, query = times.pool_ms.mean, times.query_ms.mean
    (workload,) = (part for part in run.workloads if part.workload == "pool")
    per_query_ms = 1000 / workload.traffic.throughput_per_s
    # Of a cycle of four queries, a request waits for all but its own, and but the time outside the pool.
    edge_ms = 4 * per_query_ms / workload.traffic.transactions * 4
    assert query >= QUERY_MS
    assert 2.5 * QUERY_MS <= pool <= 4 * per_query_ms - QUERY_MS + edge_ms
    assert times.request_ms.mean <= 4 * per_query_ms + edge_ms
    (gateway,) = (service for service in run.services if service.name == "gateway")
    steps = ("pool", "query", "compression", "sending")
    # In the window, a step may have ended before its request; in the whole run, all have.
    assert sum(gateway.counters[f"{step}_ns"] for step in steps) <= gateway.counters["request_ns"]
    assert {gateway.counters[f"{step}_count"] for step in steps} == {gateway.counters["answered"]}
    table = demands.shown(Labels(found))[1]
    assert [column.name for column in table.columns][1:5] == [
        "Waiting for a connection",
        "Query",
        "Compression",
        "Sending",
    ]


WAITS = "{performance_schema: 'ON', performance_schema_consumer_events_waits_current: 'ON'}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings", "event"),
    [("postgres", "{}", "transactionid"), ("mariadb", "{}", "row"), ("mariadb", WAITS, "row")],
)
def test_a_lock_that_most_sessions_wait_for_is_stated(lab: Lab, kind: str, settings: str, event: str) -> None:
    found = locked(lab, kind, 24.0, begin="200ms", warmup="2s", duration="20s", pool=False, settings=settings)
    (sessions,) = found.runs[0].sessions
    assert sessions.samples >= 15 and sessions.explained_by == "Lock"
    (wait,) = found.session_waits
    assert (wait.type, wait.sessions.mean) == ("Lock", 4.0) and 4.0 <= wait.active.mean <= 5.0
    assert event in wait.events and {*wait.events} <= {event, "tuple"}
    assert 10 <= wait.longest_lock_wait_s <= 26
    (said,) = (finding for finding in found.findings if finding.topic == "sessions")
    assert said.text.startswith("On average, 4.0 of 4.") and "of db waited for a lock" in said.text
    page = (lab.results() / "report.html").read_text(encoding="utf-8")
    assert "Sessions of the databases in run 0001" in page and "active sessions" in page
