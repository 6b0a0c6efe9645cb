"""Brackets, capacities and thresholds in words: the verdict, the rule, and the remarks on it."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.answer.words import between, loads
from plimsoll.analyse.results.analysis import Capacity, Saturation
from plimsoll.analyse.results.verdicts import (
    CapacityKind,
    CapacityReason,
    Reason,
    SaturationReason,
    SaturationVerdict,
    ThresholdReason,
)
from plimsoll.analyse.results.wording import count, factor_word, number, percent, plural, quantity


def capacity_definition(found: Capacity) -> str:
    """What the capacity is."""
    match found.kind:
        case CapacityKind.NOMINAL if found.loads:
            return "mean throughput over the loads at which it is highest and flat"
        case CapacityKind.NOMINAL:
            return "highest mean throughput of all load levels"
        case CapacityKind.USABLE:
            return f"highest mean throughput at a load that meets {found.asked_metric} {found.asked}"
        case _:
            return f"highest load up to which the upper 95 % bound of the error rate meets {found.asked}"


def capacity_reason(reason: Reason) -> str:
    """What must be known about a capacity."""
    told = reason.values
    match reason.code:
        case CapacityReason.NO_THROUGHPUT:
            return "no level has a throughput"
        case CapacityReason.NOT_FLAT:
            return "throughput is not shown to be flat at any load: the capacity may be higher"
        case CapacityReason.HIGHEST:
            many = f"{told['of']} loads whose throughput is not shown to differ"
            return f"the highest of {many}: the mean is probably too high, and its interval accounts for that"
        case CapacityReason.HELD_NOWHERE:
            return "no level meets the rule"
        case CapacityReason.BOUND_HELD_NOWHERE:
            return f"no level meets the rule; the lowest bound is {percent(figure(told, 'least'), 2)}"
        case CapacityReason.NOTHING_ENDED:
            return "no transaction ended"
        case CapacityReason.HELD_AT_BOUND:
            return f"the {told['side']} bound meets the rule, too"
        case CapacityReason.HELD_AT_ESTIMATE:
            return f"the estimate meets the rule, but its {told['side']} bound does not"
        case CapacityReason.NO_BOUND:
            return "the estimate meets the rule; one repetition has no bound"
        case CapacityReason.ERROR_RATE:
            rate, upper = figure(told, "rate"), figure(told, "upper")
            return f"error rate {percent(rate)}, upper bound {percent(upper)}"
        case CapacityReason.LOWER_LOAD:
            return f"a load of {figure(told, 'load'):g} breaks the rule, although a higher load meets it"
        case CapacityReason.LIMIT_NOT_REACHED:
            return "no level breaks the rule: the limit was not reached"
        case _:
            return reason.code


def threshold_reason(reason: Reason, test: str) -> str:
    """What led to the verdict on a threshold. `test`: as written."""
    told = reason.values
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
            return str(told["absent"])  # of the table of metrics
        case ThresholdReason.NOT_COMPLETED:
            done, of = (count(int(figure(told, name))) for name in ("completed", "of"))
            return f"it is among the transactions that did not complete ({done} of {of} did), limit {test}"
        case ThresholdReason.FEW_BEYOND:
            return f"only {told['beyond']} of {told['of']} values are beyond it"
        case _:
            return reason.code


def _shown(reason: Reason) -> str:
    observed = figure(reason.values, "observed")
    match reason.values["kind"]:
        case "time":  # one digit more than elsewhere: it may lie just beyond the rule
            return quantity(observed * 1e3, "ms", digits=4)
        case "fraction":
            return percent(observed)
        case _:
            return number(observed, 5)


def bracket_text(found: Saturation) -> str:
    """Where a combination saturates. Loads are numbers here, as in `lower` and `upper`."""
    return flattening(found, "{:g}".format)


def flattening(found: Saturation, label: Callable[[float], str]) -> str:
    """What throughput does with the load, as a sentence without its capital and its end. `label`: a load as people
    wrote it."""
    word = factor_word(found.load_factor)

    def at(load: float) -> str:
        return loads(label(load), word)

    if found.verdict == SaturationVerdict.CANNOT_SAY:
        return _cannot_say(found, label, word)
    if found.upper is None:
        return f"throughput {_increased(found, at)}"
    falls = "" if found.falls_from is None else f"falls from {at(found.falls_from)} on"
    if found.reason == SaturationReason.OVERLOADED:
        tail = "" if found.lower is None else f", and not at {at(found.lower)}"
        return f"the target is overloaded from {at(found.upper)} on{tail}{falls and f'; throughput {falls}'}"
    if found.upper == found.falls_from:
        return f"throughput {falls if found.lower is None else f'increases beyond {at(found.lower)} and {falls}'}"
    tail = f" and {falls}" if falls else ""
    if found.reason == SaturationReason.FULL:
        basis = "where the bottleneck is full"
        if found.lower is not None:
            basis = f"because the bottleneck is full from {at(found.upper)} on"
        tail = f", {basis}{_runs_needed(found)}"
    if found.lower is not None:
        bracket = between("between", label(found.lower), "and", label(found.upper), word)
        return f"throughput flattens {bracket}{tail}"
    is_lowest = bool(found.gains) and found.upper == found.gains[0].start
    return (
        f"throughput is flat from {at(found.upper)}{', the lowest load tried,' if is_lowest else ''} on{tail}"
    )


def _runs_needed(found: Saturation) -> str:
    """Runs that would show by the throughputs what the bottleneck shows."""
    if found.more_runs is None:
        return ""
    return f" (throughput alone would need about {plural(found.more_runs, 'more run')} per load)"


def _increased(found: Saturation, at: Callable[[float], str]) -> str:
    last = found.gains[-1] if found.gains else None
    if found.lower is None or last is None:
        return "increased with the load"
    if last.start == found.lower:
        return f"increased up to {at(last.end)}, the highest load tried"
    return f"increased beyond {at(found.lower)}; the highest load tried is {at(last.end)}"


def _cannot_say(found: Saturation, label: Callable[[float], str], word: str) -> str:
    match found.reason:
        case SaturationReason.TOO_FEW_LEVELS:
            return f"{plural(found.levels, 'load')} cannot show where throughput flattens"
        case SaturationReason.NOTHING_SUCCEEDED:
            return "no request succeeded at any load"
        case SaturationReason.ONE_REPETITION:
            return "one run per load cannot show where throughput flattens"
        case SaturationReason.RUNS_DIFFER:
            start = (
                ""
                if found.lower is None
                else f"throughput increases beyond {loads(label(found.lower), word)}; "
            )
            return f"{start}too few runs to decide where it flattens{_undecided_gain(found, label, word)}"
        case _:
            return "the load at which throughput flattens cannot be determined"


def _undecided_gain(found: Saturation, label: Callable[[float], str], word: str) -> str:
    """The gain that is not decided, and the number of runs that would decide it."""
    if found.doubt is None:
        return ""
    where = between("from", label(found.doubt.start), "to", label(found.doubt.end), word)
    bounds = f"{100 * found.doubt.low:+.0f} to {100 * found.doubt.high:+.0f} %"
    needed = (
        "" if found.more_runs is None else f" (about {plural(found.more_runs, 'more run')} per load needed)"
    )
    return f": {where} throughput changes by {bounds}{needed}"
