"""The capacity that a search found as a response: effects of the factors, ratios of their levels, and means.

The complete search is the unit: its estimate for a goal, on the logarithm. The searches with one number form a block,
since all cells are searched once before the next one begins. A cell in which a search ended without a bracket for a
reason that another search would repeat (the lowest load fails, the highest holds, the generator was the limit) is left
out: its capacity is outside the range, and the mean of the other searches would be biased.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.effects.effects import Factorial, UnsuitableData
from plimsoll.analyse.effects.fits import (
    Observation,
    blocks_of,
    checked_model,
    effects_of,
    fit_observations,
)
from plimsoll.analyse.effects.regressions import regress
from plimsoll.analyse.results.analysis import Effect, Model
from plimsoll.analyse.results.load.regression import Regression
from plimsoll.analyse.results.load.search import (
    CapacityRatio,
    FoundCapacity,
    SearchCell,
    SearchResult,
    capacity_name,
)
from plimsoll.analyse.results.verdicts import LeftOutPart, LeftOutReason, Value
from plimsoll.analyse.results.wording import level_words
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.search.verdict import Ending

SCALE: Final = "log"
DETECTED: Final = 0.05
"""Adjusted p-value of an interaction below which a ratio differs between the levels of another factor."""
METHOD: Final = "within blocks, Bonferroni over the ratios of the goal"


@dataclass(frozen=True, slots=True)
class CapacityEffects:
    """What the factors do to the capacities."""

    effects: tuple[Effect, ...]
    models: tuple[Model, ...]
    regressions: tuple[Regression, ...]
    ratios: tuple[CapacityRatio, ...]
    left_out: tuple[LeftOutPart, ...]


def capacity_effects(result: SearchResult, levels: Mapping[str, Sequence[str]]) -> CapacityEffects:
    """Effects on the capacity for each goal. `levels`: labels of every factor but the load, in the order of the
    file."""
    effects: list[Effect] = []
    models: list[Model] = []
    regressions: list[Regression] = []
    ratios: list[CapacityRatio] = []
    left_out: list[LeftOutPart] = []
    for goal in result.goals if levels else ():
        name = capacity_name(result.axis, goal.name)
        left_out += _outside(result, goal.name, name)
        used = observations(result, goal.name)
        try:
            fit = fit_observations(used, levels, scale=SCALE)
        except UnsuitableData as error:
            left_out.append(_no_fit(name, str(error)))
            continue
        effects += effects_of(fit, name)
        models.append(checked_model(fit, name, used, levels))
        ratios += _ratios(goal.name, fit, list(levels))
        regressions += regress(
            [one.value for one in used],
            {factor: [one.cell.get(factor) for one in used] for factor in levels},
            response=name,
            block=blocks_of(used),
            levels=levels,
        )
    return CapacityEffects(tuple(effects), tuple(models), tuple(regressions), tuple(ratios), tuple(left_out))


def observations(result: SearchResult, goal: str) -> list[Observation]:
    """The estimate of every complete search that has one, without the cells whose capacity is outside the range."""
    return [
        one
        for cell, found in _found(result, goal)
        if not ended_outside(found)
        for one in _of_cell(cell, found)
    ]


def _of_cell(cell: SearchCell, found: FoundCapacity) -> Iterator[Observation]:
    for number, one in enumerate(found.searches):
        order, last = max((k, trial.run) for k, trial in enumerate(cell.trials) if trial.search == number)
        if one.estimate is not None:
            yield Observation(
                last, int(last) if last.isdigit() else order, cell.cell, f"search {number + 1}", one.estimate
            )


def _found(result: SearchResult, goal: str) -> Iterator[tuple[SearchCell, FoundCapacity]]:
    for cell in result.cells:
        for found in cell.capacities:
            if found.goal == goal:
                yield cell, found


def ended_outside(found: FoundCapacity) -> str:
    """The ending of a search whose capacity is outside the range, or that the generator limited; empty if none is."""
    return next((one.ending for one in found.searches if Ending(one.ending).is_final), "")


def _outside(result: SearchResult, goal: str, name: str) -> Iterator[LeftOutPart]:
    for cell, found in _found(result, goal):
        if ending := ended_outside(found):
            yield _no_fit(name, f"the cell {level_words(cell.cell)} is not used: a search ended by {ending}")


def _no_fit(name: str, reason: str) -> LeftOutPart:
    figures: dict[str, Value] = {"metric": name, "reason": reason}
    return LeftOutPart("", "", LeftOutReason.NO_FIT, figures)


def _ratios(goal: str, fit: Factorial, factors: Sequence[str]) -> list[CapacityRatio]:
    """Each level relative to the first one, of the factors whose effects can be estimated."""
    bases: dict[str, str] = {}
    for one in fit.differences:
        bases.setdefault(one.factor, one.first)
    pairs = [one for one in fit.differences if one.first == bases[one.factor] and one.interval is not None]
    found = []
    for pair in pairs:
        assert pair.interval is not None  # selected
        interacting = tuple(
            other
            for term in fit.terms
            if term.adjusted_p is not None and term.adjusted_p < DETECTED
            for part in term.parts
            if pair.factor in part.factors
            for other in part.factors
            if other != pair.factor
        )
        over = tuple(name for name in factors if name in bases and name != pair.factor)
        ratio = _inverse(_simultaneous(pair.interval, len(pairs)))
        found.append(
            CapacityRatio(
                goal, pair.factor, pair.second, pair.first, ratio, over, tuple(dict.fromkeys(interacting))
            )
        )
    return found


def _simultaneous(interval: Interval, family: int) -> Interval:
    """The interval of a ratio with Bonferroni's correction for `family` ratios."""
    assert interval.low is not None and interval.high is not None and interval.df is not None
    tail = (1 - interval.level) / 2
    wider = t_quantile(1 - tail / family, interval.df) / t_quantile(1 - tail, interval.df)
    mean = interval.mean
    low, high = (mean * (end / mean) ** wider for end in (interval.low, interval.high))
    return Interval(mean, low, high, interval.level, interval.df, METHOD)


def _inverse(interval: Interval) -> Interval:
    assert interval.low is not None and interval.high is not None
    return Interval(
        1 / interval.mean, 1 / interval.high, 1 / interval.low, interval.level, interval.df, interval.method
    )
