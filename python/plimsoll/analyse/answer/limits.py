"""Brackets, capacities and thresholds: the verdict, what was asked, and what must be known about it, in words."""

from __future__ import annotations

from plimsoll.analyse.answer.reasons import figure
from plimsoll.analyse.results import Capacity, Saturation
from plimsoll.analyse.results_verdicts import (
    CapacityKind,
    CapacityReason,
    Doubt,
    Reason,
    SaturationReason,
    SaturationVerdict,
    ThresholdReason,
)
from plimsoll.analyse.wording import factor_word, number, percent, quantity


def capacity_definition(found: Capacity) -> str:
    """What the capacity is."""
    match found.kind:
        case CapacityKind.NOMINAL:
            return "highest mean throughput of all load levels"
        case CapacityKind.USABLE:
            return f"highest mean throughput at a load where {found.asked_metric} {found.asked} is held"
        case _:
            return f"highest load whose upper 95 % bound of the error rate holds {found.asked}"


def capacity_reason(reason: Reason) -> str:
    """What must be known about a capacity."""
    told = reason.values
    match reason.code:
        case CapacityReason.NO_THROUGHPUT:
            return "no level has a throughput"
        case CapacityReason.STILL_RISES:
            return "throughput still rises at the highest level: the capacity is higher"
        case CapacityReason.HELD_NOWHERE:
            return "the rule is held at no level"
        case CapacityReason.BOUND_HELD_NOWHERE:
            return f"held at no level; the least bound is {figure(told, 'least'):.2g}"
        case CapacityReason.NOTHING_ENDED:
            return "nothing ended"
        case CapacityReason.HELD_AT_BOUND:
            return f"held at the {told['side']} bound too"
        case CapacityReason.HELD_AT_ESTIMATE:
            return f"held at the estimate, not at its {told['side']} bound"
        case CapacityReason.NO_BOUND:
            return "held at the estimate; one repetition gives no bound"
        case CapacityReason.ERROR_RATE:
            rate, upper = figure(told, "rate"), figure(told, "upper")
            return f"error rate {100 * rate:.3g} %, upper bound {100 * upper:.3g} %"
        case CapacityReason.LIMIT_NOT_REACHED:
            return "no level breaks the rule: the limit was not reached"
        case _:
            return reason.code


def threshold_reason(reason: Reason, test: str) -> str:
    """What led to the verdict on a threshold. `test`: as written."""
    told = reason.values
    match reason.code:
        case ThresholdReason.BROKEN:
            return f"{_shown(reason)} where {test} was asked"
        case ThresholdReason.NO_VALID_RUN:
            return "failed: no valid run"
        case ThresholdReason.NO_SAMPLE:
            return "failed: no sample"
        case ThresholdReason.NO_CELL:
            return "failed: no cell of this experiment is meant by its `where`"
        case ThresholdReason.NOT_YET:
            return "not judged yet: no valid run so far"
        case ThresholdReason.ABSENT:
            return str(told["absent"])  # of the table of metrics
        case ThresholdReason.FEW_BEYOND:
            return f"only {told['beyond']} of {told['of']} values lie beyond it"
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
    """Where a combination saturates, with the doubt. Loads are numbers here, as in `lower` and `upper`."""
    load = factor_word(found.load_factor)
    if found.verdict == SaturationVerdict.CANNOT_SAY:
        return cannot_say(found)
    no_error = "" if found.has_error else " (one repetition: judged by the means, without an interval)"
    if found.verdict == SaturationVerdict.NOT_REACHED:
        highest = f"{found.lower:g} {load}, the highest level"
        return f"still rises at {highest}: saturation was not reached{no_error}"
    fall = (
        f"; from {found.falls_from:g} {load} on throughput falls again"
        if found.falls_from is not None
        else ""
    )
    tail = f"{fall}{doubt_words(found.doubt)}{no_error}"
    if found.lower is None:
        return f"saturates at or below {found.upper:g} {load}, the lowest level{tail}"
    return f"saturates between {found.lower:g} and {found.upper:g} {load}{tail}"


def cannot_say(found: Saturation) -> str:
    """Why nothing can be said about saturation."""
    match found.reason:
        case SaturationReason.TOO_FEW_LEVELS:
            return f"{found.levels} level of {factor_word(found.load_factor)} is not enough to tell"
        case SaturationReason.NOTHING_SUCCEEDED:
            return "nothing succeeded at any level"
        case SaturationReason.RUNS_DIFFER:
            told = "the runs differ too much to tell whether throughput rises"
            return f"{told}{doubt_words(found.doubt)}"
        case _:
            return "between which loads it saturates cannot be said"


def doubt_words(doubt: Doubt | None) -> str:
    """The gain that cannot be excluded, in brackets; empty where there is none."""
    if doubt is None:
        return ""
    return f" (a gain of up to {100 * doubt.gain:.0f} % at {doubt.at:g} cannot be excluded)"
