"""The lowest level of a factor that meets the rules of `capacity`, in sentences."""

from __future__ import annotations

from typing import Final

from plimsoll.analyse.results.analysis import Analysis
from plimsoll.analyse.results.load.sufficient import SufficiencyVerdict, SufficientLevel
from plimsoll.analyse.results.verdicts import Finding, Topic, Value
from plimsoll.analyse.results.wording import factor_word, level_words, listing

MAX_SENTENCES: Final = 4


def of_sufficient(analysis: Analysis) -> tuple[Finding, ...]:
    """A sentence for each of the first combinations."""
    return tuple(map(_finding, analysis.sufficient[:MAX_SENTENCES]))


def _finding(found: SufficientLevel) -> Finding:
    values: dict[str, Value] = {
        "factor": found.factor,
        "level": found.level,
        "below": found.below,
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
            text = f"{where}{rules} {holds} already with the lowest level, {word} {found.level:g}"
        case SufficiencyVerdict.NONE:
            text = f"{where}{rules} {do_not} with any level up to {word} {found.below:g}"
        case _:
            doubt = "" if found.is_shown is not False else "; the intervals do not show it"
            text = (
                f"{where}{rules} {holds} from {word} {found.level:g} on, and not with {found.below:g}{doubt}"
            )
    return f"{text}{_computed(found, word)}."


def _computed(found: SufficientLevel, word: str) -> str:
    if found.computed is None:
        return ""
    return f". Computed from the throughput with {word} {found.from_level:g}: at least {found.computed:.3g}"
