"""Effects if a factor is looped: comparisons by pass.

With `design.loop` the runs of a pass follow each other: the same combination of the other factors, often on the same
instance of a service, and close in time. The differences between them do not contain their common effect, so they are
no replicates for the other factors. The other factors are compared by the means of the passes, one value per pass. The
looped factors and their interactions are compared within passes (the two strata of a split-plot design; D. Montgomery,
Design and Analysis of Experiments, 14.4).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plimsoll.analyse.effects.effects import Factorial, Scale, TermEffect, UnsuitableData, factorial
from plimsoll.analyse.results.verdicts import ModelReason, Reason, Severity, Value
from plimsoll.analyse.stats.multiplicity import holm

Labels = Mapping[str, Sequence[str | None]]


@dataclass(frozen=True, slots=True)
class Loop:
    """`looped`: the factors of `design.loop` that were varied. `passes`: the label of the pass of each run."""

    looped: Collection[str]
    passes: Sequence[str]


def by_pass(
    fit: Factorial,
    responses: Sequence[float],
    factors: Labels,
    loop: Loop,
    *,
    levels: Mapping[str, Sequence[str]],
    block: Sequence[str] | None,
    scale: Scale,
) -> Factorial:
    """The fit with each term from its own stratum. Terms that no stratum can test keep their effects, without
    intervals. Shares of the variation are those of the original fit."""
    outer = {name: labels for name, labels in factors.items() if name not in loop.looped}
    between = _between(responses, outer, loop, levels, block, scale)
    within = _fit_or_none(responses, factors, levels, loop.passes, scale)
    terms = [_term_of_stratum(term, within if _is_looped(term, loop) else between) for term in fit.terms]
    adjusted = holm([term.p_value for term in terms])
    terms = [replace(term, adjusted_p=p) for term, p in zip(terms, adjusted, strict=True)]
    fit_by_pass = replace(fit, terms=tuple(terms), differences=())
    if not any(len({label for label in labels if label is not None}) > 1 for labels in outer.values()):
        return fit_by_pass
    figures: dict[str, Value] = {
        "df": between.error_df if between is not None else 0,
        "looped": tuple(sorted(loop.looped)),
    }
    return replace(fit_by_pass, reasons=(*fit.reasons, Reason(ModelReason.BY_PASS, Severity.NOTE, figures)))


def _is_looped(term: TermEffect, loop: Loop) -> bool:
    return any(name in loop.looped for part in term.parts for name in part.factors)


def _term_of_stratum(term: TermEffect, stratum: Factorial | None) -> TermEffect:
    same = (
        next((stratum_term for stratum_term in stratum.terms if stratum_term.name == term.name), None)
        if stratum
        else None
    )
    if same is not None:
        return replace(same, percent=term.percent, sum_of_squares=term.sum_of_squares)
    bare = tuple(replace(level, interval=None) for level in term.levels)
    return replace(term, f=None, p_value=None, coefficient_interval=None, levels=bare)


def _between(
    responses: Sequence[float],
    outer: Labels,
    loop: Loop,
    levels: Mapping[str, Sequence[str]],
    block: Sequence[str] | None,
    scale: Scale,
) -> Factorial | None:
    """The fit of the means of the passes with as many runs as the longest one; None if the data are unsuitable."""
    whole = complete_passes(loop.passes)
    means = [_mean([responses[at] for at in members], scale) for members in whole]
    labels = {name: [factor_labels[members[0]] for members in whole] for name, factor_labels in outer.items()}
    return _fit_or_none(
        means, labels, levels, None if block is None else [block[members[0]] for members in whole], scale
    )


def complete_passes(passes: Sequence[str]) -> list[list[int]]:
    """The positions of the runs of each pass that has as many runs as the longest one."""
    runs: dict[str, list[int]] = {}
    for at, name in enumerate(passes):
        runs.setdefault(name, []).append(at)
    longest = max(map(len, runs.values()), default=0)
    return [members for members in runs.values() if len(members) == longest]


def _mean(values: Sequence[float], scale: Scale) -> float:
    return math.exp(float(np.mean(np.log(values)))) if scale == "log" else float(np.mean(values))


def _fit_or_none(
    responses: Sequence[float],
    factors: Labels,
    levels: Mapping[str, Sequence[str]],
    block: Sequence[str] | None,
    scale: Scale,
) -> Factorial | None:
    try:
        # A pass is incomplete by accident, so the levels of the remaining passes have equal weights.
        return factorial(responses, factors, block=block, scale=scale, levels=levels, equal_weights=True)
    except UnsuitableData:
        return None
