"""`kind: postgres`: its own cluster, created at each start (initdb takes about two seconds)."""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import struct
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters.postgres import PostgresCounters
from plimsoll.deploy.ports import free_port, netloc
from plimsoll.deploy.process import run_to_end
from plimsoll.deploy.programs import postgres_directory, require_package
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.errors import ServiceError

if TYPE_CHECKING:
    import psycopg

ADMIN: Final = "postgres"
STATEMENTS: Final = "pg_stat_statements"
ENCODING: Final = "LATIN1"
"""In this encoding, every byte except 0 is a character. So the contents of data sets and queries are stored
and returned unchanged, whether they are UTF-8 or not."""
STOP_S: Final = 20.0
INITDB_S: Final = 120.0


def start_postgres(running: RunningService, site: Site) -> None:
    """Runs initdb, starts the server, and creates its user and database. Raises ServiceError."""
    service = running.spec
    name, settings = service.name, service.settings
    programs = postgres_directory(name, settings["version"])
    require_package(name, "psycopg", "psycopg[binary]")
    data = running.directory / "data"
    data.mkdir()
    site.account.set_owner(data, 0o700)
    password = secrets.token_urlsafe(18)
    _initdb(running, site, programs, data, password)
    port = free_port(address=site.address)
    text = configuration(site.address, port, settings["settings"], statements=_has_statements(programs))
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(text)
    (data / "pg_hba.conf").write_text(
        access(settings["user"], settings["database"], site.address, others=site.has_remote_clients),
        encoding="utf-8",
    )
    running.stop_signal, running.stop_s = signal.SIGINT, STOP_S  # "fast": SIGTERM would wait for clients
    connect = partial(_connect, site.address, port, password)
    site.start(running, [programs / "postgres", "-D", data], partial(_is_answering, connect))
    running.recovered = partial(_note_leftovers, running, data)
    running.recovered()
    try:
        with connect() as connection:
            _create_database(
                connection, settings["user"], settings["database"], with_statements=STATEMENTS in text
            )
            running.version = _single_value(connection, "SHOW server_version").split()[0]
    except Exception as error:
        raise ServiceError(f"service {name}: its user and database could not be created: {error}") from error
    running.configuration = (
        f"# PostgreSQL {running.version}, initdb --locale=C --encoding={ENCODING}\n{text.rstrip()}"
    )
    running.urls = [f"postgresql://{settings['user']}@{netloc(site.address, port)}/{settings['database']}"]
    running.settle = partial(_settle, connect, settings["database"])
    running.counters = lambda: PostgresCounters(connect, settings["database"])


def configuration(address: str, port: int, settings: Mapping[str, str], *, statements: bool) -> str:
    """Settings that are appended to the configuration of initdb; the last value takes precedence."""
    lines = {
        "listen_addresses": address,
        "port": str(port),
        "unix_socket_directories": "",
        **({"shared_preload_libraries": STATEMENTS} if statements else {}),
        **settings,
    }
    return "".join(f"{key} = {_quoted(value)}\n" for key, value in lines.items())


def access(user: str, database: str, address: str, *, others: bool) -> str:
    """pg_hba.conf. The account of the experiment can connect without a password to its own database, from
    this host or, with `others`, from all hosts. The administrator can connect from this host with a password
    that only Plimsoll knows, since every user of this host can reach its addresses."""
    own_address = f"{address}/{128 if ':' in address else 32}"
    users = "all" if others else own_address
    return f'host "{database}" "{user}" {users} trust\nhost all {ADMIN} {own_address} scram-sha-256\n'


def _settle(connect: Callable[..., psycopg.Connection[Any]], database: str) -> None:
    """Updates the statistics and writes a checkpoint after the tables are written, so that the server does
    not do this during a run."""
    with connect(database=database) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def _quoted(value: str) -> str:
    doubled = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _initdb(running: RunningService, site: Site, programs: Path, data: Path, password: str) -> None:
    secret = running.directory / "admin"
    secret.touch(mode=0o600)
    secret.write_text(password + "\n", encoding="ascii")
    site.account.set_owner(secret)
    options = [
        "--locale=C",
        f"--encoding={ENCODING}",
        "--no-sync",
        "--auth=scram-sha-256",
        f"--pwfile={secret}",
    ]
    run_to_end(
        running.spec.name,
        site.engine,
        site.account.command(
            [programs / "initdb", "-D", data, "-U", ADMIN, *options],
            {"HOME": str(running.directory), "LC_ALL": "C"},
        ),
        log=running.directory / "initdb.log",
        failure=f"service {running.spec.name}: its cluster could not be created (initdb)",
        check_interrupt=site.check_interrupt,
        timeout_s=INITDB_S,
        cwd=running.directory,
    )
    secret.unlink()


def _has_statements(programs: Path) -> bool:
    """Whether the contrib module is installed. Debian installs modules next to the programs, other systems
    elsewhere."""
    debian_path = programs.parent / "lib" / f"{STATEMENTS}.so"
    if debian_path.exists():
        return True
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        result = subprocess.run(
            [programs / "pg_config", "--pkglibdir"], capture_output=True, text=True, timeout=10, check=False
        )
        return result.returncode == 0 and (Path(result.stdout.strip()) / f"{STATEMENTS}.so").exists()
    return False


def _connect(address: str, port: int, password: str, database: str = ADMIN) -> psycopg.Connection[Any]:
    import psycopg

    return psycopg.connect(
        host=address,
        port=port,
        user=ADMIN,
        password=password,
        dbname=database,
        sslmode="disable",
        connect_timeout=5,
        autocommit=True,
        application_name="plimsoll",
    )


def _is_answering(connect: Callable[..., psycopg.Connection[Any]]) -> bool:
    import psycopg

    try:
        with connect() as connection:
            return _single_value(connection, "SELECT 1") == "1"
    except psycopg.Error:
        return False


def _single_value(connection: psycopg.Connection[Any], query: Any) -> str:
    row = connection.execute(query).fetchone()
    return str(row[0]) if row else ""


def _create_database(
    connection: psycopg.Connection[Any], user: str, database: str, *, with_statements: bool
) -> None:
    from psycopg.sql import SQL, Identifier

    connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(user)))
    connection.execute(SQL("GRANT pg_monitor TO {}").format(Identifier(user)))
    if database != ADMIN:
        connection.execute(SQL("CREATE DATABASE {} OWNER {}").format(Identifier(database), Identifier(user)))
    if with_statements:
        connection.execute(SQL("CREATE EXTENSION IF NOT EXISTS {}").format(Identifier(STATEMENTS)))


def _note_leftovers(running: RunningService, data: Path) -> None:
    """After each start: a server has shared memory of its own."""
    running.sweep = _leftovers_remover(data)


def _leftovers_remover(data: Path) -> Callable[[], None]:
    """A function that removes the shared memory of a server that was killed. A server that ended by itself
    has removed it."""
    lines = _read_lines(data / "postmaster.pid")
    segments: list[Path] = []
    if lines:
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{lines[0].strip()}/maps").read_text(encoding="utf-8", errors="replace")
            segments = [
                Path(segment) for segment in sorted(set(re.findall(r"/dev/shm/PostgreSQL\.\d+", maps)))
            ]
    ids = lines[6].split() if len(lines) > 6 else []

    def sweep() -> None:
        for segment in [*(listed for control in segments for listed in _listed_segments(control)), *segments]:
            with contextlib.suppress(OSError):
                segment.unlink()
        # After an orderly end, neither the file nor the segment exists. Another process may then use its number.
        if len(ids) == 2 and (data / "postmaster.pid").exists():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(["ipcrm", "-m", ids[1]], capture_output=True, timeout=5, check=False)

    return sweep


def _listed_segments(control: Path) -> list[Path]:
    """The segments that a control segment lists. Its layout depends on the version, but the numbers in it do
    not: a 32-bit number that names an existing segment is in the list, since the numbers are random."""
    try:
        data = control.read_bytes()
    except OSError:
        return []
    existing = {path.name: path for path in control.parent.glob("PostgreSQL.*")}
    numbers = {number for (number,) in struct.iter_unpack("=I", data[: len(data) // 4 * 4])}
    return [path for name, path in existing.items() if int(name.partition(".")[2]) in numbers]


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
