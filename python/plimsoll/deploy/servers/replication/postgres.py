"""Streaming replicas of PostgreSQL: a base backup of the source, whose write-ahead log they then replay.

They use no replication slot: the source keeps `wal_keep_size` of its log for them. Rejected: slots. A replica that has
ended leaves its slot, which keeps the log, and a base backup of a replica copies the name of a slot that only exists at
the first server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from plimsoll.deploy.process import Program
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.postgres_admin import ADMIN, PostgresAdmin, single_value
from plimsoll.deploy.servers.replication import KeptConnection, ReplicaState, register
from plimsoll.errors import ServiceError

POSITION: Final = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END::text
"""
"""Of a server that accepts writes, or of a replica that is itself a source."""
REPLAYED: Final = """
SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint,
  coalesce((SELECT status = 'streaming' FROM pg_stat_wal_receiver), false)
"""
BYTES: Final = "SELECT pg_wal_lsn_diff(%s::pg_lsn, '0/0')::bigint"
BACKUP_S: Final = 3600.0
SYNC_S: Final = 30.0


def base_backup(
    running: RunningService, site: Site, programs: PurePath, data: PurePath, source: PostgresAdmin
) -> None:
    """Copies the source into `data`, and makes the copy a replica. Raises ServiceError."""
    host, name = site.host, running.spec.name
    passwords = write_passwords(running, site, source)
    words: list[str | PurePath] = [
        *("-h", source.address, "-p", str(source.port), "-U", ADMIN, "-w", "-D", data),
        *("--wal-method=stream", "--checkpoint=fast", "--no-sync"),
    ]
    command = host.command_as(
        site.account,
        [programs / "pg_basebackup", *words],
        {"HOME": str(running.directory), "LC_ALL": "C", "PGPASSFILE": str(passwords)},
    )
    host.run_to_end(
        Program(name, command, running.directory / "pg_basebackup.log", directory=running.directory),
        failure=f"service {name}: its source {running.spec.settings['replica_of']} could not be copied (pg_basebackup)",
        check_interrupt=site.check_interrupt,
        timeout_s=BACKUP_S,
    )
    # The source's own state: for which replicas its commits wait.
    host.write(data / "postgresql.auto.conf", "", owner=site.account, mode=0o600)
    host.write(data / "standby.signal", "", owner=site.account, mode=0o600)


def write_passwords(running: RunningService, site: Site, *servers: PostgresAdmin) -> PurePath:
    """A file for libpq with the passwords of the administrators of these servers."""
    path = running.directory / "passwords"
    escaped = [(server.address.replace(":", r"\:"), server) for server in servers]
    lines = [f"{address}:{server.port}:*:{ADMIN}:{server.password}\n" for address, server in escaped]
    site.host.write(path, "".join(lines), mode=0o600, owner=site.account)
    return path


def connection_words(source: PostgresAdmin, name: str, passwords: PurePath) -> str:
    """The parameters with which a replica connects to its source. `name`: as the source shows it."""
    return (
        f"host={source.address} port={source.port} user={ADMIN} passfile='{passwords}' application_name='{name}' "
        "sslmode=disable connect_timeout=5"
    )


def attach(running: RunningService, source: RunningService, check_interrupt: Callable[[], None]) -> None:
    """Waits until a started replica receives changes, and with `synchronous` makes the commits of its source wait for
    it. Raises ServiceError."""
    own, first, name = running.server, source.server, running.spec.name
    assert isinstance(own, PostgresAdmin) and isinstance(first, PostgresAdmin), "the plan compares the kinds"
    register(running, source, lambda: StreamingReplica(own, first))
    running.catch_up(check_interrupt)
    if running.spec.settings["synchronous"]:
        _change_synchronous(first, [*first.synchronous, name])
        running.detach = partial(_no_longer_synchronous, first, name)
        _wait_for_state(running, first, check_interrupt)


def _wait_for_state(
    running: RunningService, source: PostgresAdmin, check_interrupt: Callable[[], None]
) -> None:
    query = "SELECT sync_state FROM pg_stat_replication WHERE application_name = %s"
    deadline = time.monotonic() + SYNC_S
    with source.connect() as connection:
        while single_value(connection, query, running.spec.name) not in ("sync", "quorum"):
            check_interrupt()
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"service {running.spec.name}: its source did not accept it as a synchronous replica within "
                    f"{SYNC_S:g} s"
                )
            time.sleep(0.02)


def _no_longer_synchronous(source: PostgresAdmin, name: str) -> None:
    """Commits that wait for this replica end."""
    _change_synchronous(source, [each for each in source.synchronous if each != name])


def _change_synchronous(source: PostgresAdmin, names: list[str]) -> None:
    """Commits wait for all of these replicas."""
    from psycopg.sql import SQL, Literal

    source.synchronous[:] = names
    quoted = ", ".join(f'"{name}"' for name in names)
    value = f"FIRST {len(names)} ({quoted})" if names else ""
    with source.connect() as connection:
        connection.execute(SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(Literal(value)))
        connection.execute("SELECT pg_reload_conf()")


class StreamingReplica:
    """See `Replica`."""

    def __init__(self, own: PostgresAdmin, source: PostgresAdmin) -> None:
        self._own = KeptConnection(own.connect)
        self._source = KeptConnection(source.connect)

    def source_position(self) -> str:
        """See `Replica`. Commits with `synchronous_commit: off` of the last moments may be missing."""
        return str(_row(self._source, POSITION)[0])

    def has_reached(self, position: str) -> bool:
        """See `Replica`."""
        return bool(_row(self._own, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0])

    def state(self) -> ReplicaState:
        """See `Replica`."""
        written = source_bytes(self._source)
        replayed, connected = _row(self._own, REPLAYED)
        lag = None if written is None or replayed is None else max(0, written - replayed)
        return ReplicaState(replayed, lag, connected)

    def close(self) -> None:
        """See `Replica`."""
        self._own.close()
        self._source.close()


def source_bytes(source: KeptConnection) -> int | None:
    """The position of a source in bytes; None if it does not answer."""
    import psycopg

    try:
        return int(_row(source, BYTES, _row(source, POSITION)[0])[0])
    except psycopg.Error:
        return None


def _row(connection: KeptConnection, query: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return cursor.fetchone()
