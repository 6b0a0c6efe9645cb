"""Whether a trial exceeds the rules of a goal, from the counts of its planned starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plimsoll.plan.metrics.rules import Operator, Rule


@dataclass(frozen=True, slots=True)
class LossCounts:
    """`planned`: starts that the schedule has in the window; `failed`: those that failed or did not take place.
    `late`: those that succeeded, but not within a limit (seconds, with its operator)."""

    planned: int
    failed: int
    late: Mapping[tuple[float, Operator], int]


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
