"""The result of `search:`: a part of the machine-readable result."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.analyse.results.verdicts import RuleId


@dataclass(frozen=True, slots=True)
class SoughtGoal:
    """A goal as written. `width`: largest relative distance of the bounds."""

    name: str
    response: str
    errors: str
    width: float


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """A trial, in order. `why`, `reason`: why the search made it, for which goal (empty: all). By name of the goal:
    `loss_ratio`, the share of the planned starts that failed, did not take place or took longer than the limit, and
    `high_loss`, whether a rule was exceeded; empty if the trial measured nothing. `invalid`: empty: valid."""

    run: str
    search: int
    load: float
    seconds: float
    why: str
    reason: str
    goal: str
    loss_ratio: dict[str, float]
    high_loss: dict[str, bool]
    invalid: str
    spent_s: float


@dataclass(frozen=True, slots=True)
class BracketEnd:
    """An end of a bracket. Of `trials` trials of the final length at this load, `high` exceeded the goal."""

    load: float
    high: int
    trials: int


@dataclass(frozen=True, slots=True)
class OneSearch:
    """What one search found. `lower`, `upper`: null: this end was not found. `estimate`: the load at which a trial
    exceeds the goal with the probability `exceed`. `relevant_lower`, `relevant_upper`, `conditional_throughput`: of
    RFC 9971. `inflation` above 1: trials depended on those before them."""

    ending: str
    lower: BracketEnd | None
    upper: BracketEnd | None
    estimate: float | None
    relevant_lower: float | None
    relevant_upper: float | None
    conditional_throughput: float | None
    inflation: float


@dataclass(frozen=True, slots=True)
class FromAbove:
    """The approach from above: after an overload, `high` of `trials` trials at the lower end exceeded the goal.
    `agrees`: this does not contradict the bracket. `recovers_at`: the highest load at which the goal holds again."""

    load: float
    high: int
    trials: int
    agrees: bool
    recovers_at: float | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Runs at one end of the bracket: `met` of `runs` met the goal."""

    load: float
    is_lower: bool
    met: int
    runs: int


@dataclass(frozen=True, slots=True)
class FoundCapacity:
    """The answer for one goal in one cell. `low`, `high`: 95 % interval of the load over the searches; null with fewer
    than two searches that have a bracket. `lowest_loss`: median loss ratio of the trials at the lowest load."""

    goal: str
    estimate: float | None
    low: float | None
    high: float | None
    searches: tuple[OneSearch, ...]
    lowest_loss: float | None
    from_above: FromAbove | None
    confirmed: tuple[Confirmed, ...]


@dataclass(frozen=True, slots=True)
class SearchCell:
    """A cell of the design, without the load. `capacities`: empty while its search is not finished."""

    cell: dict[str, str]
    capacities: tuple[FoundCapacity, ...]
    trials: tuple[SearchTrial, ...]
    spent_s: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`axis`: what a load counts, a path of the file. `from_load`, `to_load`: the range. `exceed`: the share of trials
    that may exceed a goal; `final_s`: the length of a trial; `repeat`: complete searches."""

    axis: str
    from_load: float
    to_load: float
    goals: tuple[SoughtGoal, ...]
    exceed: float
    final_s: float
    repeat: int
    cells: tuple[SearchCell, ...]
    rule: RuleId
