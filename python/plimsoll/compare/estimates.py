"""The effect of one metric in one cell: the mean logarithm of the ratio new / old, or the mean difference.

The run is the unit. If both sides were measured in the same blocks, the pairs of each block are compared: t on their
differences, one degree of freedom fewer than pairs. Otherwise B. Welch (Biometrika 34 (1947) 28) with the degrees of
freedom of Satterthwaite (Biometrics Bulletin 2 (1946) 110). A bootstrap over so few pairs covers too seldom (.84 to .90
for 6 and 10 pairs), so there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from plimsoll.analyse.stats.distributions import t_quantile, t_tail
from plimsoll.compare.metrics import Scale
from plimsoll.compare.model import Method, Reason, RunValue, Sample


@dataclass(frozen=True, slots=True)
class Effect:
    """`value`: mean of the logarithm of the ratio, or of the difference, with its standard error and degrees of
    freedom. `pairs`: 0 without blocks."""

    value: float
    error: float
    df: float
    method: Method
    pairs: int = 0

    def ends(self, level: float) -> tuple[float, float]:
        """The two-sided t interval."""
        half = t_quantile(0.5 + level / 2, self.df) * self.error if self.error else 0.0
        return self.value - half, self.value + half

    def p_beyond(self, margin: float) -> float:
        """Two-sided p-value of the hypothesis that the truth is from -`margin` to `margin`: twice the tail of the
        nearer one of the two one-sided tests."""
        beyond = abs(self.value) - margin
        if not self.error:
            return 0.0 if beyond > 0 else 1.0
        return min(1.0, 2 * t_tail(beyond / self.error, self.df))


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Why there is no interval. `value`: the effect of the known values; None: there is none."""

    reason: Reason
    value: float | None = None


def effect(sample: Sample) -> Effect | NoEffect:
    """The effect with its error, or the reason why it has none."""
    sides = [[run.value for run in side if run.value is not None] for side in (sample.old, sample.new)]
    is_ratio = sample.metric.scale is Scale.RATIO
    if is_ratio and any(value <= 0 for side in sides for value in side):
        return NoEffect(Reason.NOT_POSITIVE)
    old, new = ([math.log(value) for value in side] if is_ratio else side for side in sides)
    value = fmean(new) - fmean(old) if old and new else None
    if len(old) < len(sample.old) or len(new) < len(sample.new):
        # The other runs differ from those without a value, so their mean is not that of the side.
        return NoEffect(Reason.UNKNOWN, value)
    found = _paired(sample) or _welch(old, new)
    if found is None:
        return NoEffect(Reason.ONE_RUN, value)
    return found if is_ratio else _with_binomial_error(found, sample)


def pair_differences(sample: Sample) -> list[float]:
    """The differences new - old within the blocks that both sides have, in the order of the old runs, on the scale of
    the comparison. Empty without two such blocks."""
    if not sample.same_blocks:
        return []
    is_ratio = sample.metric.scale is Scale.RATIO
    old, new = (_by_block(side, is_ratio) for side in (sample.old, sample.new))
    differences = [new[block] - old[block] for block in old if block in new]
    return differences if len(differences) > 1 else []


def ordered_differences(sample: Sample) -> list[tuple[float, bool]]:
    """As `pair_differences`, each with whether the old run came first; empty unless each run is in a block of its
    own on its side."""
    found = pair_differences(sample)
    old, new = ({run.block: run.order for run in side} for side in (sample.old, sample.new))
    if not found or len(old) < len(sample.old) or len(new) < len(sample.new):
        return []
    blocks = [run.block for run in sorted(sample.old, key=lambda run: run.order) if run.block in new]
    return [(value, old[block] < new[block]) for value, block in zip(found, blocks, strict=True)]


def _paired(sample: Sample) -> Effect | None:
    """From the blocks of both sides; None if there are fewer than two."""
    differences = pair_differences(sample)
    n = len(differences)
    if n < 2:
        return None
    return Effect(fmean(differences), math.sqrt(sample_variance(differences) / n), n - 1, Method.PAIRED, n)


def _by_block(side: Sequence[RunValue], is_ratio: bool) -> Mapping[str, float]:
    """The mean of each block, on the scale of the comparison."""
    values: dict[str, list[float]] = {}
    for run in sorted(side, key=lambda run: (run.sequence, run.order)):
        if run.block is not None and run.value is not None:
            values.setdefault(run.block, []).append(math.log(run.value) if is_ratio else run.value)
    return {block: fmean(of_block) for block, of_block in values.items()}


def _welch(old: Sequence[float], new: Sequence[float]) -> Effect | None:
    """From independent runs; None if a side has fewer than two."""
    if len(old) < 2 or len(new) < 2:
        return None
    a, b = sample_variance(old) / len(old), sample_variance(new) / len(new)
    below = a * a / (len(old) - 1) + b * b / (len(new) - 1)
    df = (a + b) ** 2 / below if below > 0 else len(old) + len(new) - 2.0
    return Effect(fmean(new) - fmean(old), math.sqrt(a + b), df, Method.WELCH)


def _with_binomial_error(found: Effect, sample: Sample) -> Effect:
    """The effect with at least the error of shares of independent transactions, one success and one failure added to
    each side (A. Agresti, B. Caffo, American Statistician 54 (2000) 280). Otherwise a few runs without an error would
    prove that there is none."""
    square = 0.0
    for side in (sample.old, sample.new):
        known = [(run.value, run.trials) for run in side if run.value is not None and run.trials]
        if not known:
            return found
        trials = math.fsum(n for _, n in known) + 2
        share = (math.fsum(value * n for value, n in known) + 1) / trials
        square += share * (1 - share) / trials
    return Effect(found.value, max(found.error, math.sqrt(square)), found.df, found.method, found.pairs)


def sample_variance(values: Sequence[float]) -> float:
    """Variance of a sample of at least two values."""
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
