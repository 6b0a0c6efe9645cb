"""Replicas of real databases: what is written at the source is read at the replica, and nothing hangs or is left behind
where one of them is killed."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers.postgres_admin import PostgresAdmin
from plimsoll.deploy.services import RunningServices
from plimsoll.errors import ServiceError
from plimsoll.plan.model.cell import Config
from tests.conftest import Lab
from tests.real.test_services import needs, place, record  # noqa: F401  (`place` is a fixture)
from tests.unit.plan.helpers import load

ROWS = 300
FILE = f"""\
plimsoll: 1
services:
  SERVICES
data: {{t: {{into: db, rows: {ROWS}, row: 20B, versions: true}}}}
workload: {{driver: sql, target: db, sql: {{queries: [SELECT 1]}}}}
load: {{testers: 1}}
run: {{duration: 1s}}
"""
STREAMING = """\
db: {kind: postgres, settings: {fsync: off}}
  near: {kind: postgres, replica_of: db, settings: {fsync: off}}"""
LENIENT = "validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false, steal: 100%}\n"


class Started:
    """Services without an experiment around them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.services = RunningServices(find_engine(), directory, lambda: None)

    def start(self, services: str, *sets: str) -> list[str]:
        """Starts what differs, and waits for the replicas; returns what was started."""
        started = self.services.ensure(self.config(services, *sets), {}, same_cell=True)
        self.services.wait_for_replicas()
        return started

    @staticmethod
    def config(services: str, *sets: str) -> Config:
        return load(FILE.replace("SERVICES", services), sets).cells[0].config

    def service(self, name: str) -> RunningService:
        (found,) = [each for each in self.services.running if each.spec.name == name]
        return found

    def ask(self, name: str, statement: str) -> Any:
        """The rows of a statement of the experiment's user, who commits each."""
        url = urlsplit(self.service(name).urls[0])
        if url.scheme == "mysql":
            maria = pymysql.connect(
                host=url.hostname,
                port=url.port or 0,
                user=url.username,
                database=url.path[1:],
                autocommit=True,
            )
            with maria, maria.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall()
        with psycopg.connect(self.service(name).urls[0], autocommit=True) as connection:
            cursor_ = connection.execute(statement)
            return cursor_.fetchall() if cursor_.description else None

    def versions(self, name: str) -> Any:
        return tuple(self.ask(name, "SELECT count(*), max(version) FROM t")[0])

    def as_admin(self, name: str, statement: str) -> Any:
        server = self.service(name).server
        assert isinstance(server, PostgresAdmin)
        with server.connect() as connection:
            return connection.execute(statement).fetchall()

    def replication(self, name: str) -> dict[str, float]:
        """The counters of a replica's progress."""
        make = self.service(name).counters
        assert make is not None
        source = make()
        try:
            source.open()
            reading = source.read()
        finally:
            source.close()
        values = {**reading.counters, **reading.gauges}
        return {key: value for key, value in values.items() if key.startswith("replication.")}

    def processes(self) -> list[str]:
        """Command lines of processes that work below the directory."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = path.read_bytes().decode(errors="replace").replace("\0", " ")
            except OSError:
                continue
            if str(self.directory) in text and "pytest" not in text:
                found.append(text)
        return found


@pytest.fixture
def started(place: Path) -> Iterator[Started]:  # noqa: F811
    made = Started(place / "services")
    made.directory.mkdir()
    made.directory.chmod(0o755)
    yield made
    made.services.stop()
    with contextlib.suppress(FileNotFoundError):
        made.directory.rmdir()


def test_a_row_that_is_written_at_the_source_is_read_at_the_replica(started: Started) -> None:
    needs("postgres")
    assert started.start(STREAMING) == ["db", "near"]
    assert started.versions("near") == (ROWS, 0)
    started.ask("db", "UPDATE t SET version = 7 WHERE id = 3")
    started.services.wait_for_replicas()
    assert started.versions("near") == (ROWS, 7)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        started.ask("near", "UPDATE t SET version = 8 WHERE id = 3")
    found = started.replication("near")
    assert found["replication.connected"] == 1
    assert found["replication.replayed_bytes"] > 1_000_000
    assert 0 <= found["replication.lag_bytes"] < found["replication.replayed_bytes"]
    assert started.processes()
    started.services.stop()
    assert started.processes() == []
    assert not [path for path in started.directory.rglob("*") if path.is_file()]


@pytest.mark.long
def test_the_lag_is_what_a_replica_has_not_replayed_yet(started: Started) -> None:
    needs("postgres")
    started.start(STREAMING)
    server = started.service("near").server
    assert isinstance(server, PostgresAdmin)
    with server.connect() as connection:
        connection.execute("SELECT pg_wal_replay_pause()")
        before = started.as_admin("db", "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')")[0][0]
        for version in range(1, 50):
            started.ask("db", f"UPDATE t SET version = {version}")
        written = (
            started.as_admin("db", "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')")[0][0] - before
        )
        assert started.replication("near")["replication.lag_bytes"] >= written > 100_000
        assert started.versions("near") == (ROWS, 0), "reads are stale"
        # A replica that makes no progress: its time is the time without progress, not that of the whole wait.
        started.service("near").spec = started.config(
            STREAMING.replace("replica_of: db", "replica_of: db, ready_timeout: 1s")
        ).service("near")
        with pytest.raises(
            ServiceError, match=r"service near, a replica of db, has not caught up: it is \d.* behind"
        ):
            started.services.wait_for_replicas()
        connection.execute("SELECT pg_wal_replay_resume()")
    # It is started anew, because it may never catch up.
    assert started.start(STREAMING) == ["near"]
    assert started.versions("near") == (ROWS, 49)


@pytest.mark.long
def test_a_cascade_replays_what_its_first_source_has(started: Started) -> None:
    """A base backup of a replica copies nothing that only exists at the first server, such as a slot."""
    needs("postgres")
    cascade = f"{STREAMING}\n  far: {{kind: postgres, replica_of: near}}"
    started.start(cascade)
    started.ask("db", "UPDATE t SET version = 5 WHERE id = 1")
    started.services.wait_for_replicas()
    assert started.versions("far") == (ROWS, 5)
    assert started.replication("far")["replication.connected"] == 1
    senders = "SELECT application_name FROM pg_stat_replication"
    assert started.as_admin("near", senders) == [("far",)]
    assert started.as_admin("db", senders) == [("near",)]


@pytest.mark.long
def test_commits_wait_for_all_synchronous_replicas_and_end_with_them(started: Started) -> None:
    needs("postgres")
    two = STREAMING.replace("replica_of: db", "replica_of: db, synchronous: true")
    two += "\n  second: {kind: postgres, replica_of: db, synchronous: true}"
    started.start(two)
    states = "SELECT application_name, sync_state FROM pg_stat_replication ORDER BY 1"
    assert started.as_admin("db", states) == [("near", "sync"), ("second", "sync")]
    started.ask("db", "UPDATE t SET version = 1")
    near = started.service("near")
    assert near.process is not None
    near.process.kill_tree()
    ends: list[float] = []

    def commit() -> None:
        started.ask("db", "UPDATE t SET version = 2 WHERE id = 1")
        ends.append(time.monotonic())

    writer = threading.Thread(target=commit)
    writer.start()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    until(lambda: started.as_admin("db", waiting) == [(1,)])
    assert not ends
    (text,) = started.services.lost_replica_messages()
    assert text.startswith("near has ended: the commits of db waited for it, a synchronous replica")
    assert started.start(two) == ["near"], "the commit does not hold up the new replica"
    writer.join(20)
    assert len(ends) == 1
    # A source whose synchronous replicas have left for good commits again.
    started.start(STREAMING.splitlines()[0])
    assert started.as_admin("db", "SHOW synchronous_standby_names") == [("",)]
    started.ask("db", "UPDATE t SET version = 3")


@pytest.mark.long
def test_a_logical_replica_has_the_tables_and_leaves_no_slot(started: Started) -> None:
    needs("postgres")
    logical = STREAMING.replace("replica_of: db", "replica_of: db, replication: logical")
    started.start(logical)
    started.ask("db", "UPDATE t SET version = 4 WHERE id = 2")
    started.ask("db", "DELETE FROM t WHERE id = 9")
    started.services.wait_for_replicas()
    assert started.versions("near") == (ROWS - 1, 4)
    assert started.replication("near")["replication.connected"] == 1
    near = started.service("near")
    assert near.process is not None
    near.process.kill_tree()
    started.ask("db", "UPDATE t SET version = 5 WHERE id = 2")
    assert started.start(logical) == ["near"], "although its slot was still there"
    assert started.versions("near") == (ROWS - 1, 5)
    only = STREAMING.splitlines()[0] + "\n  other: {kind: postgres, replica_of: db, replication: logical}"
    assert started.start(only) == ["other"]
    assert started.as_admin("db", "SELECT slot_name FROM pg_replication_slots") == [("plimsoll_other",)]
    assert started.as_admin("db", "SELECT count(*) FROM pg_publication") == [(0,)], (
        "it is in the other database"
    )


@pytest.mark.long
def test_a_table_without_a_key_is_refused_before_its_updates_fail(started: Started, tmp_path: Path) -> None:
    needs("postgres")
    (tmp_path / "t.sql").write_text("CREATE TABLE loose (n int); CREATE TABLE kept (n int PRIMARY KEY);")
    logical = STREAMING.replace("replica_of: db", "replica_of: db, replication: logical")
    text = FILE.replace("SERVICES", logical)
    text = text.replace(
        text[text.index("data:") : text.index("workload:")], "data: {x: {into: db, kind: sql, file: t.sql}}\n"
    )
    with pytest.raises(
        ServiceError, match=r"needs a primary key in each table of db\. Without one: public\.loose\."
    ):
        started.services.ensure(load(text, directory=tmp_path).cells[0].config, {}, same_cell=True)


@pytest.mark.long
def test_replicas_of_mariadb_execute_what_their_source_has(started: Started) -> None:
    needs("mariadb")
    chain = "db: {kind: mariadb}\n  near: {kind: mariadb, replica_of: db}\n  far: {kind: mariadb, replica_of: near}"
    started.start(chain)
    started.ask("db", "UPDATE t SET version = 6 WHERE id = 1")
    started.services.wait_for_replicas()
    for name in ("near", "far"):
        assert started.versions(name) == (ROWS, 6)
        with pytest.raises(pymysql.Error, match="read-only"):
            started.ask(name, "UPDATE t SET version = 8")
        found = started.replication(name)
        assert found["replication.connected"] == 1
        assert found["replication.lag_bytes"] == 0
        assert found["replication.replayed_bytes"] > 10_000
    db = started.service("db")
    assert db.process is not None
    db.restart(lambda: None)
    started.ask("db", "UPDATE t SET version = 7 WHERE id = 1")
    started.services.wait_for_replicas()
    assert started.versions("far") == (ROWS, 7), "they connect again"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_source_that_has_ended_ends_the_wait_with_its_message(started: Started, kind: str) -> None:
    needs(kind)
    both = f"db: {{kind: {kind}}}\n  near: {{kind: {kind}, replica_of: db}}"
    started.start(both)
    db = started.service("db")
    assert db.process is not None
    db.process.stop()
    with pytest.raises(ServiceError, match="service db ended"):
        started.services.wait_for_replicas()
    assert "replication.lag_bytes" not in started.replication("near")
    assert started.start(both) == ["db", "near"]
    assert started.versions("near") == (ROWS, 0)


EXPERIMENT = """\
plimsoll: 1
services:
  db:   {kind: postgres}
  near: {kind: postgres, replica_of: db, synchronous: SYNCHRONOUS}
data: {t: {into: db, rows: 1000, row: 20B, versions: true}}
workloads:
  readers:
    driver: sql
    target: near
    table: {table: t, rows: 10, distinct: 10, versions: read}
    load: {testers: 2, think: 5ms}
  writer:
    driver: sql
    target: db
    timeout: 1s
    table: {table: t, rows: 10, distinct: 10, versions: write}
    load: {rate: 20/s, in_flight: 50}
run: {duration: 5s, drain: 2s}
design: {repetitions: 2, seed: 1}
responses: [{metric: reads_per_s}, {metric: stale_share}, {metric: cpu.db}, {metric: gauge.near.replication.lag_bytes}]
ACTIONS
"""


def run(lab: Lab, actions: str, synchronous: str) -> Any:
    text = EXPERIMENT.replace("ACTIONS", actions).replace("SYNCHRONOUS", synchronous) + LENIENT
    done = lab.run("run", lab.file(text), "--json")
    assert done.code == 0, done.err
    return done.json


@pytest.mark.long
def test_stale_reads_of_a_replica_are_counted(lab: Lab, place: Path) -> None:  # noqa: F811
    needs("postgres")
    found = run(lab, "", "false")
    for one in found["runs"]:
        assert one["valid"], one["invalid_reasons"]
        assert one["staleness"]["readers"]["answers"] > 50
        assert one["staleness"]["writes"] > 20
        (near,) = [each for each in one["services"] if each["name"] == "near"]
        assert near["counters"]["replication.replayed_bytes"] > 0
        assert near["gauges"]["replication.connected"] == 1
        assert near["gauges"]["replication.lag_bytes"] >= 0


@pytest.mark.long
def test_commits_that_wait_for_a_killed_replica_end_by_their_time_out(lab: Lab, place: Path) -> None:  # noqa: F811
    needs("postgres")
    found = run(lab, "actions: [{at: 1500ms, kill: {service: near}}]", "true")
    assert len(found["runs"]) == 2, "the second run has a new replica"
    for number in (1, 2):
        events = (lab.results() / "runs" / f"{number:04}" / "events.jsonl").read_text().splitlines()
        texts = [json.loads(line)["text"] for line in events if json.loads(line)["kind"] == "replica-lost"]
        assert texts == [
            "near has ended: the commits of db waited for it, a synchronous replica, until the time-outs of their "
            "requests"
        ]
        kept = record(lab, f"{number:04}")
        assert kept["status"] == "done", kept["reason"]
    (writes,) = {one["staleness"]["writes_failed"] > 0 for one in found["runs"]}
    assert writes


def until(check: Any) -> None:
    """Waits until `check` returns true."""
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.05)
