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
"""Every byte but 0 is a character: what data sets hold and queries say, in UTF-8 or not, is kept and given as it is."""
STOP_S: Final = 20.0
INITDB_S: Final = 120.0


def start_postgres(running: RunningService, site: Site) -> None:
    """initdb, the server, its user and database. Raises ServiceError."""
    service = running.wanted
    name, told = service.name, service.settings
    programs = postgres_directory(name, told["version"])
    require_package(name, "psycopg", "psycopg[binary]")
    data = running.directory / "data"
    data.mkdir()
    site.account.give(data, 0o700)
    password = secrets.token_urlsafe(18)
    _initdb(running, site, programs, data, password)
    port = free_port(address=site.address)
    text = configuration(site.address, port, told["settings"], statements=_has_statements(programs))
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(text)
    (data / "pg_hba.conf").write_text(
        access(told["user"], told["database"], site.address, others=site.others), encoding="utf-8"
    )
    running.stop_signal, running.stop_s = signal.SIGINT, STOP_S  # "fast": SIGTERM would wait for clients
    connect = partial(_connect, site.address, port, password)
    site.start(running, [programs / "postgres", "-D", data], partial(_answers, connect))
    running.sweep = _sweeper(data)
    try:
        with connect() as connection:
            _furnish(connection, told["user"], told["database"], with_statements=STATEMENTS in text)
            running.version = _one(connection, "SHOW server_version").split()[0]
    except Exception as error:
        raise ServiceError(f"service {name}: its user and database could not be created: {error}") from error
    running.configuration = (
        f"# PostgreSQL {running.version}, initdb --locale=C --encoding={ENCODING}\n{text.rstrip()}"
    )
    running.urls = [f"postgresql://{told['user']}@{netloc(site.address, port)}/{told['database']}"]
    running.settle = partial(_settle, connect, told["database"])
    running.counters = lambda: PostgresCounters(connect, told["database"])


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
    """pg_hba.conf: the account of the experiment without a password, from this host or from `others` too, and no other
    database of ours; the administrator from here and with a password that only we know, as everybody on this host can
    reach its addresses."""
    here = f"{address}/{128 if ':' in address else 32}"
    users = "all" if others else here
    return f'host "{database}" "{user}" {users} trust\nhost all {ADMIN} {here} scram-sha-256\n'


def _settle(connect: Callable[..., psycopg.Connection[Any]], database: str) -> None:
    """After tables were written: statistics and a checkpoint now, not in the middle of a run."""
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
    site.account.give(secret)
    options = [
        "--locale=C",
        f"--encoding={ENCODING}",
        "--no-sync",
        "--auth=scram-sha-256",
        f"--pwfile={secret}",
    ]
    run_to_end(
        running.wanted.name,
        site.engine,
        site.account.command(
            [programs / "initdb", "-D", data, "-U", ADMIN, *options],
            {"HOME": str(running.directory), "LC_ALL": "C"},
        ),
        log=running.directory / "initdb.log",
        what=f"service {running.wanted.name}: its cluster could not be created (initdb)",
        check_interrupt=site.check_interrupt,
        timeout_s=INITDB_S,
        cwd=running.directory,
    )
    secret.unlink()


def _has_statements(programs: Path) -> bool:
    """Whether the contrib module is installed: Debian keeps modules beside the programs, other
    systems elsewhere."""
    beside = programs.parent / "lib" / f"{STATEMENTS}.so"
    if beside.exists():
        return True
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(
            [programs / "pg_config", "--pkglibdir"], capture_output=True, text=True, timeout=10, check=False
        )
        return told.returncode == 0 and (Path(told.stdout.strip()) / f"{STATEMENTS}.so").exists()
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


def _answers(connect: Callable[..., psycopg.Connection[Any]]) -> bool:
    import psycopg

    try:
        with connect() as connection:
            return _one(connection, "SELECT 1") == "1"
    except psycopg.Error:
        return False


def _one(connection: psycopg.Connection[Any], query: Any) -> str:
    row = connection.execute(query).fetchone()
    return str(row[0]) if row else ""


def _furnish(connection: psycopg.Connection[Any], user: str, database: str, *, with_statements: bool) -> None:
    from psycopg.sql import SQL, Identifier

    connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(user)))
    connection.execute(SQL("GRANT pg_monitor TO {}").format(Identifier(user)))
    if database != ADMIN:
        connection.execute(SQL("CREATE DATABASE {} OWNER {}").format(Identifier(database), Identifier(user)))
    if with_statements:
        connection.execute(SQL("CREATE EXTENSION IF NOT EXISTS {}").format(Identifier(STATEMENTS)))


def _sweeper(data: Path) -> Callable[[], None]:
    """What removes the shared memory of a server that was killed; one that ended by itself has removed it."""
    lines = _lines(data / "postmaster.pid")
    segments: list[Path] = []
    if lines:
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{lines[0].strip()}/maps").read_text(encoding="utf-8", errors="replace")
            segments = [Path(found) for found in sorted(set(re.findall(r"/dev/shm/PostgreSQL\.\d+", maps)))]
    ids = lines[6].split() if len(lines) > 6 else []

    def sweep() -> None:
        for segment in [*(each for one in segments for each in _named_in(one)), *segments]:
            with contextlib.suppress(OSError):
                segment.unlink()
        # The file is gone after an orderly end, and the segment with it; its number may be somebody else's by now.
        if len(ids) == 2 and (data / "postmaster.pid").exists():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(["ipcrm", "-m", ids[1]], capture_output=True, timeout=5, check=False)

    return sweep


def _named_in(control: Path) -> list[Path]:
    """The segments that a control segment lists. Its layout is of each version, the numbers in it are not: those of 32
    bits that name a segment which is there are its own, as they are drawn at random."""
    try:
        data = control.read_bytes()
    except OSError:
        return []
    there = {one.name: one for one in control.parent.glob("PostgreSQL.*")}
    numbers = {number for (number,) in struct.iter_unpack("=I", data[: len(data) // 4 * 4])}
    return [path for name, path in there.items() if int(name.partition(".")[2]) in numbers]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
