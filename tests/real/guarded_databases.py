"""PostgreSQL and MariaDB servers with users who have passwords, as a site has them: nothing of Plimsoll starts them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from plimsoll.deploy.programs import find, postgres_directory
from plimsoll.errors import ServiceError
from tests.conftest import missing

PASSWORD = "p@ss/w0rd:é%"
ENCODED = "p%40ss%2Fw0rd%3A%C3%A9%25"
ROWS = 100
_TABLE = "CREATE TABLE t (n int); "
_FILL = "INSERT INTO t VALUES " + ", ".join(f"({n})" for n in range(ROWS))


@dataclass(frozen=True)
class Database:
    """A server. Its users `reader` and `legacy` have the password, `open` has none, all may read `t` of `events`."""

    scheme: str
    port: int
    directory: Path

    def url(self, login: str, host: str = "127.0.0.1") -> str:
        """Of the database, for `USER` or `USER:PASSWORD`."""
        return f"{self.scheme}://{login}@{host}:{self.port}/events"


@contextmanager
def database(kind: str, tls: Path | None = None, settings: Sequence[str] = ()) -> Iterator[Database]:
    """A server of its own while it is needed. `tls`: a directory with `server.pem` and `server.key`, with which every
    login must come over TLS; `settings`: further ones of a PostgreSQL."""
    directory = Path(tempfile.mkdtemp(prefix="plimsoll-guarded-", dir="/var/tmp"))
    directory.chmod(0o755)
    if tls is not None:
        for name in ("server.pem", "server.key", "ca.pem"):
            shutil.copy(tls / name, directory)
            (directory / name).chmod(0o600)
    if os.geteuid() == 0:
        for path in (directory, *directory.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
    start = partial(_postgres, more=settings) if kind == "postgres" else _mariadb
    try:
        with start(directory, free_port(), tls is not None) as server:
            yield server
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _postgres(directory: Path, port: int, tls: bool, more: Sequence[str] = ()) -> Iterator[Database]:
    try:
        programs = Path(postgres_directory("x", "auto"))
    except ServiceError:
        missing("a PostgreSQL server", "apt-get install postgresql")
    data = directory / "data"
    _do(
        directory,
        [f"{programs}/initdb", "-D", f"{data}", "-U", "admin", "-A", "trust", "--no-sync", "-E", "UTF8"],
    )
    rule = "hostssl" if tls else "host"
    (data / "pg_hba.conf").write_text(
        f"local all admin trust\n{rule} all reader all scram-sha-256\n"
        f"{rule} all legacy all md5\n{rule} all open all trust\n"
    )
    words = [f"{programs}/postgres", "-D", f"{data}", "-p", f"{port}", "-k", f"{directory}"]
    settings = ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=32MB", *more]
    if tls:
        settings += [
            "ssl=on",
            f"ssl_cert_file={directory}/server.pem",
            f"ssl_key_file={directory}/server.key",
        ]
        settings += [f"ssl_ca_file={directory}/ca.pem"]
    words += [word for one in settings for word in ("-c", one)]
    client = [f"{programs}/psql", "-h", f"{directory}", "-p", f"{port}", "-U", "admin", "-q"]
    with _running(directory, words, [*client, "-d", "postgres", "-c", "SELECT 1"]):
        users = (
            f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE open LOGIN; SET password_encryption = 'md5'; "
            f"CREATE ROLE legacy LOGIN PASSWORD '{PASSWORD}'"
        )
        _do(directory, [*client, "-d", "postgres", "-c", users])
        _do(directory, [*client, "-d", "postgres", "-c", "CREATE DATABASE events"])
        _do(directory, [*client, "-d", "events", "-c", f"{_TABLE}{_FILL}; GRANT SELECT ON t TO PUBLIC"])
        yield Database("postgresql", port, directory)


@contextmanager
def _mariadb(directory: Path, port: int, tls: bool) -> Iterator[Database]:
    if find(["mariadbd"]) is None:
        missing("a MariaDB server", "apt-get install mariadb-server")
    data, where = f"--datadir={directory}/data", f"--socket={directory}/socket"
    # A server removes the temporary tables of all others from /tmp as it starts.
    temporary = f"--tmpdir={directory}"
    install = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", data]
    _do(directory, [*install, temporary, "--skip-test-db"])
    words = [
        f"{find(['mariadbd'])}",
        "--no-defaults",
        data,
        temporary,
        where,
        f"--port={port}",
        "--bind-address=127.0.0.1",
    ]
    words += [f"--pid-file={directory}/pid", "--skip-name-resolve", "--innodb-buffer-pool-size=32M"]
    if tls:
        words += [f"--ssl-cert={directory}/server.pem", f"--ssl-key={directory}/server.key"]
        words += [f"--ssl-ca={directory}/ca.pem"]
    client = ["mariadb", "--no-defaults", "--default-character-set=utf8mb4", where, "-uroot", "-e"]
    with _running(directory, words, [*client, "SELECT 1"]):
        need = " REQUIRE SSL" if tls else ""
        named = "".join(
            f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{password}'{need}; "
            f"GRANT SELECT ON events.* TO {name}@'127.0.0.1'; "
            for name, password in (("reader", PASSWORD), ("legacy", PASSWORD), ("open", ""))
        )
        _do(directory, [*client, f"CREATE DATABASE events; USE events; {_TABLE}{_FILL}; {named}"])
        yield Database("mysql", port, directory)


@contextmanager
def _running(directory: Path, words: Sequence[str], asks: Sequence[str]) -> Iterator[None]:
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            _as_nobody(directory, words),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait(lambda: subprocess.run(asks, capture_output=True, check=False).returncode == 0, server)
        yield
    finally:
        server.terminate() if "mariadbd" in words[0] else server.send_signal(2)
        server.wait(timeout=60)


def _wait(answers: Callable[[], bool], server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while not answers():
        assert server.poll() is None, "the server has ended"
        assert time.monotonic() < until, "the server does not answer"
        time.sleep(0.1)


def _do(directory: Path, words: Sequence[str]) -> None:
    done = subprocess.run(_as_nobody(directory, words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _as_nobody(directory: Path, words: Sequence[str]) -> list[str]:
    env = ["env", f"HOME={directory}", "LC_ALL=C.UTF-8"]
    if os.geteuid() != 0:
        return [*env, *words]
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *env, *words]


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
