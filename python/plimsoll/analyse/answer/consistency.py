"""What how much consistency costs, in sentences: stale answers and their age beside throughput and origin fetches."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.analyse.answer.words import MOST_SENTENCES, capital
from plimsoll.analyse.results import Analysis, Consistency, Interval
from plimsoll.analyse.wording import (
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


def of_consistency(analysis: Analysis) -> list[str]:
    """The level that is cheapest without stale answers, or with the fewest, and a sentence on each; nothing where
    nobody read versions."""
    found = analysis.consistency
    if found is None:
        return []
    told = [each for each in found.levels or found.cells if each.answers]
    if not told:
        return ["No answer told its version, so nothing can be said about stale ones."]
    said = _cheapest(told, found.factor) if found.levels else []
    if len(told) > MOST_SENTENCES:
        return [*said, f"What readers got at {count(len(told))} levels stands in the table."]
    most = next((each for each in told if _is_most(each)), None) if len(told) > 1 else None
    return [*said, *(_sentence(each, most) for each in told)]


def cheapest(told: Sequence[Consistency]) -> list[Consistency]:
    """Of the levels without stale answers (or, if there is none, those with the lowest share) the one at which readers
    got most; of several that cannot be told apart in this, the one with the fewest origin fetches per answer. More than
    one where these are equal too."""
    none = [each for each in told if not each.stale]
    least = min(_share(each) for each in told)
    left = none or [each for each in told if _share(each) == least]
    known = [each for each in left if each.relative_reads is not None]
    if known:
        top = max(known, key=lambda each: _reads(each).mean)
        left = [each for each in known if _as_many(_reads(each), _reads(top))]
    fewest = min(_fetches(each) for each in left)
    return [each for each in left if _fetches(each) == fewest]


def _share(each: Consistency) -> float:
    return each.stale / each.answers


def _fetches(each: Consistency) -> float:
    return each.fetches_per_answer or 0.0


def _reads(each: Consistency) -> Interval:
    assert each.relative_reads is not None  # asked of levels that have them
    return each.relative_reads


def _as_many(one: Interval, top: Interval) -> bool:
    """Whether the reads cannot be told apart. Both are relative to the same level, whose own error is in every other
    ratio, so an interval that reaches the other's mean is enough."""
    if one.mean >= top.mean:
        return True
    return one.high is not None and one.high >= top.mean


def _is_most(each: Consistency) -> bool:
    """Whether the others' throughput is relative to this one."""
    reads = each.relative_reads
    return reads is not None and reads.low == reads.high == 1.0


def _cheapest(told: Sequence[Consistency], factor: str | None) -> list[str]:
    if len(told) < 2:
        return []
    found = cheapest(told)
    names = listing(level_words(each.cell) for each in found)
    clean = sum(not each.stale for each in told)
    word = f"level of {factor_word(factor)}" if factor else "level"
    if clean == 0:
        are = "has" if len(found) == 1 else "have"
        return [
            f"No {word} is without stale answers; {names} {are} the fewest ({percent(_share(found[0]))})."
        ]
    if clean == 1:
        return [f"Only {names} is without stale answers."]
    if len(found) == clean:
        return [f"{capital(names)} are without stale answers, and their costs cannot be told apart."]
    are = "is" if len(found) == 1 else "are"
    return [f"Of {count(clean)} levels without stale answers {names} {are} the cheapest."]


def _sentence(each: Consistency, most: Consistency | None) -> str:
    head = f"With {level_words(each.cell)} " if each.cell else ""
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
        return "readers got most answers"
    ends = (
        "" if reads.low is None or reads.high is None else f" ({number(reads.low)} to {number(reads.high)})"
    )
    return f"readers got {number(reads.mean)}{ends} times the answers of {level_words(most.cell)}"


def _origin(each: Consistency) -> str:
    fetches = each.fetches_per_answer
    if fetches is None:
        return ""
    if fetches >= 0.9995:
        return "every answer came from the origin"
    return (
        f"{number(fetches)} origin fetches per answer" if fetches else "nothing was fetched from the origin"
    )
