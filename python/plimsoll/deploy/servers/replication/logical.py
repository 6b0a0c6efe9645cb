"""Logical replicas of PostgreSQL: servers of their own that subscribe to the changes of the source's tables."""

from __future__ import annotations

import contextlib
import re
import time
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.process import Program
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.postgres_admin import ADMIN, PostgresAdmin, single_value
from plimsoll.deploy.servers.replication import KeptConnection, ReplicaState, register
from plimsoll.deploy.servers.replication.postgres import (
    POSITION,
    connection_words,
    source_bytes,
    write_passwords,
)
from plimsoll.errors import ServiceError

if TYPE_CHECKING:
    import psycopg

TABLES: Final = """
SELECT format('%I.%I', n.nspname, c.relname),
  c.relreplident = 'f' OR EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
    OR EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1
"""
"""The tables of a database, and whether their changed rows can be identified at a replica."""
COPIED: Final = """
SELECT coalesce(bool_and(srsubstate IN ('r', 's')), true) FROM pg_subscription_rel
"""
SENDER: Final = """
SELECT pg_wal_lsn_diff(replay_lsn, '0/0')::bigint, state = 'streaming' FROM pg_stat_replication
WHERE application_name = %s
"""
HAS_REPLAYED: Final = """
SELECT coalesce(bool_or(replay_lsn >= %s::pg_lsn), false) FROM pg_stat_replication WHERE application_name = %s
"""
COPY_S: Final = 120.0
DROP_S: Final = 5.0


def subscribe(running: RunningService, site: Site, source: RunningService, programs: PurePath) -> None:
    """Creates the source's tables in a started server, and subscribes to them. Raises ServiceError."""
    own, first, settings = running.server, source.server, running.spec.settings
    assert isinstance(own, PostgresAdmin) and isinstance(first, PostgresAdmin), "the plan compares the kinds"
    name, database, slot = running.spec.name, settings["database"], slot_name(running.spec.name)
    passwords = write_passwords(running, site, own, first)
    _withdraw(first, database, slot)  # of an earlier start, if the source could not be reached at its end
    with first.connect(database) as connection:
        tables = _tables(connection, name, source.spec.name)
        _publish(connection, slot, tables)
    running.detach = partial(_withdraw, first, database, slot)
    schema = running.directory / "schema.sql"
    site.host.write(schema, "", owner=site.account)
    dump = ["pg_dump", *_login(first, database), "--schema-only", "--no-publications", "--no-subscriptions"]
    _run(running, site, [programs / dump[0], *dump[1:], "-f", schema], passwords)
    load = ["psql", *_login(own, database), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    _run(running, site, [programs / load[0], *load[1:], "-f", schema], passwords)
    _create_subscription(
        own, database, slot, f"{connection_words(first, slot, passwords)} dbname='{database}'", running
    )
    register(running, source, lambda: LogicalReplica(own, first, database, slot))
    running.catch_up(site.check_interrupt)


def slot_name(name: str) -> str:
    """The name of a replica's publication, subscription and slot. The plan refuses names that differ in other
    characters only."""
    return "plimsoll_" + re.sub("[^a-z0-9_]", "_", name.lower())


def _tables(connection: psycopg.Connection[Any], name: str, source: str) -> list[str]:
    """The tables to publish. Without a key, the source itself would refuse updates and deletions of rows."""
    rows = connection.execute(TABLES).fetchall()
    unknown = [table for table, is_identified in rows if not is_identified]
    if unknown:
        raise ServiceError(
            f"service {name}: logical replication needs a primary key in each table of {source}. Without one: "
            f"{', '.join(unknown[:5])}. Add one, or ALTER TABLE ... REPLICA IDENTITY FULL, in its SQL file"
        )
    if not rows:
        raise ServiceError(
            f"service {name}: {source} contains no table to replicate: write tables into it (`data:`)"
        )
    return [table for table, _ in rows]


def _publish(connection: psycopg.Connection[Any], slot: str, tables: list[str]) -> None:
    """Publishes these tables only: a table that is created later, such as that of a gateway, may have no key."""
    from psycopg.sql import SQL, Identifier

    listed = SQL(", ").join(SQL(table) for table in tables)  # quoted by format('%I')
    connection.execute(SQL("CREATE PUBLICATION {} FOR TABLE {}").format(Identifier(slot), listed))


def _create_subscription(
    own: PostgresAdmin, database: str, slot: str, conninfo: str, running: RunningService
) -> None:
    from psycopg.sql import SQL, Identifier, Literal

    with own.connect(database) as connection:
        # It waits for all transactions of the source that are in progress.
        connection.execute(f"SET statement_timeout = {running.spec.ready_timeout_ns // 1_000_000}")
        connection.execute(
            SQL("CREATE SUBSCRIPTION {} CONNECTION {} PUBLICATION {}").format(
                Identifier(slot), Literal(conninfo), Identifier(slot)
            )
        )


def _withdraw(source: PostgresAdmin, database: str, slot: str) -> None:
    """Removes publication and slot from the source. A slot that is left keeps its write-ahead log."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    with source.connect(database) as connection:
        connection.execute(SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(slot)))
        deadline = time.monotonic() + DROP_S
        while single_value(connection, "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", slot):
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active",
                [slot],
            )
            with contextlib.suppress(psycopg.errors.ObjectInUse):
                connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            if time.monotonic() > deadline:
                raise ServiceError(f"the replication slot {slot} could not be removed within {DROP_S:g} s")
            time.sleep(0.02)


def _login(server: PostgresAdmin, database: str) -> list[str]:
    return ["-h", server.address, "-p", str(server.port), "-U", ADMIN, "-w", "-d", database]


def _run(running: RunningService, site: Site, words: list[str | PurePath], passwords: PurePath) -> None:
    """Runs a program of PostgreSQL on the host of the replica."""
    name, program = running.spec.name, PurePath(words[0]).name
    environment = {"HOME": str(running.directory), "LC_ALL": "C", "PGPASSFILE": str(passwords)}
    site.host.run_to_end(
        Program(
            name,
            site.host.command_as(site.account, words, environment),
            running.directory / f"{program}.log",
            directory=running.directory,
        ),
        failure=f"service {name}: the tables of {running.spec.settings['replica_of']} could not be created ({program})",
        check_interrupt=site.check_interrupt,
        timeout_s=COPY_S,
    )


class LogicalReplica:
    """See `Replica`. The source knows the position that the replica has replayed."""

    def __init__(self, own: PostgresAdmin, source: PostgresAdmin, database: str, slot: str) -> None:
        self._own = KeptConnection(partial(own.connect, database))
        self._source = KeptConnection(source.connect)
        self._slot = slot
        self._replayed: int | None = None

    def source_position(self) -> str:
        """See `Replica`."""
        with self._source.cursor() as cursor:
            return str(cursor.execute(POSITION).fetchone()[0])

    def has_reached(self, position: str) -> bool:
        """See `Replica`."""
        with self._own.cursor() as cursor:
            is_copied = cursor.execute(COPIED).fetchone()[0]
        with self._source.cursor() as cursor:
            return bool(is_copied and cursor.execute(HAS_REPLAYED, [position, self._slot]).fetchone()[0])

    def state(self) -> ReplicaState:
        """See `Replica`."""
        import psycopg

        written, connected = source_bytes(self._source), False
        with contextlib.suppress(psycopg.Error), self._source.cursor() as cursor:
            row = cursor.execute(SENDER, [self._slot]).fetchone()
            if row is not None and row[0] is not None:
                self._replayed, connected = int(row[0]), bool(row[1])
        known = written is not None and self._replayed is not None
        lag = max(0, (written or 0) - (self._replayed or 0)) if known else None
        return ReplicaState(self._replayed, lag, connected)

    def close(self) -> None:
        """See `Replica`."""
        self._own.close()
        self._source.close()
