"""A thread that reads something again and again while a run goes on, and once more at its end."""

from __future__ import annotations

import threading
import time
from typing import Final

TIMEOUT_S: Final = 10.0
"""So long a run waits for the first reading before it, and for the last one after it."""


class ReadingThread:
    """Subclasses do the reading in `_work`: they set `_begun` after the first one, and stop after one that began when
    `_over` was set."""

    def __init__(self, name: str) -> None:
        self._begun = threading.Event()
        self._over = threading.Event()
        # A daemon: whoever never answers must not keep the lab from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def wait_for_first(self) -> None:
        """Returns when the first reading is there, or has failed, or takes too long."""
        self._begun.wait(TIMEOUT_S)

    def finish(self) -> None:
        """Asks for the last reading; `result` waits for it."""
        self._over.set()

    def _work(self) -> None:
        raise NotImplementedError

    def _ended(self) -> bool:
        """Waits for the last reading; False where it takes too long."""
        self._thread.join(TIMEOUT_S)
        return not self._thread.is_alive()

    def _pause(self, due: float, every_s: float) -> float:
        """Waits for the next slot, and gives its time. A reading that took longer than a slot leaves slots out: two at
        once would be load of our own."""
        due = max(due + every_s, time.monotonic())
        self._over.wait(max(0.0, due - time.monotonic()))
        return due
