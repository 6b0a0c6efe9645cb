"""`kind: mariadb`: its own data directory, created at each start (mariadb-install-db takes four seconds)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from plimsoll.deploy.counters.databases.mariadb import MariadbCounters
from plimsoll.deploy.ports import netloc
from plimsoll.deploy.process import Program
from plimsoll.deploy.programs import require, require_package, version_number, version_of
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.replication.mariadb import USER, MariadbAdmin, follow
from plimsoll.errors import ServiceError

if TYPE_CHECKING:
    import pymysql

STOP_S: Final = 20.0
INSTALL_S: Final = 120.0
PACKAGE: Final = "mariadb-server"


def start_mariadb(running: RunningService, site: Site) -> None:
    """Runs mariadb-install-db, then the server, which creates its account and database when it starts. Raises
    ServiceError."""
    service = running.spec
    name, settings, host = service.name, service.settings, site.host
    program = require(name, "MariaDB server", ("mariadbd", "mysqld"), PACKAGE, host.programs)
    install = require(
        name, "MariaDB server", ("mariadb-install-db", "mysql_install_db"), PACKAGE, host.programs
    )
    require_package(name, "pymysql", "pymysql")
    directory, server = running.directory, MariadbAdmin(site.address, host.free_port(address=site.listen))
    for part in ("data", "tmp"):
        host.make_directory(directory / part, 0o700, site.account)
    source = site.source_of(service)
    text = configuration(
        directory,
        site.listen,
        server.port,
        settings["settings"],
        log=settings["binary_log"],
        replication=_replication_options(settings),
    )
    options = directory / "my.cnf"
    host.write(options, text, mode=0o644)
    clients = "%" if site.has_remote_clients else site.address
    statements = first_statements(
        settings["database"], clients, followed=settings["binary_log"], is_replica=source is not None
    )
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
    site.start(
        running,
        [program, f"--defaults-file={options}"],
        partial(_is_answering, server.connect),
        grace_s=STOP_S,
    )
    running.version = version_number(version_of([program, "--version"], host.programs))
    running.configuration = f"# MariaDB {running.version}\n{text.rstrip()}"
    running.urls = [f"mysql://{USER}@{netloc(site.address, server.port)}/{settings['database']}"]
    running.server = server
    running.counters = lambda: MariadbCounters(server.connect, settings["database"])
    if source is None:
        running.settle = partial(_settle, server.connect, settings["database"])
    else:
        _replicate(running, source, site.check_interrupt)


def _replicate(running: RunningService, source: RunningService, check_interrupt: Callable[[], None]) -> None:
    import pymysql

    try:
        follow(running, source, check_interrupt)
    except pymysql.Error as error:
        raise ServiceError(
            f"service {running.spec.name}: it cannot replicate {source.spec.name}: {error}"
        ) from error


def _replication_options(settings: Mapping[str, Any]) -> dict[str, str]:
    """The options of a server that has replicas, or is one."""
    if not settings["replicating"]:
        return {}
    options = {"server_id": str(settings["server_id"]), "gtid_strict_mode": "1"}
    if settings["replica_of"] is None:
        return options
    return {**options, "log_slave_updates": "1", "relay_log": "relay", "read_only": "1"}


def configuration(
    directory: PurePath,
    address: str,
    port: int,
    settings: Mapping[str, str],
    *,
    log: bool = False,
    replication: Mapping[str, str] | None = None,
) -> str:
    """All options of the server; the files of the host are not read. The name of the socket is relative to
    the data directory, as the full path is often longer than a socket path may be. `log`: with the binary
    log, from which gateways and replicas learn of changes. It is written at each commit, so it is off if none
    follows the server. `replication`: further options of a server that has replicas, or is one."""
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
        **(replication or {}),
    }
    lines = [f"{key} = {value}" for key, value in {**defaults, **settings}.items()]
    return "\n".join(["[mariadbd]", *lines, ""])


def first_statements(database: str, clients: str, *, followed: bool = False, is_replica: bool = False) -> str:
    """The statements that the server executes when it starts, one per line. They create an account without a
    password. The account can access its database and the server's counters, with `followed` the binary log, and with
    `is_replica` the replication from a source. `clients`: the hosts from which it can connect, % for all. The
    administrator can connect only through the socket."""
    account = f"'{USER}'@'{clients}'"
    rights = ["PROCESS"]
    rights += ["REPLICATION SLAVE", "REPLICATION CLIENT"] if followed else []
    rights += ["REPLICATION SLAVE ADMIN", "SLAVE MONITOR"] if is_replica else []
    # A transaction of its own in the log of a replica would contradict the numbers of those of its source.
    begin = ["SET sql_log_bin = 0"] if is_replica else []
    return "".join(
        f"{line};\n"
        for line in (
            *begin,
            f"CREATE DATABASE IF NOT EXISTS `{database}`",
            f"CREATE USER IF NOT EXISTS {account}",
            f"GRANT ALL PRIVILEGES ON `{database}`.* TO {account}",
            f"GRANT SELECT, DROP ON performance_schema.* TO {account}",
            f"GRANT {', '.join(rights)} ON *.* TO {account}",
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
