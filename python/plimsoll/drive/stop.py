"""A request to stop the experiment: signals, and `plimsoll stop`, which sends one."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

from plimsoll.drive.engine import EngineSession
from plimsoll.errors import UserInterrupt


class StopRequest:
    """Ctrl-C, `plimsoll stop` or a signal. The first requests a clean end, the second ends the engine, the
    third ends the lab."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._requests = 0
        self._terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        self._engine: EngineSession | None = None

    def watch(self, engine: EngineSession | None) -> None:
        """Sets the engine that the second request kills."""
        self._engine = engine

    def check(self) -> None:
        """Raises UserInterrupt if a stop was requested."""
        if self.reason is not None:
            raise UserInterrupt(self.reason)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Handles SIGINT, SIGTERM and SIGHUP within the `with` block."""
        # A closed terminal sends SIGHUP. Under nohup, SIGHUP is ignored and remains ignored.
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._requests += 1
        if number == signal.SIGHUP:  # the terminal is closed: output to it would fail
            null = os.open(os.devnull, os.O_WRONLY)
            for descriptor in self._terminals:
                os.dup2(null, descriptor)
            os.close(null)
        if self.reason is None:
            self.reason = f"stopped by {signal.Signals(number).name}"
        elif self._requests > 2:
            raise KeyboardInterrupt
        elif self._engine is not None:
            self._engine.kill()
