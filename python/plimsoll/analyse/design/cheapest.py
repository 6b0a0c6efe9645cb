"""Which level of consistency costs least: without stale answers, with the most reads, with the fewest fetches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.analyse.results.analysis import Consistency
from plimsoll.analyse.results.verdicts import CheapestVerdict
from plimsoll.analyse.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest levels. `clean`: levels without stale answers; `share`: stale answers of the cheapest."""

    verdict: CheapestVerdict
    levels: tuple[dict[str, str], ...]
    clean: int
    share: float


def judge_cheapest(told: Sequence[Consistency]) -> Cheapest | None:
    """Of levels that have answers; None of fewer than two."""
    if len(told) < 2:
        return None
    found = cheapest(told)
    clean = sum(not each.stale for each in told)
    if clean == 0:
        verdict = CheapestVerdict.NONE_CLEAN
    elif clean == 1:
        verdict = CheapestVerdict.ONLY
    else:
        verdict = CheapestVerdict.NOT_TOLD_APART if len(found) == clean else CheapestVerdict.CHEAPEST
    return Cheapest(verdict, tuple(each.cell for each in found), clean, _share(found[0]))


def cheapest(told: Sequence[Consistency]) -> list[Consistency]:
    """Of the levels without stale answers (or, if there is none, those with the lowest share) the one with the
    highest throughput of readers; of several without a detected difference, the one with the fewest origin fetches per
    answer. More than one where these are equal, too."""
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
    """Whether no difference between the reads is detected. Both are relative to the same level, whose own error is in
    every other ratio, so an interval that reaches the other's mean is enough."""
    if one.mean >= top.mean:
        return True
    return one.high is not None and one.high >= top.mean
