"""What a search found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.search.classify import Bounds
from plimsoll.search.evidence import Interval


class Ending(StrEnum):
    """Why the search for a goal ended."""

    BRACKET = "bracket"
    """Both bounds were found, and the bracket is at most twice as wide as asked for."""
    LOWEST_FAILS = "lowest-fails"
    """The lowest load already fails."""
    HIGHEST_HOLDS = "highest-holds"
    """At least X: the highest load still holds."""
    GENERATOR = "generator"
    """At least X: at higher loads the load generator was the limit."""
    TIME = "time"
    """The time was used up. The bracket is wider than twice the width asked for, or open."""
    INVALID = "invalid"
    """Trials were invalid repeatedly, for another reason than the generator."""

    @property
    def is_final(self) -> bool:
        """Another search would end in the same way."""
        return self not in (Ending.BRACKET, Ending.TIME)


@dataclass(frozen=True, slots=True)
class BoundEvidence:
    """One end of a bracket. `high` of `trials` full-length trials at this load had high loss. `own`: Beta interval of
    the exceed probability from these trials. `curve`: the same from the trials of all loads; None: no curve."""

    load: float
    high: int
    trials: int
    own: Interval
    curve: Interval | None


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """The answer of one search for one goal.

    `bounds`: relevant bounds of RFC 9971. `lower`, `upper`: the ends of the reported bracket; None where the search
    found no end. `estimate`: the load sought, the median of its posterior. `throughput`: conditional throughput at the
    relevant lower bound. `inflation` above 1: trials depended on their predecessors.
    """

    goal: str
    ending: Ending
    bounds: Bounds
    lower: BoundEvidence | None
    upper: BoundEvidence | None
    estimate: float | None
    throughput: float | None
    inflation: float

    @property
    def is_regular(self) -> bool:
        return self.ending is Ending.BRACKET

    @property
    def width(self) -> float | None:
        """Relative width of the reported bracket, (upper - lower) / upper."""
        if self.lower is None or self.upper is None:
            return None
        return 1 - self.lower.load / self.upper.load


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one search, by goal in the order of the goals. `spent_seconds`: of all its trials, with
    overheads."""

    goals: tuple[GoalVerdict, ...]
    trials: int
    spent_seconds: float

    def __getitem__(self, goal: str) -> GoalVerdict:
        return next(found for found in self.goals if found.goal == goal)
