"""The table of the sessions of the databases of a run, by what they waited for."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll.analyse.results.analysis import RunResult
from plimsoll.analyse.results.load.sessions import DatabaseSessions
from plimsoll.analyse.results.wording import number, percent, plus_minus
from plimsoll.analyse.stats.interval import Interval
from plimsoll.report.tables.table import Column, Table

NOTE = (
    "Means of samples, one per second; ± is the 95 % interval within the run. Share: of the active sessions. The "
    "session of Plimsoll's own reader is left out. CPU: without a wait event, so the session ran or waited for a core."
)
STATES = (
    " state: the state of the statement; MariaDB reports wait events only with its performance schema and the consumer "
    "events_waits_current."
)
MAX_ROWS = 12
"""Maximum number of waits of a database."""


def sessions(run: RunResult) -> Table | None:
    """Mean active sessions by wait event; None without a database whose sessions were read."""
    rows = [row for database in run.sessions for row in _rows(database)]
    if not rows:
        return None
    has_states = any(wait.type == "state" for database in run.sessions for wait in database.types)
    heads = (
        *map(Column, ("Database", "Wait", "Event")),
        *(Column(name, numeric=True) for name in ("Mean sessions", "Share")),
    )
    counts = ", ".join(f"{database.samples} of {database.service}" for database in run.sessions)
    note = f"{NOTE}{STATES if has_states else ''} Samples: {counts}."
    return Table(f"Sessions of the databases in run {run.id}", heads, tuple(rows), note)


def _rows(database: DatabaseSessions) -> Iterator[tuple[str, ...]]:
    name, whole = database.service, database.active.mean
    yield name, "all active", "", _mean(database.active), ""
    for wait in database.waits[:MAX_ROWS]:
        share = percent(wait.sessions.mean / whole) if whole > 0 else "–"
        yield name, wait.type, wait.event, _mean(wait.sessions), share
    if database.idle_in_transaction > 0:
        yield name, "idle in transaction", "", number(database.idle_in_transaction, 2), ""
    if database.longest_lock_wait_s > 0:
        yield name, "longest wait for a lock", "", f"{number(database.longest_lock_wait_s, 2)} s", ""


def _mean(interval: Interval) -> str:
    has_width = interval.low is not None and interval.low < interval.mean
    return plus_minus(interval, "number") if has_width else number(interval.mean, 3)
