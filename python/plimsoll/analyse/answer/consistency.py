"""The cost of consistency, in sentences: stale answers and their age beside throughput and origin fetches."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.analyse.answer.words import MAX_SENTENCES, capital
from plimsoll.analyse.design.cheapest import Cheapest, judge_cheapest
from plimsoll.analyse.results.analysis import Analysis, Consistency
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import CheapestVerdict, Finding, Topic, Value
from plimsoll.analyse.results.wording import (
    count,
    factor_word,
    level_words,
    listing,
    number,
    percent,
    percent_range,
    plural,
    quantity,
)


def of_consistency(analysis: Analysis) -> list[Finding]:
    """The cheapest level without stale answers, or the one with the fewest, and a sentence on each level; nothing
    where no tester read versions."""
    found = analysis.consistency
    if found is None:
        return []
    told = [each for each in found.levels or found.cells if each.answers]
    if not told:
        text = "No answer contained a version, so stale answers cannot be detected."
        return [Finding(Topic.READERS, text)]
    said = _judged(told, found.factor) if found.levels else []
    if len(told) > MAX_SENTENCES:
        text = f"The table lists the results of the readers at {count(len(told))} levels."
        return [*said, Finding(Topic.READERS, text)]
    most = next((each for each in told if _is_most(each)), None) if len(told) > 1 else None
    return [*said, *(Finding(Topic.READERS, _sentence(each, most)) for each in told)]


def _judged(told: Sequence[Consistency], factor: str | None) -> list[Finding]:
    found = judge_cheapest(told)
    if found is None:
        return []
    values: dict[str, Value] = {
        "levels": tuple(level_words(cell) for cell in found.levels),
        "clean": found.clean,
        "share": found.share,
    }
    text = _cheapest(found, factor)
    return [Finding(Topic.CHEAPEST, text, found.verdict, values, rule(RuleName.CHEAPEST))]


def _is_most(each: Consistency) -> bool:
    """Whether the others' throughput is relative to this one."""
    reads = each.relative_reads
    return reads is not None and reads.low == reads.high == 1.0


def _cheapest(found: Cheapest, factor: str | None) -> str:
    names = listing(map(level_words, found.levels))
    one = len(found.levels) == 1
    word = f"level of {factor_word(factor)}" if factor else "level"
    match found.verdict:
        case CheapestVerdict.NONE_CLEAN:
            has = "has" if one else "have"
            return f"Every {word} has stale answers; {names} {has} the fewest ({percent(found.share)})."
        case CheapestVerdict.ONLY:
            return f"Only {names} has no stale answers."
        case CheapestVerdict.NOT_TOLD_APART:
            return f"{capital(names)} have no stale answers; no difference in their cost was detected."
        case CheapestVerdict.CHEAPEST:
            are = "is" if one else "are"
            return f"Of the {count(found.clean)} levels without stale answers, {names} {are} the cheapest."


def _sentence(each: Consistency, most: Consistency | None) -> str:
    head = f"With {level_words(each.cell)}, " if each.cell else ""
    parts = [_stale(each, starts=not head), _throughput(each, most), _origin(each)]
    return f"{head}{'; '.join(part for part in parts if part)}."


def _stale(each: Consistency, *, starts: bool) -> str:
    interval = each.stale_share
    known = interval is not None and interval.low is not None and interval.high is not None
    if not each.stale:
        bound = f" (at most {percent(interval.high, 2)})" if interval is not None and known else ""
        return f"{'None' if starts else 'none'} of {plural(each.answers, 'answer')} was stale{bound}"
    share = percent(each.stale / each.answers if interval is None else interval.mean)
    if interval is not None and interval.low is not None and interval.high is not None:
        share += f" ({percent_range(interval.low, interval.high)})"
    return f"{share} of the answers were stale{_age(each)}"


def _age(each: Consistency) -> str:
    if each.stale_age_ms_p95 is not None:
        return f", 95 % of them by at most {quantity(each.stale_age_ms_p95, 'ms')}"
    oldest = each.stale_age_ms_max
    return "" if oldest is None else f", by at most {quantity(oldest, 'ms')}"


def _throughput(each: Consistency, most: Consistency | None) -> str:
    reads = each.relative_reads
    if most is None or reads is None:
        return ""
    if each is most:
        return "the readers' throughput is the highest"
    ends = (
        "" if reads.low is None or reads.high is None else f" ({number(reads.low)} to {number(reads.high)})"
    )
    return f"the readers' throughput is {number(reads.mean)}{ends} times that of {level_words(most.cell)}"


def _origin(each: Consistency) -> str:
    fetches = each.fetches_per_answer
    if fetches is None:
        return ""
    if fetches >= 0.9995:
        return "every answer came from the origin"
    return (
        f"{number(fetches)} origin fetches per answer" if fetches else "nothing was fetched from the origin"
    )
