"""The class of a load, the relevant bounds and the conditional throughput: RFC 9971, "Load Classification Code",
"Conditional Throughput Code" and "Result Terms". Sums are seconds of trials at one load, for one goal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from plimsoll.search.goals import Target
from plimsoll.search.trials import TrialResult


class LoadClass(StrEnum):
    LOWER = "lower"
    UPPER = "upper"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Sums:
    """Seconds of trials at one load: of full length or shorter, with high loss or without."""

    full_low: float = 0.0
    full_high: float = 0.0
    short_low: float = 0.0
    short_high: float = 0.0

    @staticmethod
    def of(trials: Iterable[TrialResult], goal: str, full_seconds: float) -> Sums:
        """Sums over the trials of one load that count for the goal. `full_seconds`: length from which a trial has full
        length."""
        full_low = full_high = short_low = short_high = 0.0
        for trial in trials:
            outcome = trial.outcomes.get(goal)
            if outcome is None:
                continue
            if trial.seconds >= full_seconds:
                full_low, full_high = _added(full_low, full_high, trial.effective, outcome.high_loss)
            else:
                short_low, short_high = _added(short_low, short_high, trial.effective, outcome.high_loss)
        return Sums(full_low, full_high, short_low, short_high)


def _added(low: float, high: float, seconds: float, is_high: bool) -> tuple[float, float]:
    return (low, high + seconds) if is_high else (low + seconds, high)


def classify(sums: Sums, target: Target) -> LoadClass:
    """Upper bound: fails whatever the missing seconds contain. Lower bound: holds whatever they contain.

    Short trials with low loss only balance short trials with high loss: a load is never a lower bound by short trials.
    """
    balance = sums.short_low * (target.exceed / (1 - target.exceed))
    high = sums.full_high + max(0.0, sums.short_high - balance)
    whole = max(sums.full_low + high, target.sum_seconds)
    allowed = whole * target.exceed
    if high > allowed:
        return LoadClass.UPPER
    return LoadClass.LOWER if whole - sums.full_low <= allowed else LoadClass.UNDECIDED


@dataclass(frozen=True, slots=True)
class Bounds:
    """Relevant bounds: the lowest upper bound, and the highest lower bound below it. None: there is none. Without an
    upper bound, `lower` is the highest lower bound (RFC 9971 calls it effective)."""

    lower: float | None
    upper: float | None


def relevant_bounds(classes: Mapping[float, LoadClass]) -> Bounds:
    """Bounds from the classes of the loads. An upper bound below a lower one is believed (loss inversion)."""
    upper = min((load for load, found in classes.items() if found is LoadClass.UPPER), default=None)
    holding = (load for load, found in classes.items() if found is LoadClass.LOWER)
    return Bounds(max((load for load in holding if upper is None or load < upper), default=None), upper)


def conditional_throughput(
    load: float, trials: Sequence[TrialResult], goal: str, target: Target
) -> float | None:
    """The load times 1 - loss at the quantile 1 - exceed of the full-length trial seconds; seconds that are missing
    to the sum of the goal count as total loss. None if no trial at this load counts for the goal."""
    valid = [trial for trial in trials if trial.counts_for(goal)]
    if not valid:
        return None
    full = [trial for trial in valid if trial.seconds >= target.seconds]
    whole = max(target.sum_seconds, sum(trial.effective for trial in full))
    remaining = whole * (1 - target.exceed)
    loss: float | None = None
    for trial in sorted(full, key=lambda trial: trial.outcomes[goal].loss_ratio):
        if loss is not None and remaining <= 0:
            break
        loss = trial.outcomes[goal].loss_ratio
        remaining -= trial.effective
    else:
        loss = 1.0 if loss is None or remaining > 0 else loss
    return load * (1 - loss)
