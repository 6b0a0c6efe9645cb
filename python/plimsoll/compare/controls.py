"""What a comparison measures beside its subject: equal systems, the order of the runs of a pair, and metrics that the
change cannot affect.

The control (A/A) compares the old level with itself, in the same blocks and by the same method. Its interval is what
the experiment takes for a difference although there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from plimsoll.compare.estimates import Effect, effect, ordered_differences, sample_variance
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Comparison, Control, Drift, Limits, Method, OrderEffect, Sample

LEVEL: Final = 0.95
MIN_OF_ORDER: Final = 2
"""Pairs of each order that an order effect needs."""


def control_of(sample: Sample) -> Control | None:
    """The ratio of two equal systems; None without control, or if it has no interval."""
    found = None if sample.control is None else effect(sample.control)
    if not isinstance(found, Effect):
        return None
    return Control(_shown(sample, found.value), _limits(sample, found), found.pairs)


def is_within_control(sample: Sample, found: Effect) -> bool:
    """Whether an effect is at most as large as the end of the control's 95 % interval that is farther from "equal":
    which of the two equal systems is the old one is arbitrary. False without such an interval."""
    control = None if sample.control is None else effect(sample.control)
    return isinstance(control, Effect) and abs(found.value) <= max(map(abs, control.ends(LEVEL)))


def is_control_different(comparison: Comparison) -> bool:
    """Whether the interval of two equal systems lies beyond the margin."""
    if comparison.control is None:
        return False
    limits, margin = comparison.control.interval, comparison.margin
    if comparison.scale is Scale.RATIO:
        return limits.low > 1 + margin or limits.high < 1 / (1 + margin)
    return limits.low > margin or limits.high < -margin


def order_effect(sample: Sample) -> OrderEffect | None:
    """The later run of a pair against the earlier one. In pairs with the old run first, the difference new - old is
    d + w, in the others d - w; w is half the difference of both means, with a pooled variance, as the period effect of
    a crossover design (M. Hills, P. Armitage, Brit. J. Clin. Pharmacol. 8 (1979) 7). None with fewer than two pairs of
    an order, and if all pairs of an order are equal."""
    if not isinstance(effect(sample), Effect):
        return None
    pairs = ordered_differences(sample)
    first, second = ([value for value, is_first in pairs if is_first is side] for side in (True, False))
    if min(len(first), len(second)) < MIN_OF_ORDER:
        return None
    df = len(pairs) - 2
    pooled = ((len(first) - 1) * sample_variance(first) + (len(second) - 1) * sample_variance(second)) / df
    if pooled == 0:
        return None
    error = math.sqrt(pooled * (1 / len(first) + 1 / len(second))) / 2
    found = Effect((fmean(first) - fmean(second)) / 2, error, df, Method.PAIRED, len(pairs))
    return OrderEffect(_shown(sample, found.value), _limits(sample, found))


def drifts(generator: Sequence[Sample], named: Sequence[Sample], margin: float) -> list[Drift]:
    """Whether metrics of one cell that the change cannot affect moved. `generator`: both costs of the load generator,
    which moved only if both did, in the same direction (GENERATOR in metrics.py)."""
    costs = [_drift(sample, margin) for sample in generator]
    is_common = all(cost.has_moved for cost in costs) and len({_is_higher(cost) for cost in costs}) == 1
    return [
        *(replace(cost, has_moved=is_common) for cost in costs),
        *(_drift(sample, margin) for sample in named),
    ]


def _is_higher(drift: Drift) -> bool:
    return drift.estimate is not None and drift.estimate > 1


def _drift(sample: Sample, margin: float) -> Drift:
    """Moved: by more than the margin, with an interval without "equal"."""
    found = effect(sample)
    if not isinstance(found, Effect):
        return Drift(sample.metric.metric, sample.cell, None, None, margin, has_moved=False)
    low, high = found.ends(LEVEL)
    return Drift(
        sample.metric.metric,
        sample.cell,
        _shown(sample, found.value),
        _limits(sample, found),
        margin,
        has_moved=abs(found.value) > math.log1p(margin) and not low <= 0 <= high,
    )


def moved_cells(drifts: Sequence[Drift]) -> set[tuple[tuple[str, str], ...]]:
    """The cells in which a metric moved that the change cannot affect."""
    return {tuple(sorted(drift.cell.items())) for drift in drifts if drift.has_moved}


def _limits(sample: Sample, found: Effect) -> Limits:
    low, high = found.ends(LEVEL)
    return Limits(LEVEL, _shown(sample, low), _shown(sample, high))


def _shown(sample: Sample, value: float) -> float:
    return math.exp(value) if sample.metric.scale is Scale.RATIO else value
