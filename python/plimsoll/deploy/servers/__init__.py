"""Servers of the distribution. Each has its own configuration, directory and address, and runs below a
guard, on this host or on another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from plimsoll.deploy.account import Account
from plimsoll.deploy.ports import PortBook
from plimsoll.deploy.process import GRACE_S, Program, wait_until
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.plan.model.cell import Service


@dataclass(frozen=True, slots=True)
class Site:
    """The surroundings in which a service starts. `addresses`: URLs of the services that already run.
    `listen`: the address on which the service listens. `address`: the address at which clients, and the lab,
    reach it. `peers`: addresses of other hosts of services that may administer it. `running`: the services that already
    run."""

    host: ServiceHost
    account: Account
    addresses: Mapping[str, Sequence[str]]
    ports: PortBook
    check_interrupt: Callable[[], None]
    listen: str
    address: str
    peers: tuple[str, ...] = ()
    running: Mapping[str, RunningService] = field(default_factory=dict)

    def source_of(self, service: Service) -> RunningService | None:
        """The service that a replica replicates; None if the service is no replica."""
        name = service.settings.get("replica_of")
        return None if name is None else self.running[str(name)]

    @property
    def has_remote_clients(self) -> bool:
        """Whether other hosts send requests to the service. Their addresses are not known before they
        connect."""
        return not self.host.is_here or not self.address.startswith("127.")

    @property
    def administrators(self) -> tuple[str, ...]:
        """Addresses outside of the service's host from which counters are read and objects are purged."""
        return tuple(dict.fromkeys([*self.host.lab_addresses, *self.peers]))

    def start(
        self,
        running: RunningService,
        program: Sequence[str | PurePath],
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        account: Account | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Starts the program below a guard and waits until `ready` returns true. Raises ServiceError."""
        home = {"HOME": str(running.directory), "LC_ALL": "C", **(environment or {})}
        owner = account or self.account
        log = running.directory / "log"
        # So that the server can open /dev/stderr, to which it logs.
        self.host.write(log, "", owner=owner, append=True)
        running.process = process = self.host.start(
            Program(
                running.spec.name,
                self.host.command_as(owner, program, home),
                log,
                cpus=running.cpus,
                directory=running.directory,
                grace_s=grace_s,
                limits=running.spec.limits,
                remove=running.directory,
            )
        )

        running.ready_check = lambda: ready

        def answered() -> bool:
            self.check_interrupt()
            return ready()

        try:
            wait_until(process, answered, running.spec.ready_timeout_ns / 1e9)
        except BaseException:
            process.stop()
            raise
