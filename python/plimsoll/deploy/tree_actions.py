"""Actions on the process tree of a service, which the guard at its root carries out."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from plimsoll.errors import ServiceError

ACTION_S: Final = 5.0
"""The maximum time that the guard may take to carry out an action."""


class TreeActions(ABC):
    """Actions on the processes below a guard, which reads them as lines on its stdin (crates/engine/src/guard.rs)."""

    name: str

    def __init__(self) -> None:
        self._is_down = False
        self._starts = 1

    @abstractmethod
    def _act(self, action: str) -> None:
        """Sends a line to the guard. Raises ServiceError."""

    @abstractmethod
    def _states(self) -> Sequence[str]:
        """The states of the descendants of the guard, as in /proc/PID/stat (R, S, T, Z, ...). Raises ServiceError."""

    @abstractmethod
    def has_ended(self) -> bool:
        """See `ServiceProcess`."""

    @abstractmethod
    def end_message(self) -> str:
        """See `ServiceProcess`."""

    @property
    def is_down(self) -> bool:
        """See `ServiceProcess`."""
        return self._is_down

    @property
    def starts(self) -> int:
        """See `ServiceProcess`."""
        return self._starts

    def kill_tree(self) -> None:
        """See `ServiceProcess`."""
        self._is_down = True
        self._act("kill")
        self._wait_for(lambda: not self._states(), "its processes could not be killed")

    def start_again(self) -> None:
        """See `ServiceProcess`."""
        self._starts += 1
        self._act("start")
        self._wait_for(lambda: bool(self._states()), "it could not be started again")
        self._is_down = False

    def pause_tree(self) -> None:
        """See `ServiceProcess`."""
        self._act("pause")
        self._wait_for(
            lambda: all(state in "TtZX" for state in self._states()), "its processes could not be stopped"
        )

    def continue_tree(self) -> None:
        """See `ServiceProcess`."""
        self._act("continue")
        self._wait_for(lambda: "T" not in self._states(), "its processes could not be continued")

    def _wait_for(self, check: Callable[[], bool], failure: str) -> None:
        deadline = time.monotonic() + ACTION_S
        while not check():
            if self.has_ended():
                raise ServiceError(self.end_message())
            if time.monotonic() > deadline:
                raise ServiceError(f"service {self.name}: {failure} within {ACTION_S:g} s")
            time.sleep(0.001)
