"""The result of `search:`: a part of the machine-readable result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plimsoll.analyse.results.verdicts import RuleId
from plimsoll.analyse.stats.interval import Interval
from plimsoll.search.verdict import Ending

RATE: Final = "load.rate"
CAPACITIES: Final[Mapping[str, tuple[str, str]]] = {
    RATE: ("capacity_per_s", "requests/s"),
    "load.testers": ("capacity_testers", "testers"),
    "load.per_host": ("capacity_per_host", "testers per host"),
}
"""By axis: the first part of the name of a capacity as a response, and its unit. The second part is the goal."""


def capacity_name(axis: str, goal: str) -> str:
    """The name of the capacity for a goal as a response: `capacity_per_s.interactive`."""
    return f"{CAPACITIES[axis][0]}.{goal}"


def is_capacity(name: str) -> bool:
    """Whether a name is that of a capacity as a response."""
    return capacity_unit(name) is not None


def capacity_unit(name: str) -> str | None:
    """The unit of a capacity as a response; None for other names."""
    first, dot, _ = name.partition(".")
    return next((unit for known, unit in CAPACITIES.values() if dot and first == known), None)


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
    `high_loss`, whether a rule was exceeded; empty if the trial measured nothing. `percentile_ms`: by name of each goal
    with a limit of the response time, the percentile that it limits over the planned starts; null: it is among those
    that failed or did not take place. `bounds`: by name of the goal, the bounds of its search after this trial (RFC
    9971; of a coarser target until the goal itself has both); null: there is none. `throughput_per_s`: successful
    transactions. `invalid`: empty: valid."""

    run: str
    search: int
    load: float
    seconds: float
    why: str
    reason: str
    goal: str
    loss_ratio: dict[str, float]
    high_loss: dict[str, bool]
    percentile_ms: dict[str, float | None]
    bounds: dict[str, tuple[float | None, float | None]]
    throughput_per_s: float | None
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
    RFC 9971; the last one is null for loads in testers, which are no throughput. `inflation` above 1: trials depended
    on those before them."""

    ending: str
    lower: BracketEnd | None
    upper: BracketEnd | None
    estimate: float | None
    relevant_lower: float | None
    relevant_upper: float | None
    conditional_throughput: float | None
    inflation: float


@dataclass(frozen=True, slots=True)
class MeasuredThroughput:
    """Successful transactions per second in the valid trials of the final length at the relevant lower bounds of the
    searches: their number, mean, lowest and highest."""

    trials: int
    mean: float
    low: float
    high: float


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
    than two searches that have a bracket. `throughput`: null without such trials. `lowest_loss`: median loss ratio of
    the trials at the lowest load."""

    goal: str
    estimate: float | None
    low: float | None
    high: float | None
    searches: tuple[OneSearch, ...]
    throughput: MeasuredThroughput | None
    lowest_loss: float | None
    from_above: FromAbove | None
    confirmed: tuple[Confirmed, ...]

    @property
    def is_measured(self) -> bool:
        """Whether a search ended by what the service did, not by the load generator or by invalid trials."""
        return any(one.ending not in (Ending.GENERATOR, Ending.INVALID) for one in self.searches)


@dataclass(frozen=True, slots=True)
class SearchCell:
    """A cell of the design, without the load. `capacities`: empty while its search is not finished."""

    cell: dict[str, str]
    capacities: tuple[FoundCapacity, ...]
    trials: tuple[SearchTrial, ...]
    spent_s: float


@dataclass(frozen=True, slots=True)
class CapacityRatio:
    """The capacity for a goal with `level` of a factor, divided by that with `base`, the first of its levels.

    `ratio`: geometric mean over the combinations of the other factors, with its interval within the blocks (Bonferroni
    over the ratios of the goal). `over`: the other factors. `depends_on`: those whose interaction with the factor is
    detected, so the ratio differs between their levels."""

    goal: str
    factor: str
    level: str
    base: str
    ratio: Interval
    over: tuple[str, ...]
    depends_on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`axis`: what a load counts, a path of the file. `from_load`, `to_load`: the range. `exceed`: the share of trials
    that may exceed a goal; `final_s`: the length of a trial; `repeat`: complete searches. `ratios`: empty without
    factors, and with fewer than two searches of each cell."""

    axis: str
    from_load: float
    to_load: float
    goals: tuple[SoughtGoal, ...]
    exceed: float
    final_s: float
    repeat: int
    cells: tuple[SearchCell, ...]
    rule: RuleId
    ratios: tuple[CapacityRatio, ...] = ()
