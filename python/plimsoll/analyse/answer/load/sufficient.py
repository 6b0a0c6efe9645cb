"""The lowest level of a factor that meets the rules of `capacity`, in sentences."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.sufficient import SufficiencyVerdict, SufficientLevel
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import factor_word, level_words, listing, plural

MAX_SENTENCES: Final = 4


def of_sufficient(analysis: Analysis) -> tuple[Finding, ...]:
    """A sentence for each of the first combinations."""
    return tuple(map(_finding, analysis.sufficient[:MAX_SENTENCES]))


def _finding(found: SufficientLevel) -> Finding:
    values: dict[str, Value] = {
        "factor": found.factor,
        "level": found.level,
        "below": found.below,
        "more_runs": found.more_runs,
        "computed": found.computed,
        "from_level": found.from_level,
    }
    return Finding(Topic.SUFFICIENT, sufficient_sentence(found), found.verdict, values, found.rule)


def sufficient_sentence(found: SufficientLevel) -> str:
    """The sentence on one factor."""
    where = f"With {level_words(found.combination)}, " if found.combination else ""
    word, rules = factor_word(found.factor), listing(found.rules)
    is_one = len(found.rules) == 1
    holds, do_not = ("holds", "does not hold") if is_one else ("hold", "do not hold together")
    match found.verdict:
        case SufficiencyVerdict.LOWEST:
            text = f"{rules} {holds} already with the lowest level, {word} {found.level:g}"
        case SufficiencyVerdict.NONE:
            text = f"{rules} {do_not} with any level up to {word} {found.below:g}"
        case SufficiencyVerdict.SUFFICES:
            text = f"{rules} {holds} from {word} {found.level:g} on, and not with {found.below:g}"
        case _:
            start = "the" if where else "The"
            text = f"{start} runs do not show whether {rules} {holds} with {word} {_between(found)}"
            text += _shown(found, "It" if is_one else "They", holds, do_not)
    return f"{where}{text}{_computed(found, word)}."


def _between(found: SufficientLevel) -> str:
    """The levels that are not decided, with the number of runs that would decide them."""
    first, *others = found.between
    levels = f"{first:g}" if not others else f"{first:g} {'to' if others[1:] else 'and'} {others[-1]:g}"
    if found.more_runs is None:
        return levels
    return f"{levels} (about {plural(found.more_runs, 'more run')} per level needed)"


def _shown(found: SufficientLevel, subject: str, holds: str, do_not: str) -> str:
    """What the runs show at the other levels."""
    if found.level is None:
        return "" if found.below is None else f". {subject} {do_not} with {found.below:g}"
    not_below = "" if found.below is None else f", and not with {found.below:g}"
    return f". {subject} {holds} from {found.level:g} on{not_below}"


def _computed(found: SufficientLevel, word: str) -> str:
    if found.computed is None:
        return ""
    return f". Computed from the throughput with {word} {found.from_level:g}: at least {found.computed:.3g}"
