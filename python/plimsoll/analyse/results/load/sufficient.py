"""The lowest level of a factor that meets the rules of `capacity`: how many instances of a service suffice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.analyse.results.verdicts import RuleId


class SufficiencyVerdict(StrEnum):
    """Verdicts on the levels of a factor."""

    SUFFICES = "suffices"
    """The rules are shown to hold from a level on, and not to hold at the next lower one."""
    LOWEST = "the lowest suffices"
    NONE = "none suffices"
    UNDECIDED = "undecided"
    """The runs do not show at some levels whether the rules hold."""


@dataclass(frozen=True, slots=True)
class SufficientLevel:
    """Whether the rules of `capacity` hold at the levels of one factor with numbers, in one combination of the other
    factors and the load. `level`: the lowest one from which on they are shown to hold (None: none); `below`: the
    highest one up to which one of them is shown not to hold (None: none). `value`, `value_below`: the values of the
    first rule at both, in its unit. `between`: the levels at which the intervals over the runs show neither;
    `more_runs`: number of further runs of each of them that would decide (None: none is needed, too many, or unknown
    because a level has one run). `computed`: the level that the asymptotic bound requires for the first rule (None: it
    does not apply), from the throughput at the level `from_level`."""

    factor: str
    combination: dict[str, str]
    rules: tuple[str, ...]
    verdict: SufficiencyVerdict
    level: float | None
    below: float | None
    value: float | None
    value_below: float | None
    between: tuple[float, ...]
    more_runs: int | None
    computed: float | None
    from_level: float | None
    rule: RuleId | None = None
