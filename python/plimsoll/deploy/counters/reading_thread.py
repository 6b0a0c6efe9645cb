"""A thread that reads repeatedly during a run, and one last time at its end."""

from __future__ import annotations

import threading
import time
from typing import Final

TIMEOUT_S: Final = 10.0
"""The maximum time that a run waits for the first reading before it, and for the last one after it."""


class ReadingThread:
    """Subclasses implement `_work`. It sets `_first_done` after the first reading. It stops after a reading
    that began when `_finish_requested` was set."""

    def __init__(self, name: str) -> None:
        self._first_done = threading.Event()
        self._finish_requested = threading.Event()
        # A daemon thread, so that a server that never answers does not prevent the end of the lab.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wait_for_first(self) -> None:
        """Returns when the first reading has ended or failed, or after `TIMEOUT_S`."""
        self._first_done.wait(TIMEOUT_S)

    def finish(self) -> None:
        """Requests the last reading. `result` waits for it."""
        self._finish_requested.set()

    def _work(self) -> None:
        raise NotImplementedError

    def _wait_for_end(self) -> bool:
        """Waits for the end of the thread; False if it has not ended after `TIMEOUT_S`."""
        self._thread.join(TIMEOUT_S)
        return not self._thread.is_alive()

    def _pause(self, due: float, every_s: float) -> float:
        """Waits for the next slot and returns its time. If a reading takes longer than a slot, slots are
        omitted. Two readings at once would be additional load."""
        due = max(due + every_s, time.monotonic())
        self._finish_requested.wait(max(0.0, due - time.monotonic()))
        return due
