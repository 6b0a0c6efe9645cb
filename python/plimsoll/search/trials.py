"""A trial to make, and the result of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """Why the search makes a trial. Stored with each trial."""

    WARM_UP = "warm-up"
    START = "start"
    EXTEND_UP = "extend-up"
    EXTEND_DOWN = "extend-down"
    HALVE = "halve"
    REFINE_LOWER = "refine-lower"
    REFINE_UPPER = "refine-upper"
    BISECT = "bisect"
    EVIDENCE = "evidence"
    REPEAT_INVALID = "repeat-invalid"
    FROM_ABOVE = "from-above"
    CONFIRM = "confirm"


class Invalid(StrEnum):
    """Why a trial says nothing about the service. Such a trial is never a loss. After each reason but the first, it is
    made again."""

    GENERATOR = "generator"
    """The load generator was the limit."""
    GAPS = "gaps"
    """The host stopped the load generator for a time, in which nothing was sent."""
    LOST_DATA = "lost-data"
    """Transactions are missing in the record, or an agent was lost."""
    NOT_FINISHED = "not-finished"
    """The run ended early, or has no measured window."""
    OTHER = "other"

    @property
    def text(self) -> str:
        """What happened, as a clause."""
        return _TEXTS[self]


_TEXTS = {
    Invalid.GENERATOR: "the load generator was the limit",
    Invalid.GAPS: "the host stopped the load generator for a time",
    Invalid.LOST_DATA: "transactions are missing in its record",
    Invalid.NOT_FINISHED: "the run ended early",
    Invalid.OTHER: "no transaction was measured",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial to make. `search`: the number of the search that asks for it, from 0; `goal`: the goal that needs it,
    empty if all do. `reason` completes "this trial is made because ..."."""

    load: float
    seconds: float
    rule: Rule
    reason: str
    goal: str = ""
    search: int = 0


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """A trial for one goal. `high_loss`: some rule was exceeded. `loss_ratio`: share of the planned starts that
    failed, were dropped or took too long, 0 to 1."""

    high_loss: bool
    loss_ratio: float


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a trial measured.

    `seconds`: length of the trial as planned; it decides whether the trial has the full length of a goal.
    `effective_seconds`: what the trial counts in the sums of RFC 9971 (Trial Effective Duration); None: `seconds`.
    `spent_seconds`: wall time with start, drain, rest and bookkeeping; None: `seconds`.
    `outcomes`: by name of the goal; a valid trial has one for each goal. An invalid one has only those of goals that it
    met all the same: the delay of the generator is contained in its loss, which is therefore an upper limit.
    `starts`: planned starts; None: not known. `rule` and `search` are those of the `Trial`.
    """

    load: float
    seconds: float
    outcomes: Mapping[str, GoalOutcome]
    rule: Rule
    search: int = 0
    effective_seconds: float | None = None
    spent_seconds: float | None = None
    starts: int | None = None
    invalid: Invalid | None = None

    def counts_for(self, goal: str) -> bool:
        """Whether the trial says something about the goal."""
        return goal in self.outcomes

    @property
    def effective(self) -> float:
        return self.seconds if self.effective_seconds is None else self.effective_seconds

    @property
    def spent(self) -> float:
        return self.seconds if self.spent_seconds is None else self.spent_seconds


def charged(results: Iterable[TrialResult], least: float) -> float:
    """Seconds that the time limit counts. A trial counts at least `least` seconds, also if a ceiling cut it or its run
    failed at once, so the limit bounds the number of trials."""
    return sum(max(result.spent, least) for result in results)
