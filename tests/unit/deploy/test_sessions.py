"""Sessions of databases as gauges: their names, their bound, and waits that a reading does not contain."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.databases.mariadb_sessions import MariadbSessions, wait_of
from plimsoll.deploy.counters.databases.postgres import states, waits
from plimsoll.deploy.counters.databases.sessions import MAX_EVENTS, RUNNING, SessionGauges
from plimsoll.deploy.counters.tally import Tally


def row(state: str, kind: str | None, event: str | None, n: int) -> dict[str, Any]:
    """As pg_stat_activity has it."""
    return {"state": state, "type": kind, "event": event, "n": n, "hidden": 0}


ACTIVITY = [
    row("active", "Lock", "tuple", 3),
    row("active", "Lock", "transactionid", 1),
    row("active", "IO", "DataFileRead", 2),
    row("active", None, None, 2),
    row("idle", "Client", "ClientRead", 5),
    row("idle in transaction", "Client", "ClientRead", 1),
]


def test_only_active_sessions_wait() -> None:
    assert SessionGauges().gauges(waits(ACTIVITY), 1, 2.5) == {
        "sessions_active": 8,
        "sessions_idle_in_transaction": 1,
        "sessions_waiting_lock": 4,
        "lock_wait_longest_s": 2.5,
        "wait.Lock.tuple": 3,
        "wait.Lock.transactionid": 1,
        "wait.IO.DataFileRead": 2,
        "wait.CPU.none": 2,
    }
    assert states(ACTIVITY) == {
        "backends.active": 8,
        "backends.idle": 5,
        "backends.idle_in_transaction": 1,
    }
    nothing = SessionGauges().gauges([], 0, 9.0)
    assert nothing["lock_wait_longest_s"] == 0 and nothing["sessions_active"] == 0


def test_the_number_of_names_is_bounded() -> None:
    gauges = SessionGauges()
    many = [("LWLock", f"event {number}") for number in range(MAX_EVENTS + 5)]
    found = gauges.gauges(many, 0, 0.0)
    assert found["wait.LWLock.event_0"] == 1
    assert found["wait.LWLock.other"] == 5
    later = gauges.gauges([("LWLock", "event 0"), ("Lock", "tuple")], 0, 0.0)
    assert later["wait.LWLock.event_0"] == 1 and later["wait.Lock.other"] == 1


def test_a_wait_that_a_reading_does_not_contain_is_0_in_the_mean() -> None:
    tally = Tally()
    tally.add(Reading({}, {"Threads_running": 2.0}))  # the sessions were not read
    tally.add(Reading({}, {"sessions_active": 1.0}))
    tally.add(Reading({}, {"sessions_active": 8.0, "wait.Lock.row": 6.0}))
    tally.add(Reading({}, {"sessions_active": 0.0}))
    tally.add(Reading({}, {}))
    waited = tally.gauges["wait.Lock.row"]
    assert (waited.total, waited.times, waited.peak, waited.last) == (6.0, 3, 6.0, 0.0)
    assert tally.gauges["sessions_active"].times == 3


@pytest.mark.parametrize(
    ("state", "transaction", "events", "wait"),
    [
        ("Updating", "LOCK WAIT", None, ("Lock", "row")),
        ("Updating", "LOCK WAIT", {7: "wait/io/file/innodb/innodb_data_file"}, ("Lock", "row")),
        ("Waiting for table metadata lock", None, None, ("Lock", "table_metadata")),
        ("Sending data", "RUNNING", None, ("state", "Sending data")),
        ("", None, None, RUNNING),
        ("Sending data", "RUNNING", {}, RUNNING),
        ("Sending data", None, {7: "wait/io/file/innodb/innodb_data_file"}, ("IO", "file/innodb/innodb_data_file")),
        ("Sending data", None, {7: "wait/synch/mutex/sql/LOCK_open"}, ("Synch", "mutex/sql/LOCK_open")),
        ("Opening tables", None, {7: "wait/lock/table/sql/handler"}, ("Lock", "table/sql/handler")),
    ],
)  # fmt: skip
def test_waits_of_mariadb(
    state: str, transaction: str | None, events: dict[int, str] | None, wait: tuple[str, str]
) -> None:
    assert wait_of((7, "Query", state, 1.5, transaction, None), events) == wait


def test_an_account_without_the_right_to_see_sessions_has_no_gauges() -> None:
    import pymysql

    asked = []

    def refuse(statement: str, *_: str) -> list[Any]:
        asked.append(statement)
        raise pymysql.OperationalError(1227, "Access denied; you need the PROCESS privilege")

    sessions = MariadbSessions("events")
    sessions.open(refuse, has_schema=False)
    assert sessions.gauges(refuse) == {} and sessions.gauges(refuse) == {}
    assert len(asked) == 1

    def fail(statement: str, *_: str) -> list[Any]:
        raise pymysql.OperationalError(2013, "Lost connection")

    with pytest.raises(pymysql.OperationalError):
        MariadbSessions("events").gauges(fail)


def test_the_longest_wait_is_that_of_a_lock() -> None:
    rows = [
        (1, "Query", "Updating", 60.0, "LOCK WAIT", 3.2),
        (2, "Query", "Waiting for table metadata lock", 1.5, None, None),
        (3, "Query", "Sending data", 99.0, "RUNNING", None),
        (4, "Sleep", "", 500.0, "RUNNING", None),
        (5, "Sleep", "", 500.0, None, None),
    ]
    found = MariadbSessions("events").gauges(lambda *_: rows)
    assert found["lock_wait_longest_s"] == 3.2
    assert (found["sessions_active"], found["sessions_waiting_lock"]) == (3, 2)
    assert found["sessions_idle_in_transaction"] == 1
    assert found["wait.state.Sending_data"] == 1
