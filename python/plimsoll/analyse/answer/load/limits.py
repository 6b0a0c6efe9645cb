"""Texts of brackets, capacities and thresholds: the verdict, the rule, and the remarks on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.answer.words import between, loads
from plimsoll.analyse.design.capacity.saturation import FLAT
from plimsoll.analyse.results.analysis import Capacity, Saturation
from plimsoll.analyse.results.verdicts import (
    CapacityKind,
    CapacityReason,
    Reason,
    SaturationReason,
    SaturationVerdict,
    ThresholdReason,
)
from plimsoll.analyse.results.wording import count, factor_word, listing, number, percent, plural, quantity

MIN_RISE: Final = 0.1
"""Rise of throughput over the flat loads from which on the text contains it."""


def capacity_definition(capacity: Capacity) -> str:
    """The definition of a capacity, as text."""
    match capacity.kind:
        case CapacityKind.NOMINAL if capacity.loads:
            return "mean throughput over the loads at which it is highest and flat"
        case CapacityKind.NOMINAL:
            return "highest mean throughput of all load levels"
        case CapacityKind.USABLE:
            rules = listing((f"{capacity.asked_metric} {capacity.asked}", *capacity.also))
            return f"highest mean throughput at a load that meets {rules}"
        case _:
            return f"highest load up to which the upper 95 % bound of the error rate meets {capacity.asked}"


def capacity_reason(reason: Reason) -> str:
    """The text of one remark on a capacity."""
    values = reason.values
    match reason.code:
        case CapacityReason.NO_THROUGHPUT:
            return "no level has a throughput"
        case CapacityReason.NOT_FLAT:
            return "throughput is not shown to be flat at any load: the capacity may be higher"
        case CapacityReason.HIGHEST:
            rivals = f"{values['of']} loads whose throughput is not shown to differ"
            return (
                f"the highest of {rivals}: the mean is probably too high, and its interval accounts for that"
            )
        case CapacityReason.HELD_NOWHERE:
            return "no level meets all rules" if figure(values, "rules") > 1 else "no level meets the rule"
        case CapacityReason.BOUND_HELD_NOWHERE:
            return f"no level meets the rule; the lowest bound is {percent(figure(values, 'least'), 2)}"
        case CapacityReason.NOTHING_ENDED:
            return "no transaction ended"
        case CapacityReason.HELD_AT_BOUND:
            return f"{values['of']}the {values['side']} bound meets the rule, too"
        case CapacityReason.HELD_AT_ESTIMATE:
            return f"{values['of']}the estimate meets the rule, but its {values['side']} bound does not"
        case CapacityReason.NO_BOUND:
            return f"{values['of']}the estimate meets the rule; one repetition has no bound"
        case CapacityReason.NO_VALUE:
            known = values["loads"]
            assert isinstance(known, tuple)  # loads as texts
            head = plural(len(known), "load")
            return f"{head} ({listing(map(str, known))}) without a value for {values['rules']}"
        case CapacityReason.LIMITED_BY:
            return f"a load of {figure(values, 'load'):g} breaks {values['rules']}"
        case CapacityReason.ERROR_RATE:
            rate, upper = figure(values, "rate"), figure(values, "upper")
            return f"error rate {percent(rate)}, upper bound {percent(upper)}"
        case CapacityReason.LOWER_LOAD:
            return f"a load of {figure(values, 'load'):g} breaks the rule, although a higher load meets it"
        case CapacityReason.LIMIT_NOT_REACHED:
            return "no level breaks the rule: the limit was not reached"
        case _:
            return reason.code


def threshold_reason(reason: Reason, test: str) -> str:
    """The text of one reason for the verdict on a threshold. `test`: the rule as written in the experiment file."""
    values = reason.values
    match reason.code:
        case ThresholdReason.BROKEN:
            return f"observed {_shown(reason)}, limit {test}"
        case ThresholdReason.NO_VALID_RUN:
            return "failed: no valid run to judge"
        case ThresholdReason.NO_SAMPLE:
            return "failed: no sample"
        case ThresholdReason.NO_CELL:
            return "failed: its `where` matches no cell of this experiment"
        case ThresholdReason.NOT_YET:
            return "not judged yet: no valid run so far"
        case ThresholdReason.ABSENT:
            return str(values["absent"])  # of the table of metrics
        case ThresholdReason.NOT_COMPLETED:
            done, of = (count(int(figure(values, name))) for name in ("completed", "of"))
            return f"it is among the transactions that did not complete ({done} of {of} did), limit {test}"
        case ThresholdReason.FEW_BEYOND:
            return f"only {values['beyond']} of {values['of']} values are beyond it"
        case _:
            return reason.code


def _shown(reason: Reason) -> str:
    observed = figure(reason.values, "observed")
    match reason.values["kind"]:
        case "time":  # one digit more than usual: the value may be slightly beyond the limit
            return quantity(observed * 1e3, "ms", digits=4)
        case "fraction":
            return percent(observed)
        case _:
            return number(observed, 5)


def bracket_text(saturation: Saturation) -> str:
    """The bracket of a combination, as text. Loads are numbers, as in `lower` and `upper`."""
    return flattening(saturation, "{:g}".format)


def flattening(saturation: Saturation, label: Callable[[float], str]) -> str:
    """The change of throughput with the load, as a sentence without capital and full stop. `label`: returns the level
    of a load as it is written in the experiment file."""
    word = factor_word(saturation.load_factor)

    def at(load: float) -> str:
        return loads(label(load), word)

    if saturation.verdict == SaturationVerdict.CANNOT_SAY:
        return _no_verdict(saturation, label, word)
    if saturation.upper is None:
        return f"throughput {_increased(saturation, at)}"
    falls = "" if saturation.falls_from is None else f"falls from {at(saturation.falls_from)} on"
    if saturation.reason == SaturationReason.OVERLOADED:
        tail = "" if saturation.lower is None else f", and not at {at(saturation.lower)}"
        return f"the target is overloaded from {at(saturation.upper)} on{tail}{falls and f'; throughput {falls}'}"
    if saturation.upper == saturation.falls_from:
        rises = "" if saturation.lower is None else f"increases beyond {at(saturation.lower)} and "
        return f"throughput {rises}{falls}"
    tail = f" and {falls}" if falls else ""
    if saturation.reason == SaturationReason.FULL:
        basis = "where the bottleneck is full"
        if saturation.lower is not None:
            basis = f"because the bottleneck is full from {at(saturation.upper)} on"
        tail = f", {basis}{_runs_needed(saturation)}"
    if saturation.lower is not None:
        bracket = between("between", label(saturation.lower), "and", label(saturation.upper), word)
        return f"throughput flattens {bracket}{_rise(saturation, at)}{tail}"
    is_lowest = bool(saturation.gains) and saturation.upper == saturation.gains[0].start
    start = f"{at(saturation.upper)}{', the lowest load tried,' if is_lowest else ''}"
    return f"throughput is flat from {start} on{_rise(saturation, at)}{tail}"


def _rise(saturation: Saturation, at: Callable[[float], str]) -> str:
    """How much more throughput the highest load has than the first flat one, if that is much: flat is defined by the
    rise per doubling, and a reader compares the ends."""
    flat = [
        gain for gain in saturation.gains if saturation.upper is not None and gain.start >= saturation.upper
    ]
    total = math.prod(1 + gain.gain for gain in flat) - 1
    if not flat or total < MIN_RISE or saturation.falls_from is not None:
        return ""
    doubling = percent(2**FLAT - 1, 2)
    return f" ({percent(total, 2)} more at {at(flat[-1].end)}: less than {doubling} per doubling of the load)"


def _runs_needed(saturation: Saturation) -> str:
    """Number of runs with which the throughputs alone would show the result."""
    if saturation.more_runs is None:
        return ""
    return f" (throughput alone would need about {plural(saturation.more_runs, 'more run')} per load)"


def _increased(saturation: Saturation, at: Callable[[float], str]) -> str:
    last = saturation.gains[-1] if saturation.gains else None
    if saturation.lower is None or last is None:
        return "increased with the load"
    if last.start == saturation.lower:
        return f"increased up to {at(last.end)}, the highest load tried"
    return f"increased beyond {at(saturation.lower)}; the highest load tried is {at(last.end)}"


def _no_verdict(saturation: Saturation, label: Callable[[float], str], word: str) -> str:
    match saturation.reason:
        case SaturationReason.TOO_FEW_LEVELS:
            return f"{plural(saturation.levels, 'load')} cannot show where throughput flattens"
        case SaturationReason.NOTHING_SUCCEEDED:
            return "no request succeeded at any load"
        case SaturationReason.ONE_REPETITION:
            return "one run per load cannot show where throughput flattens"
        case SaturationReason.RUNS_DIFFER:
            start = (
                ""
                if saturation.lower is None
                else f"throughput increases beyond {loads(label(saturation.lower), word)}; "
            )
            return (
                f"{start}too few runs to decide where it flattens{_undecided_gain(saturation, label, word)}"
            )
        case _:
            return "the load at which throughput flattens cannot be determined"


def _undecided_gain(saturation: Saturation, label: Callable[[float], str], word: str) -> str:
    """The text of the gain that is not decided, with the number of runs that would decide it."""
    if saturation.doubt is None:
        return ""
    where = between("from", label(saturation.doubt.start), "to", label(saturation.doubt.end), word)
    bounds = f"{100 * saturation.doubt.low:+.0f} to {100 * saturation.doubt.high:+.0f} %"
    needed = (
        ""
        if saturation.more_runs is None
        else f" (about {plural(saturation.more_runs, 'more run')} per load needed)"
    )
    return f": {where} throughput changes by {bounds}{needed}"
