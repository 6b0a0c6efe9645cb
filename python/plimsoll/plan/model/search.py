"""A search for the highest load at which goals hold, as the plan stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

RATE = "load.rate"


@dataclass(frozen=True, slots=True)
class SearchGoal:
    """`response`, `errors`: rules as written; empty: no such rule. `width`: largest relative distance of the bounds."""

    name: str
    response: str
    errors: str
    width: float


@dataclass(frozen=True, slots=True)
class Search:
    """Loads in starts per second, testers, or testers per host, by `axis`. `overhead_s`: expected start, drain, warm-up
    and pause of a trial."""

    axis: str
    low: float
    high: float
    goals: tuple[SearchGoal, ...]
    initial_s: float
    final_s: float
    sum_s: float
    exceed: float
    repeat: int
    max_time_s: float
    hysteresis: bool
    confirm: int
    overhead_s: float

    @property
    def is_whole(self) -> bool:
        """Whether loads are whole numbers."""
        return self.axis != RATE

    @staticmethod
    def from_json(record: dict[str, Any]) -> Search:
        """The search of plan.json. Raises KeyError or TypeError if it has another form."""
        return Search(**{**record, "goals": tuple(SearchGoal(**goal) for goal in record["goals"])})
