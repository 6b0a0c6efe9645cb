"""The result of a search: its controller replays the stored trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from plimsoll.analyse.results.load.search import (
    RATE,
    BracketEnd,
    Confirmed,
    FoundCapacity,
    FromAbove,
    MeasuredThroughput,
    OneSearch,
    SearchCell,
    SearchResult,
    SearchTrial,
    SoughtGoal,
)
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.stats.quantiles import Buckets
from plimsoll.assemble.adaptive.search_request import capacity_search, quantile_of, result_of, rules_of
from plimsoll.collect.decisions import NAME
from plimsoll.collect.results import Results
from plimsoll.errors import DamagedResults
from plimsoll.plan.model.search import Search
from plimsoll.search.capacity import CapacitySearch, CapacityVerdict
from plimsoll.search.classify import Bounds
from plimsoll.search.evidence import evidence
from plimsoll.search.progress import bounds_after
from plimsoll.search.trials import TrialResult
from plimsoll.search.verdict import BoundEvidence, GoalVerdict


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """What the run of a trial measured: its response times with failures, and successful transactions per second."""

    response: Buckets
    throughput_per_s: float


NOTHING: Mapping[str, MeasuredTrial] = {}


def search_result(results: Results, measured: Mapping[str, MeasuredTrial] = NOTHING) -> SearchResult | None:
    """The result of the search of a results directory; None if it has none. `measured`: by id of the run. Raises
    DamagedResults."""
    record = results.plan.get("search")
    if record is None:
        return None
    try:
        search = Search.from_json(record)
        lines: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
        for line in results.decisions:
            if "result" in line:
                lines.setdefault(tuple(line["cell"].items()), []).append(line)
        found = (_cell(search, results.plan, own, measured) for own in lines.values())
        cells = tuple(sorted(found, key=_file_order(results.plan)))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedResults(
            f"{results.path / NAME} does not have the form of a search: {error!r}"
        ) from error
    return SearchResult(
        axis=search.axis,
        from_load=search.low,
        to_load=search.high,
        goals=tuple(SoughtGoal(goal.name, goal.response, goal.errors, goal.width) for goal in search.goals),
        exceed=search.exceed,
        final_s=search.final_s,
        repeat=search.repeat,
        cells=cells,
        rule=rule(RuleName.SEARCH),
    )


def _file_order(plan: Mapping[str, Any]) -> Callable[[SearchCell], tuple[int, ...]]:
    """A key that sorts cells by their levels in the order of the file."""
    levels = {factor["name"]: factor["levels"] for factor in plan["factors"]}

    def key(cell: SearchCell) -> tuple[int, ...]:
        return tuple(
            known.index(cell.cell[name]) if cell.cell.get(name) in known else -1
            for name, known in levels.items()
        )

    return key


def _cell(
    search: Search,
    plan: Mapping[str, Any],
    lines: Sequence[dict[str, Any]],
    measured: Mapping[str, MeasuredTrial],
) -> SearchCell:
    results = [result_of(line) for line in lines]
    starts = (one["load"] for one in plan.get("search_starts", ()) if one["cell"] == lines[0]["cell"])
    whole = capacity_search(search, plan["seed"], next(starts, None))
    step = whole.next(results)
    bounds = bounds_after(whole, results)
    trials = tuple(
        _trial(search, line, result, after, measured.get(line["run"]))
        for line, result, after in zip(lines, results, bounds, strict=True)
    )
    capacities: tuple[FoundCapacity, ...] = ()
    if isinstance(step, CapacityVerdict):
        capacities = tuple(_capacity(goal.name, whole, step, results, trials) for goal in search.goals)
    return SearchCell(dict(lines[0]["cell"]), capacities, trials, sum(result.spent for result in results))


def _trial(
    search: Search,
    line: dict[str, Any],
    result: TrialResult,
    bounds: Mapping[str, Bounds],
    measured: MeasuredTrial | None,
) -> SearchTrial:
    return SearchTrial(
        run=line["run"],
        search=result.search,
        load=result.load,
        seconds=result.seconds,
        why=str(result.rule),
        reason=line["reason"],
        goal=line["goal"],
        loss_ratio={name: outcome.loss_ratio for name, outcome in result.outcomes.items()},
        high_loss={name: outcome.high_loss for name, outcome in result.outcomes.items()},
        percentile_ms={} if measured is None else _percentiles(search, measured.response),
        bounds={goal: (found.lower, found.upper) for goal, found in bounds.items()},
        throughput_per_s=None if measured is None else measured.throughput_per_s,
        invalid="" if result.invalid is None else str(result.invalid),
        spent_s=result.spent,
    )


def _percentiles(search: Search, response: Buckets) -> dict[str, float | None]:
    """The percentile that each goal limits, in ms."""
    found: dict[str, float | None] = {}
    for goal in search.goals:
        rule, _ = rules_of(goal.response, goal.errors)
        if rule is not None:
            quantile = response.quantile(quantile_of(rule), failed=True)
            found[goal.name] = None if quantile is None else quantile / 1e6
    return found


def _capacity(
    goal: str,
    search: CapacitySearch,
    verdict: CapacityVerdict,
    results: Sequence[TrialResult],
    trials: Sequence[SearchTrial],
) -> FoundCapacity:
    found = verdict[goal]
    losses = [
        result.outcomes[goal].loss_ratio
        for result in results
        if result.load == search.grid.low and result.invalid is None
    ]
    descent = next((one for one in verdict.descents if one.goal == goal), None)
    return FoundCapacity(
        goal=goal,
        estimate=found.estimate,
        low=None if found.interval is None else found.interval.low,
        high=None if found.interval is None else found.interval.high,
        searches=tuple(_one_search(one, search.axis) for one in found.searches),
        throughput=_throughput(goal, search, verdict, results, trials),
        lowest_loss=median(losses) if losses else None,
        from_above=None
        if descent is None
        else FromAbove(descent.load, descent.high, descent.trials, descent.agrees, descent.recovers_at),
        confirmed=tuple(
            Confirmed(one.load, one.is_lower, one.met, one.runs)
            for one in verdict.confirmations
            if one.goal == goal
        ),
    )


def _throughput(
    name: str,
    search: CapacitySearch,
    verdict: CapacityVerdict,
    results: Sequence[TrialResult],
    trials: Sequence[SearchTrial],
) -> MeasuredThroughput | None:
    """The measured throughput at the lower bound of each search."""
    goal = next(one for one in search.goals if one.name == name)
    bounds = [one[name].bounds.lower for one in verdict.searches]
    counted = {id(result) for result in evidence(results, goal)}
    rates = [
        trial.throughput_per_s
        for trial, result in zip(trials, results, strict=True)
        if id(result) in counted
        and result.search < len(bounds)
        and result.load == bounds[result.search]
        and trial.throughput_per_s is not None
    ]
    return MeasuredThroughput(len(rates), fmean(rates), min(rates), max(rates)) if rates else None


def _one_search(found: GoalVerdict, axis: str) -> OneSearch:
    return OneSearch(
        ending=str(found.ending),
        lower=_end(found.lower),
        upper=_end(found.upper),
        estimate=found.estimate,
        relevant_lower=found.bounds.lower,
        relevant_upper=found.bounds.upper,
        conditional_throughput=found.throughput if axis == RATE else None,
        inflation=found.inflation,
    )


def _end(bound: BoundEvidence | None) -> BracketEnd | None:
    return None if bound is None else BracketEnd(bound.load, bound.high, bound.trials)
