"""The result of a search: its controller replays the stored trials."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from plimsoll.analyse.results.search import (
    BracketEnd,
    Confirmed,
    FoundCapacity,
    FromAbove,
    OneSearch,
    SearchCell,
    SearchResult,
    SearchTrial,
    SoughtGoal,
)
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.assemble.search_request import capacity_search, result_of
from plimsoll.collect.decisions import NAME
from plimsoll.collect.results import Results
from plimsoll.errors import DamagedResults
from plimsoll.plan.model_search import Search
from plimsoll.search.capacity import CapacityVerdict
from plimsoll.search.trials import TrialResult
from plimsoll.search.verdict import BoundEvidence, GoalVerdict


def search_result(results: Results) -> SearchResult | None:
    """The result of the search of a results directory; None if it has none. Raises DamagedResults."""
    record = results.plan.get("search")
    if record is None:
        return None
    try:
        search = Search.from_json(record)
        lines: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
        for line in results.decisions:
            if "result" in line:
                lines.setdefault(tuple(line["cell"].items()), []).append(line)
        cells = tuple(_cell(search, results.plan["seed"], own) for own in lines.values())
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


def _cell(search: Search, seed: int, lines: Sequence[dict[str, Any]]) -> SearchCell:
    results = [result_of(line) for line in lines]
    step = capacity_search(search, seed).next(results)
    capacities: tuple[FoundCapacity, ...] = ()
    if isinstance(step, CapacityVerdict):
        capacities = tuple(_capacity(goal.name, step, results, search.low) for goal in search.goals)
    trials = tuple(_trial(line, result) for line, result in zip(lines, results, strict=True))
    return SearchCell(dict(lines[0]["cell"]), capacities, trials, sum(result.spent for result in results))


def _trial(line: dict[str, Any], result: TrialResult) -> SearchTrial:
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
        invalid="" if result.invalid is None else str(result.invalid),
        spent_s=result.spent,
    )


def _capacity(
    goal: str, verdict: CapacityVerdict, results: Sequence[TrialResult], lowest: float
) -> FoundCapacity:
    found = verdict[goal]
    losses = [
        result.outcomes[goal].loss_ratio
        for result in results
        if result.load == lowest and result.invalid is None
    ]
    descent = next((one for one in verdict.descents if one.goal == goal), None)
    return FoundCapacity(
        goal=goal,
        estimate=found.estimate,
        low=None if found.interval is None else found.interval.low,
        high=None if found.interval is None else found.interval.high,
        searches=tuple(map(_one_search, found.searches)),
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


def _one_search(found: GoalVerdict) -> OneSearch:
    return OneSearch(
        ending=str(found.ending),
        lower=_end(found.lower),
        upper=_end(found.upper),
        estimate=found.estimate,
        relevant_lower=found.bounds.lower,
        relevant_upper=found.bounds.upper,
        conditional_throughput=found.throughput,
        inflation=found.inflation,
    )


def _end(bound: BoundEvidence | None) -> BracketEnd | None:
    return None if bound is None else BracketEnd(bound.load, bound.high, bound.trials)
