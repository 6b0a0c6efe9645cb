"""Services of an experiment, on this host and on other ones. Each runs under a guard, in its own directory, on a
free port of its host. On this host, this is a port of loopback or of the address at which other hosts reach it.

`RunningServices` owns the running services. Before each run it gets the services of that run: a service that differs,
or that `fresh` requires to be new, is restarted together with everything that needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from plimsoll.deploy.ports import LOOPBACK, PortBook, numeric_address
from plimsoll.deploy.process import Program
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.table import STARTS
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.deploy.service_hosts.local import LocalServiceHost
from plimsoll.deploy.sql_data import load_sql
from plimsoll.errors import BadInput, ServiceError
from plimsoll.plan.design.changes import changes
from plimsoll.plan.model.cell import Config, Data, Service

OtherHosts = Callable[[Config, str], ServiceHost]
"""The host with this name, of the hosts of services of a configuration. Raises ServiceError."""


class RunningServices:
    """The services that run, in the order in which they were started. `address`: the address of this host on
    which they listen. `other_hosts`: None if no service is placed on another host."""

    def __init__(
        self,
        engine: Path,
        work: Path,
        interrupted: Callable[[], None],
        address: str = LOOPBACK,
        other_hosts: OtherHosts | None = None,
    ) -> None:
        self._here = LocalServiceHost(engine, work, numeric_address(address))
        self._other_hosts = other_hosts
        self._ports = PortBook(self._port_host)
        self._check_interrupt = interrupted
        self._running: dict[str, RunningService] = {}
        self._config: Config | None = None
        self._next: Config | None = None
        self._unusable: set[str] = set()
        """Replicas that have not caught up."""

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
        stale |= {
            name for name, service in self._running.items() if service.is_lost or name in self._unusable
        }
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
        self._next = config
        for service in config.services:
            if service.name not in self._running:
                self._check_interrupt()
                data = tuple(data_set for data_set in config.data if data_set.into == service.name)
                self._start(service, data, tuple(pins.get(service.name, ())))
                started.append(service.name)
        self._config = config
        return started

    def wait_for_replicas(self) -> None:
        """Waits until every replica has replayed what its source contains now. Raises ServiceError if one does not;
        `ensure` then starts it anew."""
        for name, service in self._running.items():
            try:
                service.catch_up(self._check_interrupt)
            except ServiceError:
                self._unusable.add(name)
                raise

    def lost_replica_messages(self) -> list[str]:
        """A text for each synchronous replica that has ended, and was not restarted."""
        return [
            f"{name} has ended: the commits of {service.spec.settings['replica_of']} waited for it, a synchronous "
            "replica, until the time-outs of their requests"
            for name, service in self._running.items()
            if service.is_lost and service.spec.settings.get("synchronous")
        ]

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
        self._here.close()

    def _stop(self, name: str) -> None:
        self._unusable.discard(name)
        self._running.pop(name).stop()

    def _start(self, service: Service, data: tuple[Data, ...], cpus: tuple[int, ...]) -> None:
        kind = STARTS[service.kind]
        host = self._host_of(service)
        owner = host.server_account() if kind.unprivileged else host.own_account()
        directory, remark = host.create_workplace(
            service.name, owner if kind.unprivileged else None, kind.sockets
        )
        running = RunningService(service, data, cpus, host, directory, remark=remark)
        listen, address = self._addresses_of(service)
        site = Site(
            host,
            owner,
            self.addresses(),
            self._ports,
            self._check_interrupt,
            listen,
            address,
            self._peers(host),
            self._running,
        )
        try:
            kind.start(running, site)
            if data:
                self._load(running, data)
                running.settle()
        except BaseException:
            running.stop()
            raise
        self._running[service.name] = running

    def _host_of(self, service: Service) -> ServiceHost:
        if service.host is None:
            return self._here
        assert self._other_hosts is not None and self._next is not None, "the experiment prepares its hosts"
        return self._other_hosts(self._next, service.host)

    def _addresses_of(self, service: Service) -> tuple[str, str]:
        """The address on which a service listens, and the one at which clients reach it. `address` of the file is
        also used for listening if the host has it; behind NAT, it does not."""
        host = self._host_of(service)
        if service.address is None:
            return host.address, host.address
        try:
            numeric = numeric_address(service.address)
        except BadInput as error:
            message = f"service {service.name}: the address {service.address} cannot be resolved"
            raise ServiceError(message) from error
        try:
            host.free_port(address=numeric)
        except (ServiceError, BadInput):
            return host.address, numeric
        return numeric, numeric

    def _port_host(self, name: str) -> tuple[ServiceHost, str]:
        assert self._next is not None, "ports are assigned while services start"
        service = self._next.service(name)
        return self._host_of(service), self._addresses_of(service)[1]

    def _peers(self, host: ServiceHost) -> tuple[str, ...]:
        """The addresses of the other hosts of services."""
        assert self._next is not None
        others = [self._host_of(service) for service in self._next.services]
        return tuple(dict.fromkeys(other.address for other in others if other is not host))

    def _load(self, running: RunningService, data: Sequence[Data]) -> None:
        """Writes all data sets in the order of the file: the engine writes those of Plimsoll, this process loads SQL
        files."""
        database = running.urls[0].removeprefix("sqlite:")
        for is_sql, data_sets in groupby(data, lambda data_set: data_set.kind == "sql"):
            if not is_sql:
                _fill(running, database, tuple(data_sets), self._check_interrupt)
                continue
            for data_set in data_sets:
                load_sql(database, data_set, self._check_interrupt)


def _fill(
    running: RunningService, database: str, tables: Sequence[Data], check_interrupt: Callable[[], None]
) -> None:
    """Runs the engine on the host of the service to write tables into an SQLite file, or into a database by its
    URL."""
    config = {"database": database, "tables": [dict(table.settings) for table in tables]}
    names = ", ".join(table.name for table in tables)
    running.host.run_to_end(
        Program(
            "data",
            [running.host.engine, "data", "--config", "-"],
            running.directory / "data.log",
            first_line=json.dumps(config),
        ),
        failure=f"data {names}: the tables could not be written",
        check_interrupt=check_interrupt,
    )
