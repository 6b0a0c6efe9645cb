"""Services of an experiment. Each runs under a guard, in its own directory, on a free port of loopback or of the
address at which testers on other hosts reach this host.

`RunningServices` owns the running services. Before each run it gets the services of that run: a service that differs,
or that `fresh` requires to be new, is restarted together with everything that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from plimsoll.deploy.account import account, own_account
from plimsoll.deploy.ports import LOOPBACK, PortBook, numeric_address
from plimsoll.deploy.process import run_to_end
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.table import STARTS
from plimsoll.deploy.sql_data import load_sql
from plimsoll.deploy.workplace import Workplace
from plimsoll.plan.design.changes import changes
from plimsoll.plan.model import Config, Data, Service


class RunningServices:
    """The services that run, in the order in which they were started. `address`: the address of this host on
    which they listen."""

    def __init__(
        self, engine: Path, work: Path, interrupted: Callable[[], None], address: str = LOOPBACK
    ) -> None:
        self._engine = engine
        self._workplace = Workplace(work)
        self._address = numeric_address(address)
        self._ports = PortBook(self._address)
        self._check_interrupt = interrupted
        self._running: dict[str, RunningService] = {}
        self._config: Config | None = None

    @property
    def running(self) -> tuple[RunningService, ...]:
        """The running services, in the order in which they were started."""
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
        stale |= {name for name, service in self._running.items() if service.is_lost}
        while more := {
            name
            for name, service in self._running.items()
            if name not in stale and stale.intersection(service.spec.needs)
        }:
            stale |= more
        for name in reversed(list(self._running)):
            if name in stale:
                self._stop(name)
        started = []
        for service in config.services:
            if service.name not in self._running:
                self._check_interrupt()
                data = tuple(data_set for data_set in config.data if data_set.into == service.name)
                self._start(service, data, tuple(pins.get(service.name, ())))
                started.append(service.name)
        self._config = config
        return started

    def ended_service_message(self) -> str | None:
        """The message for the first service that has ended by itself; None while all run."""
        for service in self._running.values():
            if service.process is not None and service.process.has_ended():
                return service.process.end_message()
        return None

    def stop(self) -> None:
        """Ends all services, the last started first, and removes the working directories."""
        for name in reversed(list(self._running)):
            self._stop(name)
        self._workplace.remove()

    def _stop(self, name: str) -> None:
        self._running.pop(name).stop()

    def _start(self, service: Service, data: tuple[Data, ...], cpus: tuple[int, ...]) -> None:
        kind = STARTS[service.kind]
        if kind.unprivileged:
            owner = account()
            directory, remark = self._workplace.directory_for(service.name, owner)
        else:
            owner, remark = own_account(), ""
            directory = self._workplace.directory(service.name)
        running = RunningService(service, data, cpus, directory, remark=remark)
        site = Site(self._engine, owner, self.addresses(), self._ports, self._check_interrupt, self._address)
        try:
            kind.start(running, site)
            if data:
                self._load(running.urls[0].removeprefix("sqlite:"), data, directory / "data.log")
                running.settle()
        except BaseException:
            running.stop()
            raise
        self._running[service.name] = running

    def _load(self, database: str, data: Sequence[Data], log: Path) -> None:
        """Writes all data sets in the order of the file: the engine writes those of Plimsoll, this process loads SQL
        files. `database`: a URL, or the path of an SQLite file."""
        for is_sql, data_sets in groupby(data, lambda data_set: data_set.kind == "sql"):
            if not is_sql:
                self._fill(database, tuple(data_sets), log)
                continue
            for data_set in data_sets:
                load_sql(database, data_set, self._check_interrupt)

    def _fill(self, database: str, tables: Sequence[Data], log: Path) -> None:
        """Runs the engine to write tables into an SQLite file, or into a database by its URL."""
        config = {"database": database, "tables": [dict(table.settings) for table in tables]}
        names = ", ".join(table.name for table in tables)
        run_to_end(
            "data",
            self._engine,
            [self._engine, "data", "--config", "-"],
            log=log,
            failure=f"data {names}: the tables could not be written",
            check_interrupt=self._check_interrupt,
            first_line=json.dumps(config),
        )
