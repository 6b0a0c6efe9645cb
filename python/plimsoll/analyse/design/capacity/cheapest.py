"""The level of consistency with the lowest cost: without stale responses, with most reads, with the fewest fetches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.analyse.results.analysis import Consistency
from plimsoll.analyse.results.verdicts import CheapestVerdict
from plimsoll.analyse.stats.interval import Interval


@dataclass(frozen=True, slots=True)
class CheapestLevels:
    """The cheapest levels. `clean`: number of levels without stale responses; `share`: share of stale responses of the
    cheapest level."""

    verdict: CheapestVerdict
    levels: tuple[dict[str, str], ...]
    clean: int
    share: float


def judge_cheapest(levels: Sequence[Consistency]) -> CheapestLevels | None:
    """The verdict on levels with responses; None if there are fewer than two."""
    if len(levels) < 2:
        return None
    cheapest_levels = cheapest(levels)
    clean = sum(not level.stale for level in levels)
    if clean == 0:
        verdict = CheapestVerdict.NONE_CLEAN
    elif clean == 1:
        verdict = CheapestVerdict.ONLY
    else:
        verdict = (
            CheapestVerdict.NOT_TOLD_APART if len(cheapest_levels) == clean else CheapestVerdict.CHEAPEST
        )
    return CheapestLevels(
        verdict, tuple(level.cell for level in cheapest_levels), clean, _share(cheapest_levels[0])
    )


def cheapest(levels: Sequence[Consistency]) -> list[Consistency]:
    """The cheapest levels: of the levels without stale responses (or, if there is none, those with the lowest share)
    the one with the highest throughput of readers; of several without a detected difference, the one with the fewest
    origin fetches per response. Several levels if these are also equal."""
    clean = [level for level in levels if not level.stale]
    least = min(_share(level) for level in levels)
    candidates = clean or [level for level in levels if _share(level) == least]
    known = [level for level in candidates if level.relative_reads is not None]
    if known:
        top = max(known, key=lambda level: _reads(level).mean)
        candidates = [level for level in known if _has_as_many(_reads(level), _reads(top))]
    fewest = min(_fetches(level) for level in candidates)
    return [level for level in candidates if _fetches(level) == fewest]


def _share(level: Consistency) -> float:
    return level.stale / level.answers


def _fetches(level: Consistency) -> float:
    return level.fetches_per_answer or 0.0


def _reads(level: Consistency) -> Interval:
    assert level.relative_reads is not None  # callers pass only levels that have them
    return level.relative_reads


def _has_as_many(reads: Interval, top: Interval) -> bool:
    """Whether no difference between the reads is detected. Both are relative to the same level, whose error every ratio
    contains, so it is enough that the interval of `reads` extends to the mean of `top`."""
    if reads.mean >= top.mean:
        return True
    return reads.high is not None and reads.high >= top.mean
