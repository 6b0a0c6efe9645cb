"""Whether a PostgreSQL can report its changes by logical decoding, for a gateway with `detection: logical-decoding`.

`read_decoding` asks the server; `decoding_checks` judges its answer, without I/O.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from plimsoll.errors import BadInput, ServiceError

if TYPE_CHECKING:
    import psycopg

CONNECT_S: Final = 5
TRIAL_MS: Final = 5_000
"""The maximum time of the trial: a new slot waits for the transactions that are in progress."""
WAL_LIMIT: Final = "1GB"
"""The bound on retained WAL that the messages propose, as for a `postgres` service of an experiment."""
_FACTS: Final = """
SELECT current_setting('wal_level'), current_setting('max_slot_wal_keep_size', true),
  current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)::int,
  current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication)::int,
  (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user), quote_ident(current_user)
"""


@dataclass(frozen=True, slots=True)
class Decoding:
    """The answer of a server. `wal_limit`: max_slot_wal_keep_size, "-1": none, null: the server does not know it;
    `user`: quoted for SQL; `trial`: why a temporary slot could not be created, empty if it could, null if it was not
    tried."""

    wal_level: str
    wal_limit: str | None
    slots: int
    slots_used: int
    senders: int
    senders_used: int
    may_replicate: bool
    user: str
    trial: str | None = None


@dataclass(frozen=True, slots=True)
class DecodingCheck:
    """One check. `effect` and `fix` are empty if it is good; `is_fatal`: logical decoding is not possible."""

    what: str
    value: str
    effect: str = ""
    fix: str = ""
    is_fatal: bool = True


def check_url(url: str) -> None:
    """Raises BadInput unless it is the URL of a PostgreSQL database without a password."""
    try:
        parts = urlsplit(url)
        is_database = parts.scheme in ("postgresql", "postgres")
        has_password = parts.password is not None or "password=" in parts.query
    except ValueError:
        is_database = has_password = False
    if has_password:
        raise BadInput(
            "--database: a command line is visible to other users: leave out the password, and set PGPASSWORD or write "
            "it to ~/.pgpass"
        )
    if not is_database:
        raise BadInput(
            "--database: expected the URL of a PostgreSQL database, such as postgresql://user@db.example/conditions"
        )


def read_decoding(url: str) -> Decoding:
    """Asks a server. If nothing else prevents it, creates a replication slot and drops it, because only this shows
    whether the server has the plugin. Raises ServiceError."""
    import psycopg

    try:
        with psycopg.connect(
            url, connect_timeout=CONNECT_S, autocommit=True, application_name="plimsoll doctor"
        ) as connection:
            row = connection.execute(_FACTS).fetchone()
            assert row is not None, "a query without FROM returns one row"
            found = Decoding(*row)
            if any(check.effect and check.is_fatal for check in decoding_checks(found)):
                return found
            return replace(found, trial=_trial(connection))
    except psycopg.Error as error:
        raise ServiceError(
            f"--database: the server cannot be asked: {' '.join(str(error).split())}"
        ) from None


def _trial(connection: psycopg.Connection[Any]) -> str:
    """Why a temporary slot could not be created; empty: it could. The slot ends with the connection at the latest."""
    import psycopg

    name = f"plimsoll_doctor_{connection.info.backend_pid}"
    connection.execute(f"SET statement_timeout = {TRIAL_MS}")
    try:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding', true)", (name,))
    except psycopg.Error as error:
        return error.diag.message_primary or str(error)
    with contextlib.suppress(psycopg.Error):
        connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
    return ""


def decoding_checks(found: Decoding) -> Iterator[DecodingCheck]:
    """What logical decoding needs, in the order in which it must be mended."""
    yield _check(
        "wal_level",
        found.wal_level,
        found.wal_level == "logical",
        "the write-ahead log does not contain what logical decoding needs",
        f"""{_sql("ALTER SYSTEM SET wal_level = 'logical'")}, then restart the server""",
    )
    yield _check(
        "right REPLICATION",
        f"{found.user} {'has it' if found.may_replicate else 'does not have it'}",
        found.may_replicate,
        "the gateway cannot create a replication slot as this user",
        _sql(f"ALTER ROLE {found.user} REPLICATION"),
    )
    for name, most, used in (
        ("max_replication_slots", found.slots, found.slots_used),
        ("max_wal_senders", found.senders, found.senders_used),
    ):
        yield _check(
            name,
            f"{used} of {most} in use",
            used < most,
            "each gateway needs one of its own",
            f"""{_sql(f"ALTER SYSTEM SET {name} = {max(10, 2 * most)}")}, then restart the server""",
        )
    if found.wal_limit is None:
        yield DecodingCheck(
            "max_slot_wal_keep_size",
            "unknown to this server",
            "a gateway that does not read fills the disk of the server with write-ahead log",
            "use PostgreSQL 13 or later",
            is_fatal=False,
        )
    else:
        yield _check(
            "max_slot_wal_keep_size",
            "unlimited" if found.wal_limit == "-1" else found.wal_limit,
            found.wal_limit != "-1",
            "a gateway that does not read fills the disk of the server with write-ahead log",
            f"""{_sql(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{WAL_LIMIT}'")} -c 'SELECT pg_reload_conf()'""",
            is_fatal=False,
        )
    if found.trial is not None:
        yield _check(
            "logical decoding",
            found.trial or "a replication slot was created and dropped",
            not found.trial,
            "the gateway cannot read the changes of this database",
            "if test_decoding is missing: install the contrib modules of the server (Debian: they are in its package); "
            "if the time ran out: end long transactions",
        )


def _check(
    what: str, value: str, is_good: bool, effect: str, fix: str, *, is_fatal: bool = True
) -> DecodingCheck:
    return DecodingCheck(what, value, "" if is_good else effect, "" if is_good else fix, is_fatal)


def _sql(statement: str) -> str:
    """The command of an administrator of the database."""
    quoted = statement.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'psql -U postgres -c "{quoted}"'
