"""Sessions of databases by what they wait for: means, the rule over runs and cells, the sentence, table and strip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.analyse import made

from plimsoll.analyse.answer.load.sessions import wait_sentence
from plimsoll.analyse.components.component_series import CounterChoice, Placement, run_component_series
from plimsoll.analyse.components.sessions import database_sessions
from plimsoll.analyse.design.across import Design, grouped
from plimsoll.analyse.design.sessions import explaining_waits
from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.metrics import metric_value
from plimsoll.analyse.results.run import CountedService
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings
from plimsoll.report.charts.resources.components import strips
from plimsoll.report.tables.resources.sessions import sessions as table

SECONDS = 20
WINDOW = Window(2 * 10**9, (SECONDS - 1) * 10**9)
"""Without the warm-up and the reading after the load."""
DESIGN = Design({"testers": ["5", "10"]}, "testers", {"5": 5.0, "10": 10.0})


def readings(waiting: float, *, io: float = 0.0, active: float = 10.0, name: str = "db") -> WatchedReadings:
    """One reading per second. In the first two seconds, and in the last, no session is active."""
    t = np.arange(float(SECONDS))
    busy = (t >= 2) & (t < SECONDS - 1)
    values = {
        "sessions_active": active * busy,
        "sessions_idle_in_transaction": 1.0 * busy,
        "sessions_waiting_lock": waiting * busy,
        "lock_wait_longest_s": np.where(t == 8, 3.2, 0.1),
        "wait.Lock.tuple": 0.75 * waiting * busy,
        "wait.Lock.transactionid": 0.25 * waiting * busy,
        "wait.IO.DataFileRead": io * busy,
        "wait.CPU.none": (active - waiting - io) * busy,
    }
    return WatchedReadings(name, "postgres", "", t, values, frozenset(values))


def run(id: str, level: str, *found: WatchedReadings, valid: bool = True) -> RunResult:
    measured = database_sessions(found, WINDOW)
    return replace(made.run(id, cell={"testers": level}, valid=valid), sessions=measured)


def test_means_are_those_of_the_samples_in_the_window() -> None:
    (found,) = database_sessions([readings(4.0, io=2.0)], WINDOW)
    assert (found.samples, found.active.mean, found.idle_in_transaction) == (17, 10.0, 1.0)
    assert [(wait.type, wait.event, wait.sessions.mean) for wait in found.waits] == [
        ("CPU", "none", 4.0),
        ("Lock", "tuple", 3.0),
        ("IO", "DataFileRead", 2.0),
        ("Lock", "transactionid", 1.0),
    ]
    assert {wait.type: wait.sessions.mean for wait in found.types} == {"CPU": 4.0, "Lock": 4.0, "IO": 2.0}
    assert (found.longest_lock_wait_s, found.explained_by) == (3.2, "Lock")


@pytest.mark.parametrize(
    ("waiting", "active", "explained"),
    [(1.0, 4.0, "Lock"), (0.9, 3.0, ""), (2.4, 10.0, ""), (2.5, 10.0, "Lock"), (0.0, 10.0, "")],
)
def test_a_wait_explains_from_a_number_and_a_share_on(waiting: float, active: float, explained: str) -> None:
    """Running sessions are no wait, even if all of them run."""
    (found,) = database_sessions([readings(waiting, active=active)], WINDOW)
    assert found.explained_by == explained


def test_databases_without_sessions_and_windows_without_readings_have_none() -> None:
    old = WatchedReadings("db", "postgres", "", np.arange(5.0), {"backends.active": np.ones(5)}, frozenset())
    assert database_sessions([old], WINDOW) == ()
    assert database_sessions([readings(4.0)], Window(50 * 10**9, 60 * 10**9)) == ()


def test_the_cell_with_most_waiting_sessions_is_stated_if_most_of_its_runs_say_so() -> None:
    runs = [
        run("0001", "5", readings(3.0, active=5.0)),
        run("0002", "5", readings(3.0, active=5.0)),
        run("0003", "10", readings(7.0)),
        run("0004", "10", readings(8.6)),
        run("0005", "10", readings(0.0)),
        run("0006", "10", readings(0.0), valid=False),
    ]
    (wait,) = explaining_waits(grouped(runs, {}, DESIGN))
    assert (wait.cell, wait.runs, wait.events) == ({"testers": "10"}, 3, ("tuple", "transactionid"))
    assert wait.sessions.mean == pytest.approx(5.2)
    assert explaining_waits(grouped([runs[3], runs[4]], {}, DESIGN)) == ()


def test_the_sentence() -> None:
    (wait,) = explaining_waits(grouped([run("0001", "10", readings(7.8))], {}, DESIGN))
    assert wait_sentence(wait).replace("\xa0", " ") == (
        "On average with testers 10, 7.8 of 10 active sessions of db waited for a lock (tuple and transactionid); the "
        "longest wait that a sample found was 3.2 s."
    )


def test_the_table_and_the_strip() -> None:
    shown = table(run("0001", "10", readings(4.0, io=2.0)))
    assert shown is not None
    assert shown.rows[:3] == (
        ("db", "all active", "", "10.0", ""),
        ("db", "CPU", "none", "4.00", "40.0\xa0%"),
        ("db", "Lock", "tuple", "3.00", "30.0\xa0%"),
    )
    assert "17 of db" in shown.note
    assert table(made.run()) is None
    placement = Placement({"db": ""}, {"db": "postgres"}, frozenset(), 2)
    series = run_component_series(
        [], [readings(4.0, io=2.0)], [], placement, lambda _: CounterChoice(), length_s=SECONDS
    )
    assert series is not None
    (component,) = series.components
    (strip,) = strips(component)
    assert (strip.title, strip.is_stacked, list(strip.lines)) == (
        "active sessions",
        True,
        ["running", "I/O", "locks"],
    )
    assert strip.lines["locks"][10] == 4.0


def test_a_wait_that_no_session_had_is_0_and_unknown_if_sessions_were_not_read() -> None:
    def with_gauges(gauges: dict[str, float]) -> RunResult:
        service = CountedService("db", "postgres", "", {}, {}, {}, window_gauges=gauges)
        return replace(made.run(), services=(service,))

    name = 'gauge.db."wait.Lock.tuple"'
    assert metric_value(with_gauges({"sessions_active": 2.0, "wait.Lock.tuple": 1.5}), name) == 1.5
    assert metric_value(with_gauges({"sessions_active": 2.0}), name) == 0.0
    assert metric_value(with_gauges({"backends.active": 2.0}), name) is None
    assert metric_value(with_gauges({"sessions_active": 2.0}), "gauge.db.sessions_waiting_lock") is None
