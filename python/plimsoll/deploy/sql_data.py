"""Data sets of kind `sql`: a user's file of statements, executed in a database that was just started.

The connection is that of the experiment's user, who owns the database. So the tables belong to the account
that queries them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from plimsoll.errors import ServiceError
from plimsoll.plan.model.cell import Data
from plimsoll.plan.queries.sql_text import Dialect, SqlTextError, Statement, statements

CONNECT_S: Final = 10
QUOTED: Final = 1000
"""The maximum length of a server message that is shown."""

Execute = Callable[[Statement], None]


class _StatementError(Exception):
    """The server's message for a statement that failed, and its line within the statement (from 0)."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def load_sql(url: str, data: Data, check_interrupt: Callable[[], None]) -> int:
    """Executes the file of a data set in the database at `url`, statement by statement; returns the
    number of statements. Raises ServiceError with file, line and the message of the server at
    the first failure."""
    path, shown = Path(data.settings["file"]), data.settings["shown"]
    dialect: Dialect = "postgres" if url.startswith("postgresql:") else "mariadb"
    count = 0
    try:
        with (_postgres if dialect == "postgres" else _mariadb)(url) as execute:
            for statement in statements(path.read_bytes(), dialect):
                check_interrupt()
                try:
                    execute(statement)
                except _StatementError as error:
                    message = str(error).strip()[:QUOTED]
                    raise ServiceError(
                        f"data {data.name}: {shown}:{statement.line + error.line}: {message}"
                    ) from error
                count += 1
    except SqlTextError as error:
        raise ServiceError(f"data {data.name}: {shown}:{error.line}: {error}") from error
    except OSError as error:
        raise ServiceError(f"data {data.name}: {shown} cannot be read: {error.strerror or error}") from error
    return count


@contextmanager
def _postgres(url: str) -> Iterator[Execute]:
    import psycopg

    # The database stores bytes (LATIN1). With another client encoding, the server would convert them.
    try:
        connection = psycopg.connect(
            url, connect_timeout=CONNECT_S, autocommit=True, client_encoding="latin1"
        )
    except psycopg.Error as error:
        raise ServiceError(f"the data could not be written: {error}") from error

    def execute(statement: Statement) -> None:
        try:
            connection.execute(statement.text.encode("latin-1"))
        except psycopg.Error as error:
            diagnosis = error.diag
            text = ". ".join(
                part
                for part in (diagnosis.message_primary, diagnosis.message_detail, diagnosis.message_hint)
                if part
            )
            at = int(diagnosis.statement_position or 1) - 1
            raise _StatementError(text or str(error), statement.text.count("\n", 0, at)) from error

    with connection:
        yield execute


@contextmanager
def _mariadb(url: str) -> Iterator[Execute]:
    import pymysql

    parts = urlsplit(url)
    try:
        connection = pymysql.connect(
            host=parts.hostname or "",
            port=parts.port or 0,
            user=unquote(parts.username or ""),
            database=unquote(parts.path.removeprefix("/")),
            connect_timeout=CONNECT_S,
            autocommit=True,
            charset="utf8mb4",
        )
    except pymysql.Error as error:
        raise ServiceError(f"the data could not be written: {error}") from error

    def execute(statement: Statement) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement.text.encode("latin-1").decode("utf-8", "surrogateescape"))
                cursor.fetchall()
        except pymysql.Error as error:
            raise _StatementError(str(error.args[-1]) if error.args else str(error)) from error

    try:
        yield execute
    finally:
        connection.close()
