"""Servers of the distribution, each with a configuration, a place and an address of its own, below a guard."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plimsoll.deploy.account import Account
from plimsoll.deploy.ports import LOOPBACK, PortBook
from plimsoll.deploy.process import GRACE_S, Guarded, wait_until
from plimsoll.deploy.running import RunningService

MAX_FILES = 65_536
"""Descriptors beyond these only make tables large."""


def file_limit() -> int:
    """How many descriptors a server may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)


@dataclass(frozen=True, slots=True)
class Site:
    """What starting a server needs beside the service itself. `addresses`: URLs of the services that run already;
    `address`: on which it listens."""

    engine: Path
    account: Account
    addresses: Mapping[str, Sequence[str]]
    ports: PortBook
    check_interrupt: Callable[[], None]
    address: str = LOOPBACK

    @property
    def others(self) -> bool:
        """Whether it is asked from other hosts, which are not known before they come."""
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
        """Starts the program below a guard and waits until it has answered. Raises ServiceError."""
        home = {"HOME": str(running.directory), "LC_ALL": "C", **(environment or {})}
        who = account or self.account
        log = running.directory / "log"
        log.touch()
        who.give(log)  # so that /dev/stderr can be opened, which is what servers are told to log to
        running.process = process = Guarded(
            running.wanted.name,
            self.engine,
            who.command(program, home),
            log=log,
            cpus=running.cpus,
            cwd=running.directory,
            grace_s=grace_s,
        )

        def answered() -> bool:
            self.check_interrupt()
            return ready()

        try:
            wait_until(process, answered, running.wanted.ready_timeout_ns / 1e9)
        except BaseException:
            process.stop()
            raise
