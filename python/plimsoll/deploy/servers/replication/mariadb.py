"""Replicas of MariaDB: new servers that execute the whole binary log of their source, which is new as well, by GTID."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers.replication import KeptConnection, ReplicaState, register

if TYPE_CHECKING:
    import pymysql

USER: Final = "plimsoll"
WAIT_S: Final = 1
"""The time for which one statement waits for a position: shorter than the time-out of the connection."""


@dataclass(frozen=True, slots=True)
class MariadbAdmin:
    """A server that Plimsoll started."""

    address: str
    port: int

    def connect(self, database: str | None = None) -> pymysql.Connection[Any]:
        """A connection that commits each statement. Raises pymysql.Error."""
        import pymysql

        return pymysql.connect(
            host=self.address,
            port=self.port,
            user=USER,
            database=database,
            connect_timeout=5,
            read_timeout=5,
            autocommit=True,
        )


def follow(running: RunningService, source: RunningService, check_interrupt: Callable[[], None]) -> None:
    """Makes a started server a replica, and waits until it has executed what its source contains. Raises ServiceError
    and the errors of the driver."""
    own, first = running.server, source.server
    assert isinstance(own, MariadbAdmin) and isinstance(first, MariadbAdmin), "the plan compares the kinds"
    connection = own.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "CHANGE MASTER TO master_host = %s, master_port = %s, master_user = %s, master_password = '', "
                "master_use_gtid = slave_pos, master_connect_retry = 1",
                (first.address, first.port, USER),
            )
            cursor.execute("START SLAVE")
    finally:
        connection.close()
    register(running, source, lambda: MariadbReplica(own, first))
    running.catch_up(check_interrupt)


class MariadbReplica:
    """See `Replica`. A position is a GTID; the bytes are those of the source's binary log."""

    def __init__(self, own: MariadbAdmin, source: MariadbAdmin) -> None:
        self._own = KeptConnection(own.connect)
        self._source = KeptConnection(source.connect)
        self._files: Sequence[tuple[str, int]] = ()

    def source_position(self) -> str:
        """See `Replica`."""
        with self._source.cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            return str(cursor.fetchone()[0])

    def has_reached(self, position: str) -> bool:
        """See `Replica`."""
        with self._own.cursor() as cursor:
            cursor.execute("SELECT master_gtid_wait(%s, %s)", (position, WAIT_S))
            return bool(cursor.fetchone()[0] == 0)

    def state(self) -> ReplicaState:
        """See `Replica`."""
        import pymysql

        is_known = False
        with contextlib.suppress(pymysql.Error), self._source.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            self._files = [(str(row[0]), int(row[1])) for row in cursor.fetchall()]
            is_known = True
        with self._own.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            row = cursor.fetchone() or {}
        replayed = replayed_bytes(self._files, row)
        lag = None
        if is_known and replayed is not None:
            lag = max(0, sum(size for _, size in self._files) - replayed)
        failure = row.get("Last_SQL_Error", "") if row.get("Slave_SQL_Running") == "No" else ""
        return ReplicaState(replayed, lag, row.get("Slave_IO_Running") == "Yes", failure)

    def close(self) -> None:
        """See `Replica`."""
        self._own.close()
        self._source.close()


def replayed_bytes(files: Sequence[tuple[str, int]], status: dict[str, Any]) -> int | None:
    """The bytes of the source's binary log that a replica has executed. `files`: names and sizes, in their order;
    `status`: the row of SHOW SLAVE STATUS. None: the file is not known."""
    before = 0
    for name, size in files:
        if name == status.get("Relay_Master_Log_File"):
            return before + int(status["Exec_Master_Log_Pos"])
        before += size
    return None
