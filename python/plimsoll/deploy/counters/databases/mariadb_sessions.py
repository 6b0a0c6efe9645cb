"""Sessions of a MariaDB database by what they wait for.

The list of processes is always available, but a session that waits for a row lock has the state of its statement there
("Updating"), so the transactions of InnoDB are read too. With the performance schema and its consumer
`events_waits_current`, the current wait event of each session replaces its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from plimsoll.deploy.counters.databases.sessions import LOCK, RUNNING, STATE, SessionGauges, Wait

PROCESSES: Final = """
SELECT p.id, p.command, COALESCE(p.state, ''), p.time_ms / 1000, t.trx_state,
  TIMESTAMPDIFF(MICROSECOND, t.trx_wait_started, NOW(6)) / 1e6
FROM information_schema.processlist p LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id
WHERE (%s = '' OR p.db = %s) AND p.id <> CONNECTION_ID() AND p.user <> 'system user'
"""
EVENTS: Final = """
SELECT t.processlist_id, w.event_name
FROM performance_schema.events_waits_current w JOIN performance_schema.threads t ON t.thread_id = w.thread_id
WHERE w.end_event_id IS NULL AND t.processlist_id IS NOT NULL ORDER BY w.event_id
"""
"""Waits inside others have greater numbers."""
CONSUMER: Final = """
SELECT enabled FROM performance_schema.setup_consumers WHERE name = 'events_waits_current'
"""
_ACCESS_DENIED: Final = 1227
_TYPES: Final = {"io": "IO", "synch": "Synch", "lock": LOCK}
_INACTIVE: Final = ("Sleep", "Daemon", "Connect", "Binlog Dump")
_ROW_LOCK: Final = (LOCK, "row")

Execute = Callable[..., list[Any]]


class MariadbSessions:
    """The gauges of the sessions of `database` (empty: of all), without that of this reader."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._is_allowed = True
        self._has_events = False
        self._gauges = SessionGauges()

    def open(self, execute: Execute, *, has_schema: bool) -> None:
        """Finds out whether wait events are recorded."""
        self._has_events = False
        if has_schema and self._is_allowed:
            rows = self._readable(execute, CONSUMER)
            self._has_events = rows is not None and rows[:1] == [("YES",)]

    def gauges(self, execute: Execute) -> dict[str, float]:
        """The gauges of one reading; empty if the account has no right to see other sessions (PROCESS)."""
        if not self._is_allowed:
            return {}
        rows = self._readable(execute, PROCESSES, self._database, self._database)
        if rows is None:
            self._is_allowed = False
            return {}
        events = dict(execute(EVENTS)) if self._has_events else None
        active = [row for row in rows if row[1] not in _INACTIVE]
        locked = [(row, wait) for row in active if (wait := wait_of(row, events))[0] == LOCK]
        longest = max((_waited_s(row) for row, _ in locked), default=0.0)
        idle = sum(row[1] == "Sleep" and row[4] is not None for row in rows)
        return self._gauges.gauges([wait_of(row, events) for row in active], idle, longest)

    def _readable(self, execute: Execute, statement: str, *values: str) -> list[Any] | None:
        import pymysql

        try:
            return execute(statement, *values)
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in (_ACCESS_DENIED, 1142):
                return None
            raise


def wait_of(row: tuple[Any, ...], events: Mapping[int, str] | None) -> Wait:
    """The wait of an active session. `row`: as PROCESSES selects it; `events`: by session, None if unknown."""
    number, _, state, _, transaction, _ = row
    if transaction == "LOCK WAIT":
        return _ROW_LOCK
    words = state.split()
    if words[:2] == ["Waiting", "for"] and words[-1] == "lock":
        return LOCK, "_".join(words[2:-1]) or "other"
    if events is None:
        return (STATE, state) if state else RUNNING
    event = events.get(number)
    if event is None:
        return RUNNING
    _, _, rest = event.partition("/")
    kind, _, name = rest.partition("/")
    return _TYPES.get(kind, kind), name


def _waited_s(row: tuple[Any, ...]) -> float:
    """The time of a lock wait: of a row lock since its begin, which has a resolution of one second; of another lock
    since the begin of the statement."""
    return float(row[5] if row[4] == "LOCK WAIT" and row[5] is not None else row[3] or 0.0)
