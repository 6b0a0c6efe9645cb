"""PostgreSQL's own statistics views. The reader connects to another database than the load, so the views do
not count its transactions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.databases.sessions import LOCK, RUNNING, SessionGauges, Wait

if TYPE_CHECKING:
    import psycopg

SLOWEST: Final = 10
MAX_ROWS: Final = 4500
"""pg_stat_statements has room for 5,000 statements, those of all databases together."""
QUOTED: Final = 500
"""The maximum number of characters of a statement."""
GAUGES: Final = ("numbackends",)
IGNORED: Final = ("datid", "checksum_last_failure")
QUERY: Final = """
SELECT to_jsonb(d) AS database,
  (SELECT to_jsonb(b) FROM pg_stat_bgwriter b) AS bgwriter,
  {checkpointer} AS checkpointer,
  {wal} AS wal,
  (SELECT jsonb_agg(s) FROM (
     SELECT coalesce(state, 'unknown') AS state, wait_event_type AS type, wait_event AS event, count(*) AS n,
       count(*) FILTER (WHERE query = '<insufficient privilege>' OR state = 'disabled') AS hidden
     FROM pg_stat_activity
     WHERE datname = d.datname AND backend_type = 'client backend' AND pid <> pg_backend_pid()
     GROUP BY 1, 2, 3) s) AS sessions
FROM pg_stat_database d WHERE d.datname = %s
"""
"""Selects whole rows, so that columns that a version adds, renames or removes do not cause an error."""
LOCK_WAITS: Final = """
SELECT max(extract(epoch FROM clock_timestamp() - {since})) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE NOT l.granted AND a.datname = %s
"""
"""Only sent if a session waits for a lock: pg_locks holds all locks of the lock table for a short time."""
_OF_SESSION: Final = re.compile(
    r"(set|reset|show|discard|begin|start|commit|end|rollback|abort|savepoint|release)\b", re.IGNORECASE
)
STATES: Final = ("active", "idle", "idle in transaction")
_ACTIVE: Final = ("active", "fastpath function call")
_IN_TRANSACTION: Final = "idle in transaction"
_WAIT_START: Final = 140000
"""The version from which pg_locks has the begin of a wait. Before it, the begin of the statement is used."""


class PostgresCounters:
    """Reads pg_stat_database, pg_stat_bgwriter, _checkpointer (17), _wal (14), sessions by state and wait event, and
    pg_stat_statements. The session of this reader is left out. `resets`: whether `open` clears pg_stat_statements, so
    that its sums are those of the run; otherwise they are not read, because other users of the server may need
    them."""

    def __init__(
        self, connect: Callable[..., psycopg.Connection[Any]], database: str, *, resets: bool = True
    ) -> None:
        self._connect = connect
        self._resets = resets
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._query = ""
        self._statements = False
        self._sessions = SessionGauges()

    def open(self) -> None:
        """Connects and resets pg_stat_statements, if it may."""
        self._connection = self._connect()
        self._connection.execute("SET statement_timeout = '5s'")
        self._keep_out_of_the_log()
        self._query = QUERY.format(
            checkpointer=self._row_of("pg_stat_checkpointer"), wal=self._row_of("pg_stat_wal")
        )
        self._statements = self._resets and self._has_relation("pg_stat_statements")
        if self._statements:
            self._execute("SELECT pg_stat_statements_reset()")

    def _keep_out_of_the_log(self) -> None:
        """The statements of this reader are no load, and the end of the log is the reason of a run whose server died.
        Only a superuser may set this."""
        import psycopg

        assert self._connection is not None
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            for setting in (
                "log_statement = none",
                "log_min_duration_statement = -1",
                "log_min_error_statement = panic",
            ):
                self._connection.execute(f"SET {setting}")

    def read(self) -> Reading:
        """Executes one query; a second one if sessions wait for locks."""
        rows = self._execute(self._query, self._database)
        if not rows:
            raise ValueError(f"the server has no database {self._database}")
        database, *groups, sessions = rows[0]
        counters = _numbers(database, "")
        for prefix, group in zip(("bgwriter.", "checkpointer.", "wal."), groups, strict=True):
            counters |= _numbers(group, prefix)
        gauges = {name: counters.pop(name) for name in GAUGES if name in counters}
        assert self._connection is not None
        if "numbackends" in gauges and self._connection.info.dbname == self._database:
            gauges["numbackends"] -= 1
        return Reading(counters, gauges | states(sessions or ()) | self._session_gauges(sessions or ()))

    def _session_gauges(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Empty if the account of this reader may not see what other sessions do."""
        if any(row["hidden"] for row in rows):
            return {}
        active = waits(rows)
        longest = self._longest_lock_wait() if any(kind == LOCK for kind, _ in active) else 0.0
        idle = sum(row["n"] for row in rows if row["state"].startswith(_IN_TRANSACTION))
        return self._sessions.gauges(active, idle, longest)

    def _longest_lock_wait(self) -> float:
        assert self._connection is not None
        has_start = self._connection.info.server_version >= _WAIT_START
        query = LOCK_WAITS.format(since="l.waitstart" if has_start else "a.query_start")
        return float(self._execute(query, self._database)[0][0] or 0.0)

    def last(self) -> Mapping[str, Any]:
        """The slowest statements of the run by their total time, in seconds."""
        if not self._statements:
            return {}
        rows = self._execute(
            "SELECT to_jsonb(s) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = %s",
            self._database,
        )
        statements = [_statement(row[0]) for row in rows]
        slowest = sorted(statements, key=lambda statement: -statement["total_s"])[:SLOWEST]
        # A full table drops rows, and with them their calls.
        return {"statements": slowest} | ({"gauges": calls(statements)} if len(rows) < MAX_ROWS else {})

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def _row_of(self, view: str) -> str:
        return f"(SELECT to_jsonb(v) FROM {view} v)" if self._has_relation(view) else "NULL::jsonb"

    def _has_relation(self, relation: str) -> bool:
        return bool(self._execute("SELECT to_regclass(%s) IS NOT NULL", relation)[0][0])

    def _execute(self, query: Any, *values: str) -> list[Any]:
        assert self._connection is not None
        return self._connection.execute(query, values or None).fetchall()


def states(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The numbers of sessions by state."""
    found = dict.fromkeys(STATES, 0)
    for row in rows:
        found[row["state"]] = found.get(row["state"], 0) + row["n"]
    return {f"backends.{state.replace(' ', '_')}": float(n) for state, n in found.items()}


def waits(rows: Iterable[Mapping[str, Any]]) -> list[Wait]:
    """The wait of each active session."""
    return [
        (row["type"], row["event"] or "") if row["type"] else RUNNING
        for row in rows
        if row["state"] in _ACTIVE
        for _ in range(row["n"])
    ]


def calls(statements: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The number of statements of the run that are not about the session. Other than the transactions of
    pg_stat_database, pg_stat_statements contains each at once."""
    counted = (each["calls"] for each in statements if not _OF_SESSION.match(each["statement"]))
    return {"statements.calls": float(sum(counted))}


def _numbers(row: Mapping[str, Any] | None, prefix: str) -> dict[str, float]:
    return {
        prefix + key: float(value)
        for key, value in (row or {}).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and key not in IGNORED
    }


def _statement(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a row of pg_stat_statements. Before version 13, the time has another name."""
    total_ms = float(row.get("total_exec_time", row.get("total_time", 0.0)))
    return {
        "statement": " ".join(str(row["query"]).split())[:QUOTED],
        "calls": int(row["calls"]),
        "total_s": total_ms / 1000,
        "rows": int(row["rows"]),
        "blocks_hit": int(row["shared_blks_hit"]),
        "blocks_read": int(row["shared_blks_read"]),
    }
