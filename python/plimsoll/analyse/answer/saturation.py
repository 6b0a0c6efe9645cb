"""Saturation, throughput and bottleneck of each combination of the factors, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from plimsoll.analyse.answer.components import component_words, evidence, most_used
from plimsoll.analyse.answer.limits import flattening
from plimsoll.analyse.answer.words import (
    MAX_SENTENCES,
    capital,
    is_at,
    load_label,
    loads,
    loads_of,
    payload,
)
from plimsoll.analyse.components.bottleneck import NOT_RESOLVED
from plimsoll.analyse.results.analysis import Analysis, Capacity, CellResult, Ranking, RunResult, Saturation
from plimsoll.analyse.results.verdicts import (
    CapacityKind,
    Finding,
    RankingVerdict,
    SaturationReason,
    SaturationVerdict,
    Topic,
    Value,
)
from plimsoll.analyse.results.wording import (
    UNKNOWN,
    describe,
    factor_word,
    level_words,
    listing,
    number,
    plural,
    plus_minus,
)
from plimsoll.analyse.stats.interval import Interval


def of_saturation(analysis: Analysis, found: Sequence[Saturation]) -> list[Finding]:
    """How the combinations compare, then a sentence on each; of many, on the best and the worst."""
    ranked = sorted(found, key=lambda each: -_nominal_mean(each))
    said = _comparison(analysis, found[0].metric)
    if len(found) <= MAX_SENTENCES:
        return said + [_judged(analysis, each) for each in found]
    said += [_judged(analysis, each) for each in (ranked[0], ranked[-1])]
    left = plural(len(found) - 2, "combination")
    rest = [f"The other {left} are between these two; the table lists them all.", *_what_stops(analysis)]
    return [*said, *(Finding(Topic.SATURATION, text) for text in rest)]


def _judged(analysis: Analysis, found: Saturation) -> Finding:
    values: dict[str, Value] = {"lower": found.lower, "upper": found.upper}
    text = _saturation_sentence(analysis, found)
    return Finding(Topic.SATURATION, text, found.verdict, values, found.rule)


def _what_stops(analysis: Analysis) -> list[str]:
    """At the highest load, the bottleneck at each level of the first factor, and in how many of its runs. Runs limited
    by the load generator are invalid, but are counted here."""
    info = analysis.experiment
    tried = [cell.load for cell in analysis.cells if cell.load is not None]
    varied = (name for name, levels in info.factors.items() if name != info.load_factor and len(levels) > 1)
    first = next(varied, None)
    if first is None or info.load_factor is None or not tried:
        return []
    top = [cell.cell for cell in analysis.cells if cell.load == max(tried)]
    parts: list[str] = []
    for level in info.factors[first]:
        runs = [run for run in analysis.runs if run.cell in top and run.cell.get(first) == level]
        named = Counter(run.bottleneck for run in runs if run.bottleneck != NOT_RESOLVED)
        if named:
            ((most, times),) = named.most_common(1)
            seen = [each for run in runs for each in run.utilization if each.component == most]
            used = f" ({used})" if (used := most_used(seen)) else ""
            limit = f"{component_words(most, seen)}{used} in {times} of {plural(len(runs), 'run')}"
            what = "that" if parts else "the bottleneck"
            parts.append(f"{what} of {factor_word(first)} {level} is {limit}")
    if not parts:
        return []
    load = loads(load_label(analysis, info.load_factor, max(tried)) or UNKNOWN, factor_word(info.load_factor))
    return [f"At {load}, {listing(parts)}."]


def _capacity(found: Saturation, kind: CapacityKind) -> Capacity | None:
    return next((each for each in found.capacities if each.kind == kind), None)


def _nominal_mean(found: Saturation) -> float:
    capacity = _capacity(found, CapacityKind.NOMINAL)
    value = None if capacity is None else capacity.value
    return (value.mean if value is not None else 0.0) or -math.inf


def _comparison(analysis: Analysis, metric: str) -> list[Finding]:
    """Which combination has the highest throughput, and how it compares with the others; nothing for a single one."""
    found = next((each for each in analysis.rankings if each.metric == metric), None)
    if found is None:
        return []
    values: dict[str, Value] = {
        "best": level_words(found.best),
        "second": level_words(found.second),
        "worst": level_words(found.worst),
        "times": found.over_worst.mean,
    }
    return [Finding(Topic.RANKING, _ranking(found), found.verdict, values, found.rule)]


def _ranking(found: Ranking) -> str:
    best, second, worst = (level_words(each) for each in (found.best, found.second, found.worst))
    ratio, most = ratio_words(found.over_second), ratio_words(found.over_worst)
    equal = f"no difference between {best} and {second} was detected (ratio {ratio})"
    match found.verdict:
        case RankingVerdict.NOT_TOLD_APART if second == worst:
            return f"{capital(equal)}."
        case RankingVerdict.NOT_TOLD_APART:
            return f"{capital(best)} has the highest mean throughput, {most} times that of {worst}; {equal}."
        case RankingVerdict.ONE_OBSERVATION:
            times = f"{number(found.over_worst.mean, 2)} times that of {worst}"
            return f"{capital(best)} has the highest throughput: {times}; without repetitions, this is one observation."
        case _:
            text = f"{capital(best)} has the highest throughput: {most} times that of {worst}"
            return f"{text}." if second == worst else f"{text}, and {ratio} times that of {second}."


def ratio_words(ratio: Interval) -> str:
    """`4.2 (4.0 to 4.4)`, to the digits that its interval supports; the mean alone without one."""
    if ratio.low is None or ratio.high is None:
        return number(ratio.mean, 2)
    half = max(ratio.high - ratio.mean, ratio.mean - ratio.low)
    digits = 3 if half < 0.1 * ratio.mean else 2
    return f"{number(ratio.mean, digits)} ({number(ratio.low, digits)} to {number(ratio.high, digits)})"


def _saturation_sentence(analysis: Analysis, found: Saturation) -> str:
    metric = describe(found.metric)
    capacity = _capacity(found, CapacityKind.NOMINAL)
    head = f"With {level_words(found.combination)} the" if found.combination else "The"
    if capacity is None or capacity.value is None:
        return f"{head} throughput is unknown: no run is valid."
    cell = _cell_at(analysis, found, capacity.load)
    carried = plus_minus(capacity.value, metric.kind, metric.unit) + payload(cell, found.metric)
    word = factor_word(found.load_factor)
    at = loads(load_label(analysis, found.load_factor, capacity.load) or UNKNOWN, word)
    if _one_load(analysis, found):
        tried = sum(is_at(each.cell, found) for each in analysis.cells)
        only = "the only load tried" if tried == 1 else "the only load with a valid run"
        return f"{head} throughput is {carried} at {at}, {only}."

    def label(load: float) -> str:
        return load_label(analysis, found.load_factor, load) or UNKNOWN

    where = f"at {at}" if not capacity.loads else _plateau([label(load) for load in capacity.loads], word)
    text = f"{head} highest throughput is {carried}, {where}. {capital(flattening(found, label))}."
    busy_at = found.upper if found.reason == SaturationReason.FULL else capacity.load
    return f"{text}{_limit(analysis, found, busy_at, at)}{_bounded(analysis, found)}"


def _plateau(labels: Sequence[str], word: str) -> str:
    """Of the loads that were averaged."""
    return f"the mean at {loads_of(labels, word)}"


def _limit(analysis: Analysis, found: Saturation, load: float | None, at: str) -> str:
    """What limits the combination. Where throughput is not shown to be flat: what was busy at the best load."""
    if not found.bottleneck or found.bottleneck == NOT_RESOLVED:
        return "" if found.upper is None else " Bottleneck: not identified."
    runs = [
        run
        for run in analysis.runs
        if run.valid and is_at(run.cell, found) and load is not None and _load_of(analysis, run) == load
    ]
    seen = [each for run in runs for each in run.utilization if each.component == found.bottleneck]
    named = f"{component_words(found.bottleneck, seen)}{evidence(seen)}"
    return f" Bottleneck at {at}: {named}." if found.upper is None else f" Bottleneck: {named}."


def _cell_at(analysis: Analysis, found: Saturation, load: float | None) -> CellResult | None:
    return next((cell for cell in analysis.cells if cell.load == load and is_at(cell.cell, found)), None)


def _one_load(analysis: Analysis, found: Saturation) -> bool:
    """Whether there is no verdict because one load was tried, as in a design that varies one factor at a time."""
    tried = sum(cell.valid > 0 and is_at(cell.cell, found) for cell in analysis.cells)
    return found.verdict == SaturationVerdict.CANNOT_SAY and tried == 1


def _load_of(analysis: Analysis, run: RunResult) -> float | None:
    return next((cell.load for cell in analysis.cells if cell.cell == run.cell), None)


def _bounded(analysis: Analysis, found: Saturation) -> str:
    """What the rules of `capacity:` leave of the nominal one; nothing where they never bind."""
    said: list[str] = []
    metric = describe(found.metric)
    for kind in (CapacityKind.USABLE, CapacityKind.ERROR_LIMITED):
        capacity = _capacity(found, kind)
        if capacity is None or not capacity.reached:
            continue
        if capacity.value is None:
            start = "it" if said else "It"
            said.append(f"{start} has no {kind} capacity: {capacity.remark or 'no load meets the rule'}")
            continue
        load = load_label(analysis, found.load_factor, capacity.load)
        at = f" at {loads(load, factor_word(found.load_factor))}" if load else ""
        carried = plus_minus(capacity.value, metric.kind, metric.unit)
        said.append(f"{'its' if said else 'Its'} {kind} capacity ({capacity.definition}) is {carried}{at}")
    return f" {'; '.join(said)}." if said else ""
