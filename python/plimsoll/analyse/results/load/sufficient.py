"""The lowest level of a factor that meets the rules of `capacity`: how many instances of a service suffice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.analyse.results.verdicts import RuleId


class SufficiencyVerdict(StrEnum):
    """Verdicts on the levels of a factor."""

    SUFFICES = "suffices"
    """The rules hold from a level on, and not at the next lower one."""
    LOWEST = "the lowest suffices"
    NONE = "none suffices"


@dataclass(frozen=True, slots=True)
class SufficientLevel:
    """Whether the rules of `capacity` hold at the levels of one factor with numbers, in one combination of the other
    factors and the load. `level`: the lowest one at which they hold (None: none); `below`: the next lower one, at which
    one of them does not hold (None: there is none). `value`, `value_below`: the values of the first rule at both, in
    its unit. `is_shown`: whether the intervals over the runs state the same; None: no interval. `computed`: the level
    that the asymptotic bound requires for the first rule (None: it does not apply), from the throughput at the level
    `from_level`."""

    factor: str
    combination: dict[str, str]
    rules: tuple[str, ...]
    verdict: SufficiencyVerdict
    level: float | None
    below: float | None
    value: float | None
    value_below: float | None
    is_shown: bool | None
    computed: float | None
    from_level: float | None
    rule: RuleId | None = None
