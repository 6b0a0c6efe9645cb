"""Saturation, throughput and bottleneck of each combination of the factors, in sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from plimsoll.analyse.answer.components.components import component_words, limiting, most_used
from plimsoll.analyse.answer.load.limits import flattening
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


def of_saturation(analysis: Analysis, saturations: Sequence[Saturation]) -> list[Finding]:
    """The comparison of the combinations, then a sentence on each; if there are many, on the best and the worst."""
    ranked = sorted(saturations, key=lambda saturation: -_nominal_mean(saturation))
    findings = _comparison(analysis, saturations[0].metric)
    if len(saturations) <= MAX_SENTENCES:
        return findings + [_saturation_finding(analysis, saturation) for saturation in saturations]
    findings += [_saturation_finding(analysis, saturation) for saturation in (ranked[0], ranked[-1])]
    left = plural(len(saturations) - 2, "combination")
    rest = [
        f"The other {left} are between these two; the table lists them all.",
        *_bottlenecks_at_highest_load(analysis),
    ]
    return [*findings, *(Finding(Topic.SATURATION, text) for text in rest)]


def _saturation_finding(analysis: Analysis, saturation: Saturation) -> Finding:
    values: dict[str, Value] = {"lower": saturation.lower, "upper": saturation.upper}
    text = _saturation_sentence(analysis, saturation)
    return Finding(Topic.SATURATION, text, saturation.verdict, values, saturation.rule)


def _bottlenecks_at_highest_load(analysis: Analysis) -> list[str]:
    """The bottleneck at the highest load for each level of the first factor, with the number of its runs. Runs that the
    load generator limited are invalid, but are counted here."""
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
            ((bottleneck, count),) = named.most_common(1)
            utilizations = [
                utilization
                for run in runs
                for utilization in run.utilization
                if utilization.component == bottleneck
            ]
            used = f" ({used})" if (used := most_used(utilizations)) else ""
            limit = (
                f"{component_words(bottleneck, utilizations)}{used} in {count} of {plural(len(runs), 'run')}"
            )
            subject = "that" if parts else "the bottleneck"
            parts.append(f"{subject} of {factor_word(first)} {level} is {limit}")
    if not parts:
        return []
    load = loads(load_label(analysis, info.load_factor, max(tried)) or UNKNOWN, factor_word(info.load_factor))
    return [f"At {load}, {listing(parts)}."]


def _capacity(saturation: Saturation, kind: CapacityKind) -> Capacity | None:
    return next((capacity for capacity in saturation.capacities if capacity.kind == kind), None)


def _nominal_mean(saturation: Saturation) -> float:
    capacity = _capacity(saturation, CapacityKind.NOMINAL)
    value = None if capacity is None else capacity.value
    return (value.mean if value is not None else 0.0) or -math.inf


def _comparison(analysis: Analysis, metric: str) -> list[Finding]:
    """The combination with the highest throughput, compared with the others; empty if there is only one."""
    ranking = next((candidate for candidate in analysis.rankings if candidate.metric == metric), None)
    if ranking is None:
        return []
    values: dict[str, Value] = {
        "best": level_words(ranking.best),
        "second": level_words(ranking.second),
        "worst": level_words(ranking.worst),
        "times": ranking.over_worst.mean,
    }
    return [Finding(Topic.RANKING, _ranking_sentence(ranking), ranking.verdict, values, ranking.rule)]


def _ranking_sentence(ranking: Ranking) -> str:
    best, second, worst = (
        level_words(combination) for combination in (ranking.best, ranking.second, ranking.worst)
    )
    ratio, worst_ratio = ratio_words(ranking.over_second), ratio_words(ranking.over_worst)
    equal = f"no difference between {best} and {second} was detected (ratio {ratio})"
    match ranking.verdict:
        case RankingVerdict.NOT_TOLD_APART if second == worst:
            return f"{capital(equal)}."
        case RankingVerdict.NOT_TOLD_APART:
            return f"{capital(best)} has the highest mean throughput, {worst_ratio} times that of {worst}; {equal}."
        case RankingVerdict.ONE_OBSERVATION:
            text = f"{number(ranking.over_worst.mean, 2)} times that of {worst}"
            return f"{capital(best)} has the highest throughput: {text}; without repetitions, this is one observation."
        case _:
            text = f"{capital(best)} has the highest throughput: {worst_ratio} times that of {worst}"
            return f"{text}." if second == worst else f"{text}, and {ratio} times that of {second}."


def ratio_words(ratio: Interval) -> str:
    """`4.2 (4.0 to 4.4)`, with the digits that the interval supports; the mean alone without an interval."""
    if ratio.low is None or ratio.high is None:
        return number(ratio.mean, 2)
    half = max(ratio.high - ratio.mean, ratio.mean - ratio.low)
    digits = 3 if half < 0.1 * ratio.mean else 2
    return f"{number(ratio.mean, digits)} ({number(ratio.low, digits)} to {number(ratio.high, digits)})"


def _saturation_sentence(analysis: Analysis, saturation: Saturation) -> str:
    metric = describe(saturation.metric)
    capacity = _capacity(saturation, CapacityKind.NOMINAL)
    head = f"With {level_words(saturation.combination)} the" if saturation.combination else "The"
    if capacity is None or capacity.value is None:
        return f"{head} throughput is unknown: no run is valid."
    cell = _cell_at(analysis, saturation, capacity.load)
    throughput = plus_minus(capacity.value, metric.kind, metric.unit) + payload(cell, saturation.metric)
    word = factor_word(saturation.load_factor)
    at = loads(load_label(analysis, saturation.load_factor, capacity.load) or UNKNOWN, word)
    if _is_single_load(analysis, saturation):
        tried = sum(is_at(tried_cell.cell, saturation) for tried_cell in analysis.cells)
        only = "the only load tried" if tried == 1 else "the only load with a valid run"
        return f"{head} throughput is {throughput} at {at}, {only}."

    def label(load: float) -> str:
        return load_label(analysis, saturation.load_factor, load) or UNKNOWN

    where = f"at {at}" if not capacity.loads else _plateau([label(load) for load in capacity.loads], word)
    text = f"{head} highest throughput is {throughput}, {where}. {capital(flattening(saturation, label))}."
    busy_at = saturation.upper if saturation.reason == SaturationReason.FULL else capacity.load
    return f"{text}{_bottleneck_sentence(analysis, saturation, busy_at, at)}{_other_capacities(analysis, saturation)}"


def _plateau(labels: Sequence[str], word: str) -> str:
    """Words for the loads whose throughputs were averaged."""
    return f"the mean at {loads_of(labels, word)}"


def _bottleneck_sentence(analysis: Analysis, saturation: Saturation, load: float | None, at: str) -> str:
    """The bottleneck of the combination; if throughput is not shown to be flat, that at the best load."""
    if not saturation.bottleneck or saturation.bottleneck == NOT_RESOLVED:
        return "" if saturation.upper is None else " Bottleneck: not identified."
    runs = [
        run
        for run in analysis.runs
        if run.valid and is_at(run.cell, saturation) and load is not None and _load_of(analysis, run) == load
    ]
    named = limiting(saturation.bottleneck, runs)
    return f" Bottleneck at {at}: {named}." if saturation.upper is None else f" Bottleneck: {named}."


def _cell_at(analysis: Analysis, saturation: Saturation, load: float | None) -> CellResult | None:
    return next((cell for cell in analysis.cells if cell.load == load and is_at(cell.cell, saturation)), None)


def _is_single_load(analysis: Analysis, saturation: Saturation) -> bool:
    """Whether there is no verdict because only one load was tried, as in a design that varies one factor at a time."""
    tried = sum(cell.valid > 0 and is_at(cell.cell, saturation) for cell in analysis.cells)
    return saturation.verdict == SaturationVerdict.CANNOT_SAY and tried == 1


def _load_of(analysis: Analysis, run: RunResult) -> float | None:
    return next((cell.load for cell in analysis.cells if cell.cell == run.cell), None)


def _other_capacities(analysis: Analysis, saturation: Saturation) -> str:
    """The capacities by the rules of `capacity:`; empty if no load breaks a rule."""
    texts: list[str] = []
    metric = describe(saturation.metric)
    for kind in (CapacityKind.USABLE, CapacityKind.ERROR_LIMITED):
        capacity = _capacity(saturation, kind)
        if capacity is None or not capacity.reached:
            continue
        if capacity.value is None:
            start = "it" if texts else "It"
            texts.append(f"{start} has no {kind} capacity: {capacity.remark or 'no load meets the rule'}")
            continue
        load = load_label(analysis, saturation.load_factor, capacity.load)
        at = f" at {loads(load, factor_word(saturation.load_factor))}" if load else ""
        throughput = plus_minus(capacity.value, metric.kind, metric.unit)
        texts.append(
            f"{'its' if texts else 'Its'} {kind} capacity ({capacity.definition}) is {throughput}{at}"
        )
    return f" {'; '.join(texts)}." if texts else ""
