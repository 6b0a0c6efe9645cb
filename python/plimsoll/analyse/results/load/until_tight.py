"""The result of `repetitions: {until: ...}`: a part of the machine-readable result."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.results.verdicts import RuleId


@dataclass(frozen=True, slots=True)
class TightCell:
    """A cell after its last repetition. `widths`: half widths of the intervals as shares of the estimates, by metric
    (None: no interval); `is_tight`: all of them are at most the wanted ones."""

    cell: dict[str, str]
    repetitions: int
    widths: dict[str, float | None]
    is_tight: bool


@dataclass(frozen=True, slots=True)
class UntilTightResult:
    """`wanted`: half widths as shares of the estimates, by metric; `at_least`, `at_most`: repetitions."""

    wanted: dict[str, float]
    at_least: int
    at_most: int
    cells: tuple[TightCell, ...]
    rule: RuleId
