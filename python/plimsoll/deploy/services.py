"""Services of an experiment: started below a guard, in a directory of their own, on loopback and a free port.

`Fleet` holds what runs. Before each run it is told what that run wants; what differs from what runs, and what `fresh`
asks to be new, is ended and started again, together with everything that needs it.
"""

from __future__ import annotations

import json
import select
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plimsoll.deploy.command_service import start_command
from plimsoll.deploy.process import Guarded
from plimsoll.deploy.service_settings import engine_settings
from plimsoll.errors import ServiceError
from plimsoll.plan.changes import changes
from plimsoll.plan.model import Config, Data, Service


@dataclass
class RunningService:
    """A service that is there. `process` is None for an embedded file; `configuration` is what it was started with."""

    wanted: Service
    data: tuple[Data, ...]
    cpus: tuple[int, ...]
    directory: Path
    urls: list[str]
    configuration: str
    process: Guarded | None = None
    log_offset: int = field(default=0)

    def log_of_run(self) -> bytes:
        """What it has logged since `mark`."""
        if self.process is None:
            return b""
        try:
            with self.process.log.open("rb") as file:
                file.seek(self.log_offset)
                return file.read(LOG_MOST)
        except OSError:
            return b""

    def mark(self) -> None:
        """A run begins: its log is what comes from here on."""
        if self.process is not None:
            try:
                self.log_offset = self.process.log.stat().st_size
            except OSError:
                self.log_offset = 0


LOG_MOST = 16 * 1024 * 1024
"""A service that logs every request must not fill the results."""


class Fleet:
    """The services that run now, in the order in which they were started."""

    def __init__(self, engine: Path, work: Path, interrupted: Callable[[], None]) -> None:
        self._engine = engine
        self._work = work
        self._check_interrupt = interrupted
        self._running: dict[str, RunningService] = {}
        self._config: Config | None = None
        self._number = 0

    @property
    def running(self) -> tuple[RunningService, ...]:
        """What runs, in starting order."""
        return tuple(self._running.values())

    def addresses(self) -> dict[str, list[str]]:
        """URLs by the name of the service."""
        return {name: list(service.urls) for name, service in self._running.items()}

    def ensure(self, config: Config, pins: Mapping[str, Sequence[int]], same_cell: bool) -> list[str]:
        """Brings the fleet to what `config` wants; gives the names of the services that were (re)started.

        What is restarted is what `plan.changes` says, and what has died meanwhile with all that needs it. `same_cell`:
        the run before was of the same cell. Raises ServiceError when a service cannot be started.
        """
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
        """What to say of a service that has ended by itself, or None while all are there."""
        for service in self._running.values():
            if service.process is not None and service.process.gone():
                return service.process.obituary()
        return None

    def stop(self) -> None:
        """Ends everything, the last started first, and removes the working directories."""
        for name in reversed(list(self._running)):
            self._stop(name)
        shutil.rmtree(self._work, ignore_errors=True)

    def _stop(self, name: str) -> None:
        service = self._running.pop(name)
        if service.process is not None:
            service.process.stop()
        shutil.rmtree(service.directory, ignore_errors=True)

    def _start(self, service: Service, data: tuple[Data, ...], cpus: tuple[int, ...]) -> None:
        self._number += 1
        directory = self._work / f"{service.name}-{self._number}"
        directory.mkdir(parents=True)
        running = RunningService(service, data, cpus, directory, [], "")
        match service.kind:
            case "sqlite":
                self._start_sqlite(running)
            case "command":
                start_command(running, self._engine, self.addresses(), self._check_interrupt)
            case _:
                self._start_ours(running)
        self._running[service.name] = running

    def _start_sqlite(self, running: RunningService) -> None:
        existing = running.wanted.settings.get("file")
        path = Path(existing).resolve() if existing else running.directory / "data.sqlite"
        if existing and not path.is_file():
            raise ServiceError(f"service {running.wanted.name}: there is no SQLite file {path}")
        if running.data:
            self._fill(path, running.data)
        running.urls = [f"sqlite:{path}"]
        running.configuration = json.dumps(
            {"file": path.name, "tables": [one.name for one in running.data]}, indent=1
        )

    def _fill(self, path: Path, tables: Sequence[Data]) -> None:
        config = {
            "database": str(path),
            "tables": [
                {
                    "name": one.name,
                    "rows": one.rows,
                    "row": one.row_bytes,
                    "compressibility": one.compressibility * 100,
                    "seed": one.seed,
                }
                for one in tables
            ],
        }
        loader = Guarded(
            "data",
            self._engine,
            [self._engine, "data", "--config", "-"],
            log=path.with_suffix(".log"),
            first_line=json.dumps(config),
        )
        try:
            while not loader.gone():
                self._check_interrupt()
                loader.wait(0.05)
            if loader.returncode != 0:
                names = ", ".join(one.name for one in tables)
                raise ServiceError(f"data {names}: the tables could not be written{loader.last_lines()}")
        finally:
            loader.stop()

    def _start_ours(self, running: RunningService) -> None:
        service = running.wanted
        settings = engine_settings(service, self.addresses())
        running.configuration = json.dumps(settings, indent=1)
        running.process = Guarded(
            service.name,
            self._engine,
            [self._engine, "serve", service.kind, "--config", "-"],
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
        scheme = (
            "http"
            if service.kind in ("frontier", "delay", "echo") and service.settings.get("http", True)
            else "tcp"
        )
        running.urls = [f"{scheme}://{address}"]

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


def describe(service: RunningService) -> dict[str, Any]:
    """What run.json says of a service."""
    return {
        "name": service.wanted.name,
        "kind": service.wanted.kind,
        "cpus": list(service.cpus),
        "pid": service.process.pid if service.process else None,
        "urls": service.urls,
    }
