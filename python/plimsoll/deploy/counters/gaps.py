"""Times at which the counters of a system could not be read. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_GAPS: Final = 100
"""The maximum number of gaps of a run. If there are more, each further gap replaces the last one."""


@dataclass(slots=True)
class Gap:
    """The time from the first reading that failed to the next that did not, in unix seconds."""

    start: float
    end: float
    why: str


@dataclass(slots=True)
class Gaps:
    """The gaps of a run, in order of time."""

    entries: list[Gap] = field(default_factory=list)
    is_open: bool = False
    """Whether the last reading failed."""

    def note_failure(self, at: float, why: str) -> bool:
        """Notes a failed reading. Returns whether it begins a gap."""
        if self.is_open:
            self.entries[-1].end = at
            return False
        if len(self.entries) == MAX_GAPS:
            self.entries.pop()
        self.entries.append(Gap(at, at, why))
        self.is_open = True
        return True

    def note_success(self, at: float) -> None:
        """Notes a reading that did not fail."""
        self.extend(at)
        self.is_open = False

    def extend(self, at: float) -> None:
        """The gap, if there is one now, lasts until `at` at least."""
        if self.is_open:
            self.entries[-1].end = at
