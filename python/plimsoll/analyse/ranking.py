"""Which combination of the factors has the highest nominal capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.analyse.results import Interval, Saturation
from plimsoll.analyse.results_verdicts import CapacityKind, RankingVerdict


@dataclass(frozen=True, slots=True)
class Ranking:
    """The combinations of the highest, the second and the lowest capacity. `times`: highest over lowest."""

    verdict: RankingVerdict
    best: dict[str, str]
    second: dict[str, str]
    worst: dict[str, str]
    times: float | None


def nominal_value(found: Saturation) -> Interval | None:
    """The nominal capacity; None where no valid run has a throughput."""
    return next((each.value for each in found.capacities if each.kind == CapacityKind.NOMINAL), None)


def ranking(ranked: Sequence[Saturation]) -> Ranking | None:
    """Of combinations with the highest capacity first; None where fewer than two are known."""
    known = [(each.combination, value) for each in ranked if (value := nominal_value(each)) is not None]
    if len(known) < 2 or not known[0][0]:
        return None
    (best, most), (second, next_most), (worst, least) = known[0], known[1], known[-1]
    verdict = RankingVerdict.HIGHEST
    if most.low is None or next_most.high is None:
        verdict = RankingVerdict.ONE_OBSERVATION
    elif most.low <= next_most.high:
        verdict = RankingVerdict.NOT_TOLD_APART
    return Ranking(verdict, best, second, worst, most.mean / least.mean if least.mean > 0 else None)
