"""`kind: postgres`: its own cluster, created at each start (initdb takes about two seconds), or a copy."""

from __future__ import annotations

import contextlib
import re
import secrets
import signal
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters.databases.postgres import PostgresCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import postgres_directory, require_package
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.postgres_admin import ADMIN, PostgresAdmin, single_value
from plimsoll.deploy.servers.replication.logical import subscribe
from plimsoll.deploy.servers.replication.postgres import attach, base_backup, connection_words
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.errors import ServiceError

if TYPE_CHECKING:
    import psycopg

STATEMENTS: Final = "pg_stat_statements"
ENCODING: Final = "LATIN1"
"""In this encoding, every byte except 0 is a character. So the contents of data sets and queries are stored
and returned unchanged, whether they are UTF-8 or not."""
DECODED: Final = {"wal_level": "logical", "max_slot_wal_keep_size": "1GB"}
STREAMED: Final = {"wal_keep_size": "1GB"}
STOP_S: Final = 20.0
INITDB_S: Final = 120.0


def start_postgres(running: RunningService, site: Site) -> None:
    """Runs initdb, starts the server, and creates its user and database; a streaming replica is a copy of its source
    instead. Raises ServiceError."""
    service = running.spec
    name, settings, host = service.name, service.settings, site.host
    programs = postgres_directory(name, settings["version"], host.programs)
    require_package(name, "psycopg", "psycopg[binary]")
    data = running.directory / "data"
    host.make_directory(data, 0o700, site.account)
    source = site.source_of(service)
    first = _copied(source, settings["replication"])
    server = PostgresAdmin(site.address, host.free_port(address=site.listen), secrets.token_urlsafe(18))
    if first is not None:
        server = replace(server, password=first.password)
        base_backup(running, site, programs, data, first)
    else:
        _initdb(running, site, programs, data, server.password)
    text = _configure(running, site, programs, data, server, first)
    running.stop_signal, running.stop_s = signal.SIGINT, STOP_S  # "fast": SIGTERM would wait for clients
    site.start(running, [programs / "postgres", "-D", data], partial(_is_answering, server.connect))
    running.recovered = partial(_note_leftovers, running, host, data)
    running.recovered()
    running.server = server
    try:
        with server.connect() as connection:
            if first is None:
                _create_database(
                    connection, settings["user"], settings["database"], with_statements=STATEMENTS in text
                )
                if settings["decoded"]:
                    _allow_replication(connection, settings["user"])
            running.version = single_value(connection, "SHOW server_version").split()[0]
    except Exception as error:
        raise ServiceError(f"service {name}: its user and database could not be created: {error}") from error
    running.configuration = (
        f"# PostgreSQL {running.version}, initdb --locale=C --encoding={ENCODING}\n{text.rstrip()}"
    )
    running.urls = [
        f"postgresql://{settings['user']}@{netloc(site.address, server.port)}/{settings['database']}"
    ]
    running.counters = lambda: PostgresCounters(server.connect, settings["database"])
    if source is None:
        running.settle = partial(_settle, server.connect, settings["database"])
    else:
        _replicate(running, site, source, programs)


def _copied(source: RunningService | None, replication: str | None) -> PostgresAdmin | None:
    """The server that a streaming replica copies."""
    if source is None or replication != "streaming":
        return None
    assert isinstance(source.server, PostgresAdmin), "the plan compares the kinds"
    return source.server


def _configure(
    running: RunningService,
    site: Site,
    programs: PurePath,
    data: PurePath,
    server: PostgresAdmin,
    source: PostgresAdmin | None,
) -> str:
    """Writes the configuration files; returns the text of the settings. `source`: of a streaming replica."""
    settings, host = running.spec.settings, site.host
    text = configuration(
        site.listen,
        server.port,
        settings["settings"],
        statements=_has_statements(host, programs),
        decoded=settings["decoded"],
        replicas=settings["replicas"],
    )
    host.write(data / "postgresql.conf", text, append=True)
    if source is not None:
        words = connection_words(source, running.spec.name, running.directory / "passwords")
        host.write(data / "postgresql.conf", f"primary_conninfo = {_quoted(words)}\n", append=True)
    rules = access(
        settings["user"],
        settings["database"],
        site.listen,
        others=site.has_remote_clients,
        remote_lab=not host.is_here,
        replicas=settings["replicas"],
    )
    host.write(data / "pg_hba.conf", rules, append=False, mode=0o600, owner=site.account)
    return text


def _replicate(running: RunningService, site: Site, source: RunningService, programs: PurePath) -> None:
    """Connects a started replica to its source."""
    import psycopg

    try:
        if running.spec.settings["replication"] == "streaming":
            attach(running, source, site.check_interrupt)
        else:
            subscribe(running, site, source, programs)
    except psycopg.Error as error:
        raise ServiceError(
            f"service {running.spec.name}: it cannot replicate {source.spec.name}: {error}"
        ) from error


def configuration(
    address: str,
    port: int,
    settings: Mapping[str, str],
    *,
    statements: bool,
    decoded: bool = False,
    replicas: Sequence[str] = (),
) -> str:
    """Settings that are appended to the configuration of initdb; the last value takes precedence. `decoded`: a gateway
    decodes the write-ahead log; the server keeps a limited amount of it for the gateway. `replicas`: how replicas
    of the server replicate it (`streaming`, `logical`)."""
    lines = {
        "listen_addresses": address,
        "port": str(port),
        "unix_socket_directories": "",
        **({"shared_preload_libraries": STATEMENTS} if statements else {}),
        **(DECODED if decoded or "logical" in replicas else {}),
        **(STREAMED if "streaming" in replicas else {}),
        **settings,
    }
    return "".join(f"{key} = {_quoted(value)}\n" for key, value in lines.items())


def access(
    user: str,
    database: str,
    address: str,
    *,
    others: bool,
    remote_lab: bool = False,
    replicas: Sequence[str] = (),
) -> str:
    """pg_hba.conf. The account of the experiment can connect without a password to its own database, from
    its host or, with `others`, from all hosts. The administrator can connect from its host or, with
    `remote_lab`, from all hosts, with a password that only Plimsoll knows and that SCRAM does not transfer.
    The address from which the lab arrives is not known behind a jump host or NAT. `replicas` (their kinds, empty if
    there are none) connect as the administrator, with `others` from all hosts."""
    own_address = f"{address}/{128 if ':' in address else 32}"
    users = "all" if others else own_address
    lab = "all" if remote_lab or (replicas and others) else own_address
    rules = f'host "{database}" "{user}" {users} trust\nhost all {ADMIN} {lab} scram-sha-256\n'
    return f"{rules}host replication {ADMIN} {lab} scram-sha-256\n" if replicas else rules


def _settle(connect: Callable[..., psycopg.Connection[Any]], database: str) -> None:
    """Updates the statistics and writes a checkpoint after the tables are written, so that the server does
    not do this during a run."""
    with connect(database=database) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def _quoted(value: str) -> str:
    doubled = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


def _initdb(running: RunningService, site: Site, programs: PurePath, data: PurePath, password: str) -> None:
    secret = running.directory / "admin"
    site.host.write(secret, password + "\n", mode=0o600, owner=site.account)
    options = [
        "--locale=C",
        f"--encoding={ENCODING}",
        "--no-sync",
        "--auth=scram-sha-256",
        f"--pwfile={secret}",
    ]
    command = site.host.command_as(
        site.account,
        [programs / "initdb", "-D", data, "-U", ADMIN, *options],
        {"HOME": str(running.directory), "LC_ALL": "C"},
    )
    log = running.directory / "initdb.log"
    site.host.run_to_end(
        Program(running.spec.name, command, log, directory=running.directory),
        failure=f"service {running.spec.name}: its cluster could not be created (initdb)",
        check_interrupt=site.check_interrupt,
        timeout_s=INITDB_S,
    )
    site.host.remove(secret)


def _has_statements(host: ServiceHost, programs: PurePath) -> bool:
    """Whether the contrib module is installed. Debian installs modules next to the programs, other systems
    elsewhere."""
    module = f"{STATEMENTS}.so"
    if host.owner_of(programs.parent / "lib" / module) is not None:
        return True
    code, text = host.programs.output([programs / "pg_config", "--pkglibdir"])
    return code == 0 and host.owner_of(PurePath(text.strip()) / module) is not None


def _is_answering(connect: Callable[..., psycopg.Connection[Any]]) -> bool:
    import psycopg

    try:
        with connect() as connection:
            return single_value(connection, "SELECT 1") == "1"
    except psycopg.Error:
        return False


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


def _allow_replication(connection: psycopg.Connection[Any], user: str) -> None:
    from psycopg.sql import SQL, Identifier

    connection.execute(SQL("ALTER ROLE {} REPLICATION").format(Identifier(user)))


def _note_leftovers(running: RunningService, host: ServiceHost, data: PurePath) -> None:
    """After each start: a server has shared memory of its own."""
    running.sweep = _leftovers_remover(host, data)


def _leftovers_remover(host: ServiceHost, data: PurePath) -> Callable[[], None]:
    """A function that removes the shared memory of a server that was killed. A server that ended by itself
    has removed it."""
    file = data / "postmaster.pid"
    lines = _read_lines(host, file)
    segments: list[PurePath] = []
    if lines:
        maps = "\n".join(_read_lines(host, PurePath(f"/proc/{lines[0].strip()}/maps")))
        segments = [
            PurePath(segment) for segment in sorted(set(re.findall(r"/dev/shm/PostgreSQL\.\d+", maps)))
        ]
    ids = lines[6].split() if len(lines) > 6 else []

    def sweep() -> None:
        listed = [path for control in segments for path in _listed_segments(host, control)]
        if segments:
            host.remove(*listed, *segments)
        # After an orderly end, neither the file nor the segment exists. Another process may then use its number.
        with contextlib.suppress(OSError):
            if len(ids) == 2 and host.owner_of(file) is not None:
                host.programs.output(["ipcrm", "-m", ids[1]])

    return sweep


def _listed_segments(host: ServiceHost, control: PurePath) -> list[PurePath]:
    """The segments that a control segment lists. Its layout depends on the version, but the numbers in it do
    not: a 32-bit number that names an existing segment is in the list, since the numbers are random."""
    try:
        data = host.read(control)
    except OSError:
        return []
    prefix = "PostgreSQL."
    existing = [name for name in host.names_in(control.parent) if name.startswith(prefix)]
    numbers = {number for (number,) in struct.iter_unpack("=I", data[: len(data) // 4 * 4])}
    return [control.parent / name for name in existing if int(name.removeprefix(prefix)) in numbers]


def _read_lines(host: ServiceHost, path: PurePath) -> list[str]:
    try:
        return host.read(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
