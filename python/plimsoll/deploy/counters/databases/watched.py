"""Reads the counters of a database server that Plimsoll did not start, over one connection that is kept."""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from plimsoll.deploy.counters import Reading, Source
from plimsoll.deploy.counters.databases.mariadb import MariadbCounters
from plimsoll.deploy.counters.databases.postgres import PostgresCounters
from plimsoll.plan.model.cell import WatchedDatabase
from plimsoll.plan.source.secret import Secret

if TYPE_CHECKING:
    import psycopg
    import pymysql

TIMEOUT_S: Final = 2
ADMIN: Final = "postgres"
"""The database to which the reader connects, so that the counters of the watched one do not contain its queries."""
_PORTS: Final = {"postgres": 5432, "mariadb": 3306}


class DatabaseReader:
    """The reader of one server. After a failure, the next reading connects again."""

    unmatched: tuple[str, ...] = ()

    def __init__(self, watched: WatchedDatabase) -> None:
        self._watched = watched
        self._source: Source | None = None
        self.version = ""
        """Program and version of the server, once it was connected."""

    def read(self) -> Reading:
        """Takes one reading. Raises the errors of the driver, OSError and ValueError."""
        try:
            if self._source is None:
                self._source = self._new_source()
                self._source.open()
            return self._source.read()
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection."""
        if self._source is not None:
            with contextlib.suppress(Exception):
                self._source.close()
        self._source = None

    def _new_source(self) -> Source:
        database = self._watched.database
        if self._watched.kind == "postgres":
            return PostgresCounters(self._postgres, database, resets=False)
        return MariadbCounters(self._mariadb, database, resets=False)

    def _login(self) -> dict[str, Any]:
        """Host, port, user and password (empty: none)."""
        url = self._watched.url
        parts = urlsplit(url.reveal() if isinstance(url, Secret) else url)
        password = self._watched.password
        return {
            "host": parts.hostname or "",
            "port": parts.port or _PORTS[self._watched.kind],
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or "") if password is None else password.reveal(),
        }

    def _postgres(self) -> psycopg.Connection[Any]:
        import psycopg

        login = {**self._login(), **_tls_of_postgres(self._watched), "connect_timeout": TIMEOUT_S}
        names = dict.fromkeys((ADMIN, self._watched.database))
        for name in names:
            try:
                connection = psycopg.connect(
                    dbname=name, autocommit=True, application_name="plimsoll", **login
                )
            except psycopg.OperationalError:
                # The account may have access to its own database only.
                if name == self._watched.database:
                    raise
            else:
                self.version = f"PostgreSQL {connection.info.parameter_status('server_version')}"
                return connection
        raise AssertionError("the last name raises or returns")

    def _mariadb(self, database: str | None) -> pymysql.Connection[Any]:
        import pymysql

        login = self._login()
        connection = pymysql.connect(
            **{**login, "password": login["password"].encode()},  # a text would be sent as Latin-1
            database=database,
            connect_timeout=TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            autocommit=True,
            ssl=_tls_of_mariadb(self._watched),
            ssl_disabled=self._watched.tls is None,
        )
        self.version = f"MariaDB {connection.get_server_info()}"  # type: ignore[no-untyped-call]
        return connection


def _tls_of_postgres(watched: WatchedDatabase) -> dict[str, Any]:
    tls = watched.tls
    if tls is None:
        return {"sslmode": "disable"}
    if not tls["verify"]:
        return {"sslmode": "require", "sslcert": tls["cert"], "sslkey": tls["key"] or tls["cert"]}
    return {
        "sslmode": "verify-full",
        "sslrootcert": tls["ca_file"] or "system",
        "sslcert": tls["cert"],
        "sslkey": tls["key"] or tls["cert"],
    }


def _tls_of_mariadb(watched: WatchedDatabase) -> ssl.SSLContext | None:
    tls = watched.tls
    if tls is None:
        return None
    context = ssl.create_default_context(cafile=tls["ca_file"], capath=tls["ca_dir"])
    if not tls["verify"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls["cert"]:
        context.load_cert_chain(tls["cert"], tls["key"])
    return context
