"""PostgreSQL's own statistics views. The reader connects to another database than the load, so the views do
not count its transactions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters import Reading

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
  (SELECT jsonb_object_agg(state, n) FROM (
     SELECT coalesce(state, 'unknown') AS state, count(*) AS n FROM pg_stat_activity
     WHERE datname = d.datname AND backend_type = 'client backend' GROUP BY 1) s) AS backends
FROM pg_stat_database d WHERE d.datname = %s
"""
"""Selects whole rows, so that columns that a version adds, renames or removes do not cause an error."""
_OF_SESSION: Final = re.compile(
    r"(set|reset|show|discard|begin|start|commit|end|rollback|abort|savepoint|release)\b", re.IGNORECASE
)
STATES: Final = ("active", "idle", "idle in transaction")


class PostgresCounters:
    """Reads pg_stat_database, pg_stat_bgwriter, _checkpointer (17), _wal (14), backends by state, and
    pg_stat_statements. `resets`: whether `open` clears the latter, so that its sums are those of the run; otherwise
    they are not read, because other users of the server may need them."""

    def __init__(
        self, connect: Callable[..., psycopg.Connection[Any]], database: str, *, resets: bool = True
    ) -> None:
        self._connect = connect
        self._resets = resets
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._query = ""
        self._statements = False

    def open(self) -> None:
        """Connects and resets pg_stat_statements, if it may."""
        self._connection = self._connect()
        self._connection.execute("SET statement_timeout = '5s'")
        self._query = QUERY.format(
            checkpointer=self._row_of("pg_stat_checkpointer"), wal=self._row_of("pg_stat_wal")
        )
        self._statements = self._resets and self._has_relation("pg_stat_statements")
        if self._statements:
            self._execute("SELECT pg_stat_statements_reset()")

    def read(self) -> Reading:
        """Executes one query."""
        rows = self._execute(self._query, self._database)
        if not rows:
            raise ValueError(f"the server has no database {self._database}")
        database, *groups, backends = rows[0]
        counters = _numbers(database, "")
        for prefix, group in zip(("bgwriter.", "checkpointer.", "wal."), groups, strict=True):
            counters |= _numbers(group, prefix)
        gauges = {name: counters.pop(name) for name in GAUGES if name in counters}
        states = dict.fromkeys(STATES, 0) | (backends or {})
        gauges |= {f"backends.{state.replace(' ', '_')}": float(n) for state, n in states.items()}
        return Reading(counters, gauges)

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
