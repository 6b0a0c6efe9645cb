"""Where a combination saturates, as `text` beside its verdict. Loads are numbers here, as in `lower` and `upper`."""

from __future__ import annotations

from plimsoll.analyse.results import Saturation
from plimsoll.analyse.results_verdicts import Doubt, SaturationReason, SaturationVerdict
from plimsoll.analyse.wording import factor_word


def bracket_text(found: Saturation) -> str:
    """The verdict in words, with what cannot be excluded."""
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
