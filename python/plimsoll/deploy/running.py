"""A service that is there: where it is reached, what it was started with, what it logs, how it ends."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plimsoll.deploy.counters import Source
from plimsoll.deploy.process import Guarded
from plimsoll.plan.model import Data, Service

MAX_LOG_BYTES = 16 * 1024 * 1024
"""A service that logs every request must not fill the results."""


@dataclass
class RunningService:
    """`process` is None for an embedded file; `configuration` is what it was started with.

    `logs`: further logs beside that of the process, by the name under which they are kept. `stop_signal`: what ends it
    politely, where that is not SIGTERM, and `stop_s` how long it may take. `sweep`: removes what it may have left
    outside its directory; `settle` is called once its tables are written. `remark`: something that a reader of the
    results should know of its start.
    """

    wanted: Service
    data: tuple[Data, ...]
    cpus: tuple[int, ...]
    directory: Path
    urls: list[str] = field(default_factory=list)
    configuration: str = ""
    process: Guarded | None = None
    version: str = ""
    remark: str = ""
    logs: dict[str, Path] = field(default_factory=dict)
    stop_signal: int | None = None
    stop_s: float = 0.0
    sweep: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None
    counters: Callable[[], Source] | None = None
    _read_to: dict[str, int] = field(default_factory=dict)

    def mark(self) -> None:
        """A run begins: its logs are what comes from here on."""
        self._read_to = {name: _size(path) for name, path in self._all_logs().items()}

    def logs_of_run(self) -> dict[str, bytes]:
        """What it has logged since `mark`, by the name of the log."""
        found = {}
        for name, path in self._all_logs().items():
            found[name] = b""
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(self._read_to.get(name, 0))
                found[name] = file.read(MAX_LOG_BYTES)
        return found

    def stop(self) -> None:
        """Ends it, politely at first, and removes everything that was its own."""
        if self.process is not None:
            if self.stop_signal is not None:
                self.process.ask(self.stop_signal, self.stop_s)
            self.process.stop()
        self.sweep()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _all_logs(self) -> dict[str, Path]:
        return self.logs if self.process is None else {"log": self.process.log, **self.logs}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def describe(service: RunningService) -> dict[str, Any]:
    """The entry of a service in run.json."""
    return {
        "name": service.wanted.name,
        "kind": service.wanted.kind,
        "version": service.version,
        "cpus": list(service.cpus),
        "pid": service.process.pid if service.process else None,
        "urls": service.urls,
    }
