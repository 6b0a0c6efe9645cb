"""`kind: mariadb`: its own data directory, created at each start (mariadb-install-db takes four seconds)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters.mariadb import MariadbCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import require, require_package, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site

if TYPE_CHECKING:
    import pymysql

USER: Final = "plimsoll"
STOP_S: Final = 20.0
INSTALL_S: Final = 120.0
PACKAGE: Final = "mariadb-server"


def start_mariadb(running: RunningService, site: Site) -> None:
    """Runs mariadb-install-db, then the server, which creates its account and database when it starts. Raises
    ServiceError."""
    service = running.spec
    name, settings, host = service.name, service.settings, site.host
    server = require(name, "MariaDB server", ("mariadbd", "mysqld"), PACKAGE, host.programs)
    install = require(
        name, "MariaDB server", ("mariadb-install-db", "mysql_install_db"), PACKAGE, host.programs
    )
    require_package(name, "pymysql", "pymysql")
    directory, port = running.directory, host.free_port(address=site.listen)
    for part in ("data", "tmp"):
        host.make_directory(directory / part, 0o700, site.account)
    text = configuration(directory, site.listen, port, settings["settings"], log=settings["binary_log"])
    options = directory / "my.cnf"
    host.write(options, text, mode=0o644)
    clients = "%" if site.has_remote_clients else site.address
    statements = first_statements(settings["database"], clients, replica=settings["binary_log"])
    host.write(directory / "init.sql", statements, mode=0o644)
    command = host.command_as(
        site.account,
        [
            install,
            f"--defaults-file={options}",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={site.account.name}",
            "--skip-test-db",
        ],
        {"HOME": str(directory), "LC_ALL": "C"},
    )
    host.run_to_end(
        Program(name, command, directory / "install.log", directory=directory),
        failure=f"service {name}: its data directory could not be created (mariadb-install-db)",
        check_interrupt=site.check_interrupt,
        timeout_s=INSTALL_S,
    )
    connect = partial(_connect, site.address, port)
    site.start(
        running, [server, f"--defaults-file={options}"], partial(_is_answering, connect), grace_s=STOP_S
    )
    running.version = version_number(version_of([server, "--version"], host.programs))
    running.configuration = f"# MariaDB {running.version}\n{text.rstrip()}"
    running.urls = [f"mysql://{USER}@{netloc(site.address, port)}/{settings['database']}"]
    running.settle = partial(_settle, connect, settings["database"])
    running.counters = lambda: MariadbCounters(connect, settings["database"])


def configuration(
    directory: PurePath, address: str, port: int, settings: Mapping[str, str], *, log: bool = False
) -> str:
    """All options of the server; the files of the host are not read. The name of the socket is relative to
    the data directory, as the full path is often longer than a socket path may be. `log`: with the binary
    log, from which a gateway learns of changes. It is written at each commit, so it is off if no gateway
    follows the server."""
    defaults = {
        "datadir": str(directory / "data"),
        "tmpdir": str(directory / "tmp"),
        "socket": "mariadb.sock",
        "pid_file": str(directory / "data" / "mariadb.pid"),
        "bind_address": address,
        "port": str(port),
        "skip_name_resolve": "1",
        "init_file": str(directory / "init.sql"),
        **({"log_bin": "log", "binlog_format": "ROW", "server_id": "1"} if log else {}),
    }
    lines = [f"{key} = {value}" for key, value in {**defaults, **settings}.items()]
    return "\n".join(["[mariadbd]", *lines, ""])


def first_statements(database: str, clients: str, *, replica: bool = False) -> str:
    """The statements that the server executes when it starts, one per line. They create an account without a
    password. The account can access its database and the server's counters, and with `replica` the binary
    log. `clients`: the hosts from which it can connect, % for all. The administrator can connect only through
    the socket."""
    account = f"'{USER}'@'{clients}'"
    return "".join(
        f"{line};\n"
        for line in (
            f"CREATE DATABASE IF NOT EXISTS `{database}`",
            f"CREATE USER IF NOT EXISTS {account}",
            f"GRANT ALL PRIVILEGES ON `{database}`.* TO {account}",
            f"GRANT SELECT, DROP ON performance_schema.* TO {account}",
            f"GRANT PROCESS{', REPLICATION SLAVE, REPLICATION CLIENT' if replica else ''} ON *.* TO {account}",
        )
    )


def _settle(connect: Callable[..., pymysql.Connection[Any]], database: str) -> None:
    """Updates the statistics after the tables are written, so that the server does not do this during a
    run."""
    connection = connect(database)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW TABLES")
            for (table,) in cursor.fetchall():
                cursor.execute(f"ANALYZE TABLE `{table}`")
                cursor.fetchall()
    finally:
        connection.close()


def _connect(address: str, port: int, database: str | None) -> pymysql.Connection[Any]:
    import pymysql

    return pymysql.connect(
        host=address,
        port=port,
        user=USER,
        database=database,
        connect_timeout=5,
        read_timeout=5,
        autocommit=True,
    )


def _is_answering(connect: Callable[..., pymysql.Connection[Any]]) -> bool:
    import pymysql

    try:
        connection = connect(None)
    except pymysql.Error:
        return False
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return bool(cursor.fetchone() == (1,))
    except pymysql.Error:
        return False
    finally:
        connection.close()
