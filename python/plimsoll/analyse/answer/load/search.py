"""What a search found, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plimsoll.analyse.answer.words import MAX_SENTENCES
from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.search import (
    RATE,
    CapacityRatio,
    FoundCapacity,
    OneSearch,
    SearchCell,
    SearchResult,
    SoughtGoal,
)
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import (
    factor_word,
    level_words,
    listing,
    number,
    percent,
    plural,
    quantity,
)
from plimsoll.search.verdict import Ending

NOT_FINISHED: Final = "not finished"


def of_search(analysis: Analysis) -> tuple[Finding, ...]:
    """A sentence for each goal in each cell, and what the approach from above and the confirming runs showed; then how
    the capacities of the levels differ."""
    result = analysis.search
    return () if result is None else tuple(_findings(result))


def _findings(result: SearchResult) -> Iterator[Finding]:
    goals = {goal.name: goal for goal in result.goals}
    for cell in result.cells:
        if not cell.capacities:
            text = f"{_head(cell, '')}the search is not finished: {plural(len(cell.trials), 'trial')} so far."
            yield Finding(Topic.SEARCH, text[0].upper() + text[1:], NOT_FINISHED, {}, result.rule)
        for found in cell.capacities:
            values: dict[str, Value] = {
                "goal": found.goal,
                "estimate": found.estimate,
                "low": found.low,
                "high": found.high,
            }
            text = f"{_head(cell, found.goal)}{capacity_words(result, goals[found.goal], found)}."
            yield Finding(Topic.SEARCH, text, ending_of(found), values, result.rule)
            for further in (_from_above(result, found), _confirmed(result, found)):
                if further:
                    yield Finding(Topic.SEARCH, f"{_head(cell, found.goal)}{further}.", "", {}, result.rule)
    yield from _ratios(result)


def _ratios(result: SearchResult) -> Iterator[Finding]:
    """A sentence on each level that is compared with the first one."""
    for one in result.ratios[:MAX_SENTENCES]:
        values: dict[str, Value] = {
            "goal": one.goal,
            "factor": one.factor,
            "level": one.level,
            "base": one.base,
            "ratio": one.ratio.mean,
            "low": one.ratio.low,
            "high": one.ratio.high,
        }
        yield Finding(Topic.EFFECTS, f"{one.goal}: {ratio_words(one)}.", "", values, result.rule)
    if len(result.ratios) > MAX_SENTENCES:
        left = plural(len(result.ratios) - MAX_SENTENCES, "further ratio")
        yield Finding(Topic.EFFECTS, f"The table of the ratios contains {left}.")


def ratio_words(one: CapacityRatio) -> str:
    """The ratio of the capacities of two levels, the higher one first, or that no difference was detected."""
    ratio = one.ratio
    assert ratio.low is not None and ratio.high is not None, "ratios have intervals"
    level, base = (level_words({one.factor: label}) for label in (one.level, one.base))
    average = f", on average over {listing(map(factor_word, one.over))}" if one.over else ""
    if one.depends_on:
        average += f"; the ratio depends on {listing(map(factor_word, one.depends_on))}"
    if ratio.low <= 1 <= ratio.high:
        ends = f"{number(ratio.low)} to {number(ratio.high)}"
        return (
            f"no difference of the capacity between {base} and {level} was detected (ratio {ends}{average})"
        )
    mean, low, high = ratio.mean, ratio.low, ratio.high
    if mean < 1:
        level, base, mean, low, high = base, level, 1 / mean, 1 / high, 1 / low
    times = f"{number(mean)} times ({number(low)} to {number(high)})"
    return f"with {level} the capacity is {times} that with {base}{average}"


def _head(cell: SearchCell, goal: str) -> str:
    words = ", ".join(part for part in (goal, level_words(cell.cell)) if part)
    return f"{words}: " if words else ""


def ending_of(found: FoundCapacity) -> str:
    """Why the searches for a goal ended: of the first one that differs from a bracket, else `bracket`."""
    endings = [one.ending for one in found.searches]
    return next((ending for ending in endings if ending != Ending.BRACKET), Ending.BRACKET)


def capacity_words(result: SearchResult, goal: SoughtGoal, found: FoundCapacity) -> str:
    """The capacity for one goal: an interval over several searches, else a bracket, else why there is none."""
    bracketed = [one for one in found.searches if one.lower is not None and one.upper is not None]
    if found.low is not None and found.high is not None:
        interval = f"{amount(found.low)} to {amount(found.high)} in {len(bracketed)} searches"
        left = len(found.searches) - len(bracketed)
        more = f"; {plural(left, 'search', 'searches')} without a bracket" if left else ""
        return f"{load_of(result, found.estimate or 0.0)} ({interval}{more}){_throughput(result, found)}"
    if bracketed:
        return f"{_bracket(result, bracketed[0], len(found.searches))}{_throughput(result, found)}"
    return _without_bracket(result, goal, found)


def _bracket(result: SearchResult, found: OneSearch, searches: int) -> str:
    assert found.lower is not None and found.upper is not None, "the caller has checked"
    of = "one search" if searches == 1 else f"1 of {searches} searches"
    late = " when the time was used up" if found.ending == Ending.TIME else ""
    return (
        f"between {amount(found.lower.load)} and {load_of(result, found.upper.load)} (bracket of {of}{late})"
    )


def _without_bracket(result: SearchResult, goal: SoughtGoal, found: FoundCapacity) -> str:
    last = found.searches[-1]
    at_least = f"at least {load_of(result, last.lower.load)}; " if last.lower is not None else ""
    match last.ending:
        case Ending.LOWEST_FAILS:
            return (
                f"{load_of(result, result.from_load)}, the lowest load, already fails: {_loss(goal, found)}"
            )
        case Ending.HIGHEST_HOLDS:
            return f"still holds at {load_of(result, result.to_load)}, the highest load"
        case Ending.GENERATOR if at_least:
            return f"{at_least}the load generator was the limit"
        case Ending.GENERATOR:
            return "no load was reached: the load generator was the limit"
        case Ending.INVALID:
            return f"{at_least}no answer, because trials were invalid repeatedly"
    if last.upper is not None:
        return f"less than {load_of(result, last.upper.load)}; the time was used up"
    return f"{at_least}the time was used up before a bracket was found"


def _throughput(result: SearchResult, found: FoundCapacity) -> str:
    """The measured throughput, which a number of testers does not contain; empty for loads in requests/s."""
    if result.axis == RATE or found.throughput is None:
        return ""
    measured = found.throughput
    mean = quantity(measured.mean, "rate", "requests/s")
    if measured.trials == 1:
        return f"; {mean} in the trial at the lower bound"
    ends = f"{number(measured.low)} to {number(measured.high)}"
    return f"; {mean} ({ends} in {measured.trials} trials) at the lower bound"


def _loss(goal: SoughtGoal, found: FoundCapacity) -> str:
    rules = " and ".join(filter(None, (goal.response, goal.errors and f"errors {goal.errors}")))
    what = "failed or took too long" if goal.response else "failed"
    return f"{percent(found.lowest_loss, 2)} of the planned starts {what} ({rules})"


def _from_above(result: SearchResult, found: FoundCapacity) -> str:
    descent = found.from_above
    if descent is None:
        return ""
    load = load_of(result, descent.load)
    trials = f"after an overload, {descent.high} of {descent.trials} trials at {load} exceed the goal"
    if descent.agrees:
        return f"{trials}: both directions agree"
    if descent.recovers_at is None:
        return f"{trials}: the service does not recover"
    return f"{trials}: the service recovers at {load_of(result, descent.recovers_at)}"


def _confirmed(result: SearchResult, found: FoundCapacity) -> str:
    ends = [
        f"{one.met} of {plural(one.runs, 'run')} at {load_of(result, one.load)} met the goal"
        for one in sorted(found.confirmed, key=lambda one: one.load)
    ]
    return ", ".join(ends)


def load_of(result: SearchResult, load: float) -> str:
    """A load with its unit: `1,240 requests/s`, `42 testers`."""
    if result.axis == RATE:
        return f"{amount(load)} requests/s"
    return f"{amount(load)} testers{' per host' if result.axis != 'load.testers' else ''}"


def amount(load: float) -> str:
    """A load with at least three digits; a whole number has no decimals."""
    return f"{load:,.0f}" if load >= 1000 or load == int(load) else number(load)
