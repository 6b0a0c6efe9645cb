"""Sessions of a database by what they wait for, as gauges of one reading. Pure.

A reading is a sample: each session has one state at its time. The name of a wait is `wait.TYPE.EVENT`. A reading has
only the waits that it found, so a wait that is absent has the value 0 where `sessions_active` is present.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

ACTIVE: Final = "sessions_active"
IDLE_IN_TRANSACTION: Final = "sessions_idle_in_transaction"
WAITING_FOR_LOCK: Final = "sessions_waiting_lock"
LOCK_WAIT: Final = "lock_wait_longest_s"
WAIT: Final = "wait."
"""The beginning of the names of waits."""
RUNNING: Final = ("CPU", "none")
"""Type and event of an active session without a wait event: it runs, or waits for a core."""
STATE: Final = "state"
"""Type of an active session whose wait events the server does not report: its event is the state of its statement."""
LOCK: Final = "Lock"
MAX_EVENTS: Final = 40
"""The maximum number of names of waits of a run. The other events are added up by type, as `wait.TYPE.other`."""
OTHER: Final = "other"

Wait = tuple[str, str]
"""Type and event."""


@dataclass(slots=True)
class SessionGauges:
    """The gauges of the readings of one server. It bounds the number of their names."""

    _names: set[str] = field(default_factory=set)

    def gauges(self, waits: Iterable[Wait], idle_in_transaction: int, longest_s: float) -> dict[str, float]:
        """The gauges of one reading. `waits`: of each active session; `longest_s`: of the lock waits in progress."""
        found: dict[str, float] = {}
        active = locked = 0
        for kind, event in waits:
            active += 1
            locked += kind == LOCK
            name = self._name(kind, event)
            found[name] = found.get(name, 0.0) + 1
        return {
            ACTIVE: float(active),
            IDLE_IN_TRANSACTION: float(idle_in_transaction),
            WAITING_FOR_LOCK: float(locked),
            LOCK_WAIT: max(0.0, longest_s) if locked else 0.0,
            **found,
        }

    def _name(self, kind: str, event: str) -> str:
        kind, event = kind.replace(".", "_") or "other", "_".join(event.split()) or OTHER
        name = f"{WAIT}{kind}.{event}"
        if name not in self._names and len(self._names) >= MAX_EVENTS:
            return f"{WAIT}{kind}.{OTHER}"
        self._names.add(name)
        return name


def is_wait(name: str) -> bool:
    """Whether a gauge is the number of sessions with one wait: then it is 0 in a reading without it."""
    return name.startswith(WAIT)
