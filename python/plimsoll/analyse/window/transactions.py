"""The time windows in which transactions are summed. The columns themselves are in `collect.transactions`."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.collect.columns.transactions import CANCELLED, OK, OUTCOMES, TIMEOUT, Int, Transactions

__all__ = ["CANCELLED", "OK", "OUTCOMES", "TIMEOUT", "Int", "Stage", "Transactions", "Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open interval [start, end) in ns from the start of the run: `end` itself is outside."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        """The length of the window in s."""
        return (self.end - self.start) / 1e9


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a staged load with its own window."""

    number: int
    name: str
    window: Window
