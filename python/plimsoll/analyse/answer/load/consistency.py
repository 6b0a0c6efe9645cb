"""The cost of consistency, in sentences: stale responses and their age, with throughput and origin fetches."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.analyse.answer.words import MAX_SENTENCES, capital
from plimsoll.analyse.design.capacity.cheapest import CheapestLevels, judge_cheapest
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
    """The cheapest level without stale responses, or the one with the fewest, and a sentence on each level. Empty if no
    tester reads versions."""
    result = analysis.consistency
    if result is None:
        return []
    levels = [level for level in result.levels or result.cells if level.answers]
    if not levels:
        text = "No answer contained a version, so stale answers cannot be detected."
        return [Finding(Topic.READERS, text)]
    cheapest_findings = _cheapest_findings(levels, result.factor) if result.levels else []
    if len(levels) > MAX_SENTENCES:
        text = f"The table lists the results of the readers at {count(len(levels))} levels."
        return [*cheapest_findings, Finding(Topic.READERS, text)]
    most_reads = (
        next((level for level in levels if _has_most_reads(level)), None) if len(levels) > 1 else None
    )
    return [*cheapest_findings, *(Finding(Topic.READERS, _sentence(level, most_reads)) for level in levels)]


def _cheapest_findings(levels: Sequence[Consistency], factor: str | None) -> list[Finding]:
    cheapest = judge_cheapest(levels)
    if cheapest is None:
        return []
    values: dict[str, Value] = {
        "levels": tuple(level_words(cell) for cell in cheapest.levels),
        "clean": cheapest.clean,
        "share": cheapest.share,
    }
    text = _cheapest_sentence(cheapest, factor)
    return [Finding(Topic.CHEAPEST, text, cheapest.verdict, values, rule(RuleName.CHEAPEST))]


def _has_most_reads(level: Consistency) -> bool:
    """Whether the throughput of the other levels is relative to this one."""
    reads = level.relative_reads
    return reads is not None and reads.low == reads.high == 1.0


def _cheapest_sentence(cheapest: CheapestLevels, factor: str | None) -> str:
    names = listing(map(level_words, cheapest.levels))
    is_single = len(cheapest.levels) == 1
    word = f"level of {factor_word(factor)}" if factor else "level"
    match cheapest.verdict:
        case CheapestVerdict.NONE_CLEAN:
            has = "has" if is_single else "have"
            return f"Every {word} has stale answers; {names} {has} the fewest ({percent(cheapest.share)})."
        case CheapestVerdict.ONLY:
            return f"Only {names} has no stale answers."
        case CheapestVerdict.NOT_TOLD_APART:
            return f"{capital(names)} have no stale answers; no difference in their cost was detected."
        case CheapestVerdict.CHEAPEST:
            are = "is" if is_single else "are"
            return f"Of the {count(cheapest.clean)} levels without stale answers, {names} {are} the cheapest."


def _sentence(level: Consistency, most_reads: Consistency | None) -> str:
    head = f"With {level_words(level.cell)}, " if level.cell else ""
    parts = [_stale(level, starts=not head), _throughput(level, most_reads), _origin(level)]
    return f"{head}{'; '.join(part for part in parts if part)}."


def _stale(level: Consistency, *, starts: bool) -> str:
    interval = level.stale_share
    known = interval is not None and interval.low is not None and interval.high is not None
    if not level.stale:
        bound = f" (at most {percent(interval.high, 2)})" if interval is not None and known else ""
        return f"{'None' if starts else 'none'} of {plural(level.answers, 'answer')} was stale{bound}"
    share = percent(level.stale / level.answers if interval is None else interval.mean)
    if interval is not None and interval.low is not None and interval.high is not None:
        share += f" ({percent_range(interval.low, interval.high)})"
    return f"{share} of the answers were stale{_age(level)}"


def _age(level: Consistency) -> str:
    if level.stale_age_ms_p95 is not None:
        return f", 95 % of them by at most {quantity(level.stale_age_ms_p95, 'ms')}"
    oldest = level.stale_age_ms_max
    return "" if oldest is None else f", by at most {quantity(oldest, 'ms')}"


def _throughput(level: Consistency, most_reads: Consistency | None) -> str:
    reads = level.relative_reads
    if most_reads is None or reads is None:
        return ""
    if level is most_reads:
        return "the readers' throughput is the highest"
    ends = (
        "" if reads.low is None or reads.high is None else f" ({number(reads.low)} to {number(reads.high)})"
    )
    return (
        f"the readers' throughput is {number(reads.mean)}{ends} times that of {level_words(most_reads.cell)}"
    )


def _origin(level: Consistency) -> str:
    fetches = level.fetches_per_answer
    if fetches is None:
        return ""
    if fetches >= 0.9995:
        return "every answer came from the origin"
    return (
        f"{number(fetches)} origin fetches per answer" if fetches else "nothing was fetched from the origin"
    )
