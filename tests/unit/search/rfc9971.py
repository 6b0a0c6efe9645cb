"""Load classification and conditional throughput as RFC 9971 lists them, for comparison.

The bodies of `classified_as_lower` and `conditional_throughput` are the code components "Load Classification Code" and
"Conditional Throughput Code" of M. Konstantynowicz, V. Polak, Multiple Loss Ratio Search, RFC 9971.

Copyright (c) 2026 IETF Trust and the persons identified as authors of the code. All rights reserved. Redistribution
and use in source and binary forms, with or without modification, is permitted pursuant to, and subject to the
license terms contained in, the Revised BSD License set forth in Section 4.c of the IETF Trust's Legal Provisions
Relating to IETF Documents (https://trustee.ietf.org/license-info).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ReferenceTrial:
    duration: float
    loss_ratio: float
    effect_duration: float


@dataclass(frozen=True)
class ReferenceGoal:
    final: float
    duration_sum: float
    loss: float
    exceed: float


def sums(trials: Sequence[ReferenceTrial], goal: ReferenceGoal) -> tuple[float, float, float, float]:
    """Full-length low-loss, full-length high-loss, short low-loss, short high-loss."""

    def total(full: bool, high: bool) -> float:
        chosen = (
            t for t in trials if (t.duration >= goal.final) is full and (t.loss_ratio > goal.loss) is high
        )
        return sum(t.effect_duration for t in chosen)

    return total(True, False), total(True, True), total(False, False), total(False, True)


def classified_as_lower(trials: Sequence[ReferenceTrial], goal: ReferenceGoal) -> tuple[bool, bool]:
    """Whether the load is a lower bound, for the best and the worst of the missing trials."""
    goal_duration_s, goal_exceed_ratio = goal.duration_sum, goal.exceed
    full_length_low_loss_s, full_length_high_loss_s, short_low_loss_s, short_high_loss_s = sums(trials, goal)
    exceed_coefficient = goal_exceed_ratio / (1.0 - goal_exceed_ratio)
    balancing_s = short_low_loss_s * exceed_coefficient
    positive_excess_s = max(0.0, short_high_loss_s - balancing_s)
    effect_high_loss_s = full_length_high_loss_s + positive_excess_s
    effect_full_length_s = full_length_low_loss_s + effect_high_loss_s
    effect_whole_s = max(effect_full_length_s, goal_duration_s)
    quantile_duration_s = effect_whole_s * goal_exceed_ratio
    pessimistic_high_loss_s = effect_whole_s - full_length_low_loss_s
    pessimistic_is_lower = pessimistic_high_loss_s <= quantile_duration_s
    optimistic_is_lower = effect_high_loss_s <= quantile_duration_s
    return optimistic_is_lower, pessimistic_is_lower


def conditional_throughput(
    intended_load: float, trials: Sequence[ReferenceTrial], goal: ReferenceGoal
) -> float:
    goal_duration_s, goal_exceed_ratio = goal.duration_sum, goal.exceed
    full_length_low_loss_s, full_length_high_loss_s, _, _ = sums(trials, goal)
    full_length_trials = sorted(
        (trial for trial in trials if trial.duration >= goal.final), key=lambda trial: trial.loss_ratio
    )
    full_length_s = full_length_low_loss_s + full_length_high_loss_s
    whole_s = max(goal_duration_s, full_length_s)
    remaining = whole_s * (1.0 - goal_exceed_ratio)
    quantile_loss_ratio = None
    for trial in full_length_trials:
        if quantile_loss_ratio is None or remaining > 0.0:
            quantile_loss_ratio = trial.loss_ratio
            remaining -= trial.effect_duration
        else:
            break
    else:
        if remaining > 0.0:
            quantile_loss_ratio = 1.0
    assert quantile_loss_ratio is not None
    return intended_load * (1.0 - quantile_loss_ratio)
