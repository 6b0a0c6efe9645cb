"""A running service: its URLs, configuration, logs, and how it is stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from plimsoll.deploy.counters import Source
from plimsoll.deploy.process import ServiceProcess, wait_until
from plimsoll.deploy.service_hosts import ServiceHost
from plimsoll.errors import ServiceError
from plimsoll.plan.model.cell import Data, Service

if TYPE_CHECKING:
    from plimsoll.deploy.servers.postgres_admin import PostgresAdmin
    from plimsoll.deploy.servers.replication.mariadb import MariadbAdmin

MAX_LOG_BYTES = 16 * 1024 * 1024
"""The maximum size of the log of a run, so that a service that logs every request does not fill the
results."""


@dataclass
class RunningService:
    """A service that was started on `host`. `process` is None for an embedded file. `configuration`: as text,
    for the results.

    `directory`, `logs`: paths on the host. `logs`: further logs, in addition to that of the process, by the
    name under which they are stored. `stop_signal`: the signal for an orderly end, if it is not SIGTERM.
    `stop_s`: the time that this end may take. `sweep`: removes what the process may have left outside its
    directory. `settle`: is called after the tables are written. `counters`: creates a source of its counters.
    `remark`: a text on its start for a reader of the results. `ready_check`: is called before each
    start of the program; returns a function that states whether the program is ready. `recovered`: is called
    after a restart. `server`: how the administrator connects to a database. `catch_up`: waits until a replica has
    replayed what its source contains. `detach`: removes at its source what a replica that has ended left there.
    """

    spec: Service
    data: tuple[Data, ...]
    cpus: tuple[int, ...]
    host: ServiceHost
    directory: PurePath
    urls: list[str] = field(default_factory=list)
    configuration: str = ""
    process: ServiceProcess | None = None
    version: str = ""
    remark: str = ""
    logs: dict[str, PurePath] = field(default_factory=dict)
    stop_signal: int | None = None
    stop_s: float = 0.0
    sweep: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None
    counters: Callable[[], Source] | None = None
    ready_check: Callable[[], Callable[[], bool]] | None = None
    recovered: Callable[[], None] = lambda: None
    server: PostgresAdmin | MariadbAdmin | None = None
    catch_up: Callable[[Callable[[], None]], None] = lambda check_interrupt: None
    detach: Callable[[], None] = lambda: None
    _read_to: dict[str, int] = field(default_factory=dict)

    def mark(self) -> None:
        """Notes the current size of its logs at the start of a run. The logs of the run begin there."""
        self._read_to = {name: self.host.size(path) for name, path in self._all_logs().items()}

    def logs_of_run(self) -> dict[str, bytes]:
        """The text that it has logged since `mark`, by the name of the log."""
        logs = {}
        for name, path in self._all_logs().items():
            logs[name] = b""
            with contextlib.suppress(OSError):
                logs[name] = self.host.read(path, self._read_to.get(name, 0), MAX_LOG_BYTES)
        return logs

    @property
    def is_lost(self) -> bool:
        """Whether it has ended, by itself or by an action of a run, and was not restarted."""
        return self.process is not None and (self.process.has_ended() or self.process.is_down)

    def restart(self, check_interrupt: Callable[[], None]) -> None:
        """Kills its processes, starts the same program again on the same port with the same directory, and waits
        until it is ready. Raises ServiceError."""
        if self.process is None or self.ready_check is None:
            raise ServiceError(f"service {self.spec.name} cannot be restarted: it has no process")
        if not self.process.is_down:
            self.process.kill_tree()
        check = self.ready_check()
        self.process.start_again()

        def ready() -> bool:
            check_interrupt()
            return check()

        wait_until(self.process, ready, self.spec.ready_timeout_ns / 1e9)
        self.recovered()

    def stop(self) -> None:
        """Ends the process, first in an orderly way, and removes its directory and all of its other files."""
        if self.process is not None:
            if self.stop_signal is not None:
                self.process.send_signal(self.stop_signal, self.stop_s)
            self.process.stop()
        # The source may have ended before. It is then started again without anything of this replica.
        with contextlib.suppress(Exception):
            self.detach()
        self.sweep()
        self.host.remove(self.directory)

    def _all_logs(self) -> dict[str, PurePath]:
        return self.logs if self.process is None else {"log": self.process.log, **self.logs}


def describe(service: RunningService) -> dict[str, Any]:
    """The entry of a service in run.json. `pid`: on its host. `host`: empty for this host."""
    return {
        "name": service.spec.name,
        "kind": service.spec.kind,
        "version": service.version,
        "host": service.host.name,
        "cpus": list(service.cpus),
        **({"limits": limits} if (limits := service.spec.limits.to_json()) else {}),
        "pid": service.process.pid if service.process else None,
        "urls": service.urls,
    }
