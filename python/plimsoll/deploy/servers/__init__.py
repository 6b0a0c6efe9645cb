"""Servers of the distribution. Each has its own configuration, directory and address, and runs below a
guard."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll.deploy.account import Account
from plimsoll.deploy.ports import LOOPBACK, PortBook
from plimsoll.deploy.process import GRACE_S, GuardedProcess, wait_until
from plimsoll.deploy.running import RunningService

MAX_FILES = 65_536
"""The maximum number of file descriptors. More would only increase the size of tables."""


def file_limit() -> int:
    """The number of file descriptors that a server may open."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)


@dataclass(frozen=True, slots=True)
class Site:
    """The surroundings in which a service starts. `addresses`: URLs of the services that already run.
    `address`: the address on which the service listens."""

    engine: Path
    account: Account
    addresses: Mapping[str, Sequence[str]]
    ports: PortBook
    check_interrupt: Callable[[], None]
    address: str = LOOPBACK

    @property
    def has_remote_clients(self) -> bool:
        """Whether other hosts send requests to the service. Their addresses are not known before they
        connect."""
        return not self.address.startswith("127.")

    def start(
        self,
        running: RunningService,
        program: list[str | Path],
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        account: Account | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Starts the program below a guard and waits until `ready` returns true. Raises ServiceError."""
        home = {"HOME": str(running.directory), "LC_ALL": "C", **(environment or {})}
        owner = account or self.account
        log = running.directory / "log"
        log.touch()
        owner.set_owner(log)  # so that the server can open /dev/stderr, to which it logs
        running.process = process = GuardedProcess(
            running.spec.name,
            self.engine,
            owner.command(program, home),
            log=log,
            cpus=running.cpus,
            cwd=running.directory,
            grace_s=grace_s,
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
