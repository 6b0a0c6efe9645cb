"""MariaDB's global status, sessions, and digests of statements if the performance schema is on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters import Reading
from plimsoll.deploy.counters.databases.mariadb_sessions import MariadbSessions

if TYPE_CHECKING:
    import pymysql

SLOWEST: Final = 10
QUOTED: Final = 500
OF_SESSIONS: Final = (
    *("Questions", "Com_select", "Com_insert", "Com_update", "Com_delete", "Com_commit", "Com_rollback"),
    *("Bytes_received", "Bytes_sent", "Slow_queries", "Created_tmp_tables", "Created_tmp_disk_tables"),
    *("Select_scan", "Select_full_join", "Sort_rows", "Handler_read_first", "Handler_read_key"),
    *("Handler_read_next", "Handler_read_rnd", "Handler_read_rnd_next"),
)
"""Counters that MariaDB also keeps for each session, so that those of this reader's session can be
subtracted."""
OF_SERVER: Final = (
    *("Connections", "Aborted_clients", "Aborted_connects", "Table_locks_waited"),
    *("Innodb_buffer_pool_read_requests", "Innodb_buffer_pool_reads", "Innodb_buffer_pool_wait_free"),
    *(
        "Innodb_data_reads",
        "Innodb_data_writes",
        "Innodb_data_fsyncs",
        "Innodb_log_writes",
        "Innodb_log_waits",
    ),
    *("Innodb_rows_read", "Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted"),
    *("Innodb_row_lock_waits", "Innodb_row_lock_time", "Innodb_deadlocks"),
)
GAUGES: Final = (
    *(
        "Threads_connected",
        "Threads_running",
        "Innodb_buffer_pool_pages_data",
        "Innodb_buffer_pool_pages_dirty",
    ),
    "Innodb_buffer_pool_pages_free",
)
STATUS: Final = """
SELECT 'all', variable_name, variable_value FROM information_schema.global_status WHERE variable_name IN %s
UNION ALL
SELECT 'own', variable_name, variable_value FROM information_schema.session_status WHERE variable_name IN %s
"""
DIGESTS: Final = """
SELECT digest_text, count_star, sum_timer_wait / 1e12, sum_rows_sent, sum_rows_examined
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = %s AND digest_text IS NOT NULL ORDER BY sum_timer_wait DESC LIMIT 10
"""


class MariadbCounters:
    """Selected variables of the global status, without the share of this reader. `resets`: whether `open` clears the
    digests of statements, so that their sums are those of the run; otherwise they are not read, because other users of
    the server may need them."""

    def __init__(
        self, connect: Callable[..., pymysql.Connection[Any]], database: str, *, resets: bool = True
    ) -> None:
        self._connect = connect
        self._resets = resets
        self._database = database
        self._connection: pymysql.Connection[Any] | None = None
        self._digests = False
        self._sessions = MariadbSessions(database)

    def open(self) -> None:
        """Connects and clears the digests, if it may."""
        # Connects to no database: digests are kept by database, so those of this reader are separate from the load's.
        self._connection = self._connect(None)
        has_schema = self._execute("SELECT @@performance_schema")[0][0] == 1
        self._digests = self._resets and has_schema
        self._sessions.open(self._execute, has_schema=has_schema)
        if self._digests:
            self._execute("TRUNCATE performance_schema.events_statements_summary_by_digest")

    def read(self) -> Reading:
        """Executes a statement for the status, and one or two for the sessions."""
        rows = self._execute(STATUS, (*OF_SESSIONS, *OF_SERVER, *GAUGES), OF_SESSIONS)
        # MariaDB returns the names in capitals.
        status = {(whose, name.lower()): float(value) for whose, name, value in rows}
        all_of = {name: status.get(("all", name.lower())) for name in (*OF_SESSIONS, *OF_SERVER, *GAUGES)}
        values = {name: value for name, value in all_of.items() if value is not None}
        counters = {
            name: value - status.get(("own", name.lower()), 0.0)
            for name, value in values.items()
            if name not in GAUGES
        }
        gauges = {name: values[name] for name in GAUGES if name in values}
        return Reading(counters, gauges | self._sessions.gauges(self._execute))

    def last(self) -> Mapping[str, Any]:
        """The slowest statements of the run by their total time, in seconds."""
        if not self._digests:
            return {}
        rows = self._execute(DIGESTS, self._database)
        return {
            "statements": [
                {
                    "statement": " ".join(str(text).split())[:QUOTED],
                    "calls": int(calls),
                    "total_s": float(seconds),
                    "rows": int(sent),
                    "rows_examined": int(examined),
                }
                for text, calls, seconds, sent, examined in rows[:SLOWEST]
            ]
        }

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()

    def _execute(self, statement: str, *values: str | Sequence[str]) -> list[Any]:
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())
