"""Databases and control groups that exist, watched during a run: their counters, resources and failures."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from plimsoll import api
from plimsoll.deploy.counters.cgroup import GroupReader
from plimsoll.deploy.counters.databases.watched import DatabaseReader
from plimsoll.plan.model.cell import WatchedDatabase, WatchedGroup
from plimsoll.plan.source.secret import Secret
from tests.conftest import Lab, missing
from tests.real.guarded_databases import ENCODED, PASSWORD, ROWS, Database, database
from tests.real.test_probe import certificates
from tests.real.test_secrets import files_with

REST = """
design: {seed: 1}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}
"""
SQL = """
plimsoll: 1
targets: {site: {endpoints: ["URL"], watch: {db1: WATCH}}}
workload: {driver: sql, target: site, sql: {queries: ["SELECT n FROM t"], password: {secret: "${env:PW}"}}}
load: {testers: 2, think: 10ms}
run: {duration: 3s}
responses: [{metric: buffer_hit_ratio.db1}, {metric: counter.db1.COUNTER}]
"""


ECHO = """
plimsoll: 1
services: {web: {kind: echo}}
targets: {site: {endpoints: [web], watch: WATCH}}
workload: {driver: http, target: site}
load: {testers: 1, think: 20ms}
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Database]:
    """One for all tests of this file."""
    with database("postgres") as server:
        yield server


@pytest.mark.parametrize(("kind", "counter"), [("postgres", "tup_returned"), ("mariadb", "Com_select")])
def test_a_database_is_watched_with_the_names_of_a_started_one(
    lab: Lab, request: pytest.FixtureRequest, kind: str, counter: str
) -> None:
    with contextlib.ExitStack() as ended:
        if kind == "postgres":
            server: Database = request.getfixturevalue("postgres")
        else:
            server = ended.enter_context(database(kind))
        url = server.url("reader")
        watch = f"{{{kind}: '{url}', password: {{secret: '${{env:PW}}'}}, every: 1s}}"
        text = SQL.replace("URL", url).replace("WATCH", watch).replace("COUNTER", counter)
        done = lab.run("run", lab.file(text + REST), PW=PASSWORD)
        assert done.code == 0, done.err
        results = lab.results()
        for planted in (PASSWORD, ENCODED):
            assert files_with(lab.directory, planted) == [] and planted not in done.out + done.err
    record = json.loads((results / "runs" / "0001" / "run.json").read_text())
    (entry,) = record["watched"]
    assert (entry["name"], entry["kind"], entry["gaps"]) == ("db1", kind, [])
    assert entry["version"].lower().startswith(kind[:7])
    assert entry["readings"] >= 2 and entry["url"] == url
    sent = json.loads((results / "runs" / "0001" / "summary.json").read_text())["counters"]["succeeded"]
    counted = entry["counters"][counter] / (ROWS if kind == "postgres" else 1)
    # A session of PostgreSQL reports its counts up to a second late. A query in progress may be counted, too.
    assert sent * (0.5 if kind == "postgres" else 1) <= counted <= sent + 5
    if (
        kind == "postgres"
    ):  # both testers have the role of the reader, so it sees them, and it is none of them
        assert entry["peaks"]["sessions_active"] <= 2 and entry["peaks"]["sessions_waiting_lock"] == 0
    else:  # its account may not see other sessions (PROCESS)
        assert "sessions_active" not in entry["gauges"]
    (service,) = api.analysis(results).runs[0].services
    assert service.name == "db1" and service.derived["buffer_hit_ratio"] is not None


@pytest.mark.long
def test_a_database_that_ends_its_session_leaves_a_gap(lab: Lab, postgres: Database) -> None:
    """The run is of an echo service, so that only the watched system fails."""
    watch = f"{{db1: {{postgres: '{postgres.url('open')}'}}}}"
    text = ECHO.replace("WATCH", watch) + "run: {duration: 4s}" + REST
    with lab.start("run", lab.file(text)) as process:
        services = lab.directory / "results" / "latest" / "runs" / "0001" / "services"
        counters = services / "db1" / "counters.jsonl"
        _wait(lambda: counters.exists() and len(counters.read_text().splitlines()) > 2)
        _end_sessions(postgres)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    record = json.loads((lab.results() / "runs" / "0001" / "run.json").read_text())
    (entry,) = record["watched"]
    (gap,) = entry["gaps"]
    assert entry["readings"] >= 3 and "terminating connection" in gap["why"]


@pytest.mark.long
def test_a_database_that_cannot_be_read_prevents_the_run_unless_it_is_optional(
    lab: Lab, postgres: Database
) -> None:
    text = ECHO + "run: {until: {transactions: 5}}" + REST
    entries = {
        "a": (postgres.url("reader"), "no password supplied"),
        "b": (postgres.url("open").replace("/events", "/nothing"), "the server has no database nothing"),
        "c": ("postgresql://me@127.0.0.1:9/x", "refused"),
    }
    listed = ", ".join(f"{name}: {{postgres: '{url}'}}" for name, (url, _) in entries.items())
    done = lab.run("run", lab.file(text.replace("WATCH", f"{{{listed}, d: {{cgroup: /plimsoll/none}}}}")))
    assert done.code == 1 and "systems under `watch` cannot be read: a" in done.err, done.err
    for _, reason in entries.values():
        assert reason in done.err
    assert "d (cgroup /plimsoll/none): there is no control group /plimsoll/none" in done.err
    listed = f"c: {{postgres: '{entries['c'][0]}', optional: true}}"
    done = lab.run("run", lab.file(text.replace("WATCH", f"{{{listed}}}")))
    assert done.code == 0 and "c (postgresql://me@127.0.0.1:9/x)" in done.err


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_watched_database_may_demand_tls(tmp_path: Path, kind: Literal["postgres", "mariadb"]) -> None:
    certificates(tmp_path)
    for suffix in ("pem", "key"):
        shutil.copy(tmp_path / f"member.{suffix}", tmp_path / f"server.{suffix}")
    ours = {"ca_file": str(tmp_path / "ca.pem"), "ca_dir": None, "cert": None, "key": None, "verify": True}
    with database(kind, tmp_path) as server:
        url = server.url("reader")
        for tls, is_read in (
            (ours, True), ({**ours, "ca_file": None, "verify": False}, True), ({**ours, "ca_file": None}, False),
            (None, False),
        ):  # fmt: skip
            watched = WatchedDatabase(
                "db", kind, url, url, "127.0.0.1", "events", 10**9, Secret(PASSWORD), tls
            )
            reader = DatabaseReader(watched)
            with contextlib.nullcontext() if is_read else pytest.raises((OSError, ValueError, *errors())):
                assert reader.read().counters
            reader.close()


def errors() -> tuple[type[Exception], ...]:
    """Those of the database drivers."""
    import psycopg
    import pymysql

    return (psycopg.Error, pymysql.Error)


@pytest.fixture
def group() -> Iterator[str]:
    """The path of a control group of this test, of version 1."""
    places = [
        Path("/sys/fs/cgroup") / controller / f"plimsoll-test-{os.getpid()}"
        for controller in ("cpuacct", "memory")
    ]
    try:
        for place in places:
            place.mkdir()
    except OSError:
        missing("the right to create control groups of version 1", "run the tests as root with cgroup v1")
    try:
        yield f"/{places[0].name}"
    finally:
        for place in places:
            _wait(lambda place=place: _remove(place))


SERVER = """
import http.server, os, sys
for controller in ("cpuacct", "memory"):
    open(f"/sys/fs/cgroup/{controller}{sys.argv[1]}/cgroup.procs", "w").write(str(os.getpid()))
held = b"x" * 50_000_000
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        sum(range(20_000))
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def test_the_resources_of_a_control_group_are_those_of_its_component(lab: Lab, group: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, group], stdout=subprocess.PIPE, text=True
    ) as server, contextlib.ExitStack() as ended:  # fmt: skip
        ended.callback(server.kill)
        assert server.stdout is not None
        port = int(server.stdout.readline())
        text = f"""
plimsoll: 1
targets: {{site: {{endpoints: ["http://127.0.0.1:{port}"], watch: {{web: {{cgroup: {group}}}}}}}}}
workload: {{driver: http, target: site}}
load: {{testers: 2, think: 5ms}}
run: {{duration: 4s}}
responses: [{{metric: cpu.web}}, {{metric: memory.web}}, {{metric: cpu_per_transaction.web}}]
thresholds: [{{metric: memory.web, test: mean<1GB}}]
"""
        reader = GroupReader(WatchedGroup("web", group, "", 10**9))
        before, begin = reader.read(), time.monotonic()
        done = lab.run("run", lab.file(text + REST))
        after, took = reader.read(), time.monotonic() - begin
        assert done.code == 0, done.err
    (run,) = api.analysis(lab.results()).runs
    (web,) = (entry for entry in run.components if entry.component == "web")
    assert web.cpu is not None and web.memory is not None
    used = after.counters["cpu"] - before.counters["cpu"]
    # All of its CPU time was used in the run, whose 4 s are a part of the time that the command took.
    assert used / took * 0.9 <= web.cpu <= used / 4 * 1.2
    assert 50_000_000 < web.memory < 150_000_000
    assert web.memory == pytest.approx(after.gauges["memory.used"], rel=0.2)


def _wait(what: object, seconds: float = 30) -> None:
    assert callable(what)
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def _remove(place: Path) -> bool:
    try:
        place.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # its last process is ending
        return False
    return True


def _end_sessions(server: Database) -> None:
    """Ends the session of the reader, as a restart of the server does."""
    import psycopg

    with psycopg.connect(
        host=str(server.directory), port=server.port, user="admin", dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'plimsoll'"
        )
