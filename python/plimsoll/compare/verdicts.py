"""The verdicts of all comparisons together.

Slower or faster: the interval lies beyond the margin, at the level of Holm's correction over all metrics and cells
(S. Holm, Scand. J. Statist. 6 (1979) 65), so that at most 5 % of the comparisons of equal systems contain any false
"slower" or "faster". Same: the 90 % interval lies within the margin, two one-sided tests at 5 % (D. Schuirmann, J.
Pharmacokin. Biopharm. 15 (1987) 657). A p-value alone decides nothing: all hypotheses are about the margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final

from plimsoll.analyse.stats.distributions import normal_quantile, t_quantile
from plimsoll.analyse.stats.multiplicity import holm
from plimsoll.compare.bootstrap import resampled
from plimsoll.compare.controls import control_of, is_within_control, moved_cells, order_effect
from plimsoll.compare.estimates import Effect, NoEffect, effect
from plimsoll.compare.metrics import DEFAULT_MARGIN, Better, Scale
from plimsoll.compare.model import Comparison, Drift, Limits, Method, Reason, RunValue, Sample, Verdict
from plimsoll.compare.modes import without_modes

LEVEL: Final = 0.95
INNER_LEVEL: Final = 0.90
MAX_RUNS_NEEDED: Final = 1000
FEW_RUNS: Final = 6
"""Fewer runs of a side are pointed out."""


def compare(
    samples: Sequence[Sample], margin: float = DEFAULT_MARGIN, drifts: Sequence[Drift] = ()
) -> tuple[Comparison, ...]:
    """A comparison for each sample that has a value, in their order. `margin`: of all ratios; `drifts`: of the metrics
    that the change cannot affect. "Slower" and "faster" become undecided in a cell in which one of these moved, or if
    equal systems differ by as much."""
    samples = [sample for sample in samples if _has_values(sample.old) or _has_values(sample.new)]
    margins = [margin_of(sample, margin) for sample in samples]
    limits = [margin_on_scale(sample, margin) for sample in samples]
    effects = [
        without_modes(resampled(effect(sample), sample), sample, limit)
        for sample, limit in zip(samples, limits, strict=True)
    ]
    p_values = [
        found.p_beyond(limit) if isinstance(found, Effect) else None
        for found, limit in zip(effects, limits, strict=True)
    ]
    adjusted, levels = holm(p_values), corrected_levels(p_values)
    moved = moved_cells(drifts)
    return tuple(
        _comparison(*row, has_drift=tuple(sorted(row[0].cell.items())) in moved)
        for row in zip(samples, effects, margins, adjusted, levels, strict=True)
    )


def corrected_levels(p_values: Sequence[float | None]) -> list[float]:
    """The level of the interval of each comparison after Holm's correction: with m hypotheses that are not yet
    rejected, 1 - 0.05 / m. All that are not rejected have the level of the first of them."""
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None)
    levels, left, is_open = [LEVEL] * len(p_values), len(known), True
    for p, at in known:
        levels[at] = 1 - (1 - LEVEL) / left
        is_open = is_open and p <= (1 - LEVEL) / left
        left -= is_open
    return levels


def _has_values(side: Iterable[RunValue]) -> bool:
    return any(run.value is not None for run in side)


def margin_of(sample: Sample, margin: float) -> float:
    """The margin of the metric, or that of the comparison."""
    return margin if sample.metric.margin is None else sample.metric.margin


def margin_on_scale(sample: Sample, margin: float) -> float:
    """The margin of a sample on the scale of the effect: a ratio is within it from 1 / (1 + margin) to 1 + margin.
    `margin`: of the comparison."""
    own = margin_of(sample, margin)
    return math.log1p(own) if sample.metric.scale is Scale.RATIO else own


def _comparison(
    sample: Sample,
    found: Effect | NoEffect,
    margin: float,
    adjusted_p: float | None,
    level: float,
    *,
    has_drift: bool,
) -> Comparison:
    is_ratio = sample.metric.scale is Scale.RATIO

    def shown(value: float) -> float:
        return math.exp(value) if is_ratio else value

    def limits(level: float) -> Limits | None:
        if isinstance(found, NoEffect):
            return None
        low, high = found.ends(level)
        return Limits(level, shown(low), shown(high))

    reason = found.reason if isinstance(found, NoEffect) else None
    verdict, needed = Verdict.UNDECIDED, None
    if isinstance(found, Effect):
        limit = margin_on_scale(sample, margin)
        verdict = _verdict(found, limit, sample.metric.better, level)
        if verdict is Verdict.UNDECIDED:
            runs = found.pairs or (len(sample.old) + len(sample.new)) / 2
            reason, needed = Reason.WIDE, runs_needed(found, limit, runs)
        elif verdict is not Verdict.SAME and (has_drift or is_within_control(sample, found)):
            verdict, reason = Verdict.UNDECIDED, Reason.DRIFT if has_drift else Reason.CONTROL
    return Comparison(
        metric=sample.metric.metric,
        cell=sample.cell,
        better=sample.metric.better,
        scale=sample.metric.scale,
        old=_mean(sample.old, is_ratio),
        new=_mean(sample.new, is_ratio),
        old_runs=len(sample.old),
        new_runs=len(sample.new),
        pairs=0 if isinstance(found, NoEffect) else found.pairs,
        method=Method.NONE if isinstance(found, NoEffect) else found.method,
        estimate=None if found.value is None else shown(found.value),
        interval=limits(LEVEL),
        corrected=limits(level),
        inner=limits(INNER_LEVEL),
        margin=margin,
        adjusted_p=adjusted_p,
        verdict=verdict,
        reason=reason,
        runs_needed=needed,
        control=control_of(sample),
        order=order_effect(sample),
    )


def runs_needed(found: Effect, margin: float, runs: float) -> int | None:
    """The smallest number of runs of each side with which equal systems are found to be the same with a probability of
    80 %, if the runs scatter as these do: (t(0.95; df) + t(0.90; df)) s / sqrt(n) is at most the margin. `runs`: those
    of a side. None: more than MAX_RUNS_NEEDED."""
    sides = 1 if found.pairs else 2
    # t quantiles are greater than those of the normal distribution, so fewer runs are never enough.
    least = ((normal_quantile(0.95) + normal_quantile(0.90)) * found.error / margin) ** 2 * runs
    for n in range(max(2, math.ceil(min(least, MAX_RUNS_NEEDED + 1))), MAX_RUNS_NEEDED + 1):
        df = sides * (n - 1)
        width = (t_quantile(0.95, df) + t_quantile(0.90, df)) * found.error * math.sqrt(runs / n)
        if width <= margin:
            return max(n, math.ceil(runs) + 1)
    return None


def _verdict(found: Effect, margin: float, better: Better, level: float) -> Verdict:
    low, high = found.ends(level)
    if low > margin or high < -margin:
        is_higher = low > margin
        return Verdict.FASTER if is_higher == (better is Better.HIGHER) else Verdict.SLOWER
    low, high = found.ends(INNER_LEVEL)
    return Verdict.SAME if -margin < low and high < margin else Verdict.UNDECIDED


def _mean(side: Sequence[RunValue], is_ratio: bool) -> float | None:
    values = [run.value for run in side if run.value is not None]
    if not values or (is_ratio and min(values) <= 0):
        return fmean(values) if values else None
    return math.exp(fmean(map(math.log, values))) if is_ratio else fmean(values)
