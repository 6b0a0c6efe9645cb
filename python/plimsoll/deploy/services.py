"""Services of an experiment. Each runs under a guard, in its own directory, on a free port of loopback or of the
address at which testers on other hosts reach this host.

`RunningServices` owns the running services. Before each run it gets the services of that run: a service that differs,
or that `fresh` requires to be new, is restarted together with everything that needs it.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from plimsoll.deploy.account import account
from plimsoll.deploy.command_service import start_command
from plimsoll.deploy.counters.ours import OwnCounters
from plimsoll.deploy.ports import LOOPBACK, PortBook, netloc, numeric
from plimsoll.deploy.process import Guarded, run_to_end
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.mariadb import start_mariadb
from plimsoll.deploy.servers.nginx import start_nginx
from plimsoll.deploy.servers.postgres import start_postgres
from plimsoll.deploy.servers.squid import start_squid
from plimsoll.deploy.service_settings import engine_settings, shown_settings
from plimsoll.deploy.sql_data import load_sql
from plimsoll.deploy.workplace import Workplace
from plimsoll.errors import ServiceError
from plimsoll.plan.design.changes import changes
from plimsoll.plan.model import Config, Data, Service

SERVERS: Final[Mapping[str, Callable[[RunningService, Site], None]]] = {
    "mariadb": start_mariadb,
    "nginx": start_nginx,
    "postgres": start_postgres,
    "squid": start_squid,
}
"""Kinds that are servers of the distribution."""


class RunningServices:
    """The services that run now, in the order in which they were started. `address`: of this host, on which they
    listen."""

    def __init__(
        self, engine: Path, work: Path, interrupted: Callable[[], None], address: str = LOOPBACK
    ) -> None:
        self._engine = engine
        self._place = Workplace(work)
        self._address = numeric(address)
        self._ports = PortBook(self._address)
        self._check_interrupt = interrupted
        self._running: dict[str, RunningService] = {}
        self._config: Config | None = None

    @property
    def running(self) -> tuple[RunningService, ...]:
        """What runs, in starting order."""
        return tuple(self._running.values())

    def addresses(self) -> dict[str, list[str]]:
        """URLs by the name of the service."""
        return {name: list(service.urls) for name, service in self._running.items()}

    def ensure(self, config: Config, pins: Mapping[str, Sequence[int]], same_cell: bool) -> list[str]:
        """Starts and stops services to match `config`; returns the names of the services that were
        (re)started. Services are restarted as in `plan.changes`, and so are services that have
        ended, with all that need them. `same_cell`: the previous run was of the same cell.
        Raises ServiceError when a service cannot be started."""
        stale = set(changes(self._config, config, same_cell).stop)
        stale |= {
            name for name, one in self._running.items() if one.process is not None and one.process.gone()
        }
        while more := {
            name
            for name, one in self._running.items()
            if name not in stale and stale.intersection(one.wanted.needs)
        }:
            stale |= more
        for name in reversed(list(self._running)):
            if name in stale:
                self._stop(name)
        started = []
        for service in config.services:
            if service.name not in self._running:
                self._check_interrupt()
                data = tuple(one for one in config.data if one.into == service.name)
                self._start(service, data, tuple(pins.get(service.name, ())))
                started.append(service.name)
        self._config = config
        return started

    def first_gone(self) -> str | None:
        """The message for a service that has ended by itself, or None while all run."""
        for service in self._running.values():
            if service.process is not None and service.process.gone():
                return service.process.obituary()
        return None

    def stop(self) -> None:
        """Ends everything, the last started first, and removes the working directories."""
        for name in reversed(list(self._running)):
            self._stop(name)
        self._place.remove()

    def _stop(self, name: str) -> None:
        self._running.pop(name).stop()

    def _start(self, service: Service, data: tuple[Data, ...], cpus: tuple[int, ...]) -> None:
        if service.kind in SERVERS:
            running = self._start_server(service, data, cpus)
        else:
            running = RunningService(service, data, cpus, self._place.directory(service.name))
            match service.kind:
                case "sqlite":
                    self._start_sqlite(running)
                case "command":
                    start_command(
                        running, self._engine, self.addresses(), self._check_interrupt, self._address
                    )
                case _:
                    self._start_ours(running)
        self._running[service.name] = running

    def _start_server(
        self, service: Service, data: tuple[Data, ...], cpus: tuple[int, ...]
    ) -> RunningService:
        who = account()
        directory, remark = self._place.directory_for(service.name, who)
        running = RunningService(service, data, cpus, directory, remark=remark)
        site = Site(self._engine, who, self.addresses(), self._ports, self._check_interrupt, self._address)
        try:
            SERVERS[service.kind](running, site)
            if data:
                self._load(running.urls[0], data, directory / "data.log")
                running.settle()
        except BaseException:
            running.stop()
            raise
        return running

    def _start_sqlite(self, running: RunningService) -> None:
        existing = running.wanted.settings.get("file")
        path = Path(existing).resolve() if existing else running.directory / "data.sqlite"
        if existing and not path.is_file():
            raise ServiceError(f"service {running.wanted.name}: the SQLite file {path} does not exist")
        if running.data:
            self._fill(str(path), running.data, path.with_suffix(".log"))
        running.urls = [f"sqlite:{path}"]
        running.configuration = json.dumps(
            {"file": path.name, "tables": [one.name for one in running.data]}, indent=1
        )

    def _load(self, url: str, data: Sequence[Data], log: Path) -> None:
        """All data sets in the order of the file: those of Plimsoll by the engine, SQL files by
        this process."""
        for is_sql, sets in groupby(data, lambda one: one.kind == "sql"):
            if not is_sql:
                self._fill(url, tuple(sets), log)
                continue
            for one in sets:
                load_sql(url, one, self._check_interrupt)

    def _fill(self, database: str, tables: Sequence[Data], log: Path) -> None:
        """Has the engine write tables into an SQLite file, or into a database by its URL."""
        config = {"database": database, "tables": [dict(one.settings) for one in tables]}
        names = ", ".join(one.name for one in tables)
        run_to_end(
            "data",
            self._engine,
            [self._engine, "data", "--config", "-"],
            log=log,
            what=f"data {names}: the tables could not be written",
            check_interrupt=self._check_interrupt,
            first_line=json.dumps(config),
        )

    def _start_ours(self, running: RunningService) -> None:
        service = running.wanted
        settings = engine_settings(service, self.addresses(), self._proxies(service))
        running.configuration = json.dumps(shown_settings(service, settings), indent=1)
        running.process = Guarded(
            service.name,
            self._engine,
            [self._engine, "serve", service.kind, "--config", "-", "--listen", netloc(self._address, 0)],
            log=running.directory / "log",
            cpus=running.cpus,
            first_line=json.dumps(settings),
            pipe_stdout=True,
        )
        try:
            address = self._wait_for_address(running.process, service.ready_timeout_ns / 1e9)
        except BaseException:
            running.process.stop()
            raise
        speaks_http = service.kind in ("frontier", "delay", "echo") and service.settings.get("http", True)
        running.urls = [f"{'http' if speaks_http else 'tcp'}://{address}"]
        if speaks_http:
            port = int(address.rpartition(":")[2])
            running.counters = lambda: OwnCounters(self._address, port)

    def _proxies(self, service: Service) -> list[str]:
        """The future addresses of the caches that a gateway notifies of changes: they are started
        after it."""
        told = service.settings.get("invalidation") or {}
        ports = [self._ports.of(one).forward for one in told.get("caches", ())]
        return [f"http://{netloc(self._address, port)}" for port in ports]

    def _wait_for_address(self, process: Guarded, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._check_interrupt()
            if select.select([process.stdout], [], [], 0.1)[0]:
                line = process.stdout.readline()
                if not line:
                    process.wait(1.0)
                    raise ServiceError(process.obituary())
                return str(json.loads(line)["listening"])
        raise ServiceError(
            f"service {process.name} was not ready after {timeout_s:g} s{process.last_lines()}"
        )
