"""Whether a trial exceeds the rules of a goal, from the counts of its planned starts, and whether it counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.results.verdicts import RunReason
from plimsoll.plan.metrics.rules import Operator, Rule
from plimsoll.search.trials import Invalid

_DELAYS: Final = frozenset({RunReason.TESTER_CPU, RunReason.LATENESS, RunReason.GAPS})
"""Reasons of an invalid run that only state that the load generator was late."""
_REASONS: Final[Mapping[Invalid, AbstractSet[RunReason]]] = {
    Invalid.NOT_FINISHED: {RunReason.NOT_FINISHED},
    Invalid.LOST_DATA: {
        RunReason.DAMAGED,
        RunReason.LOST_RECORDS,
        RunReason.UNKNOWN_LOAD,
        RunReason.LOST_AGENTS,
    },
    Invalid.GENERATOR: {RunReason.TESTER_CPU, RunReason.LATENESS},
    Invalid.GAPS: {RunReason.GAPS},
}
"""In the order in which they apply: what remains of a damaged record says nothing about the load generator. Too few
starts (`STARTED`) have one of these reasons, too."""


@dataclass(frozen=True, slots=True)
class LossCounts:
    """`planned`: starts that the schedule has in the window; `failed`: those that failed or did not take place.
    `late`: those that succeeded, but not within a limit (seconds, with its operator). `made`: those that were made
    within the window."""

    planned: int
    failed: int
    late: Mapping[tuple[float, Operator], int]
    made: int


@dataclass(frozen=True, slots=True)
class Loss:
    """`loss_ratio`: share of the planned starts that failed, did not take place, or took longer than the limit."""

    high_loss: bool
    loss_ratio: float


def outcome_of(
    counts: LossCounts, response: Rule | None, quantile: float | None, errors: Rule | None
) -> Loss:
    """The trial has high loss if a rule is exceeded. A failure counts as longer than any limit, so a rule on quantile q
    is exceeded if more than 1 - q of the planned starts failed or were late. `planned` is at least 1."""
    failed = counts.failed / counts.planned
    high = errors is not None and not errors.holds(failed)
    if response is None or quantile is None:
        return Loss(high, failed)
    over = counts.failed + counts.late[response.value, response.op]
    # Counted, not divided: 1 - 0.99 is not 0.01 in binary.
    exceeded = over > round((1 - quantile) * counts.planned, 6)
    return Loss(high or exceeded, over / counts.planned)


def invalid_by(against: AbstractSet[RunReason]) -> Invalid | None:
    """Why a run with these reasons says nothing about the service. None: there are no reasons."""
    found = (invalid for invalid, codes in _REASONS.items() if codes & against)
    return next(found, Invalid.OTHER if against else None)


def loss_is_upper_limit(against: AbstractSet[RunReason], counts: LossCounts, started: float) -> bool:
    """Whether the service had at most the measured loss: the load generator was only late, and it made at least the
    share `started` of the planned starts within the window. Response times begin at the planned starts, so its delay is
    contained in the loss."""
    return against <= _DELAYS and counts.made >= started * counts.planned
