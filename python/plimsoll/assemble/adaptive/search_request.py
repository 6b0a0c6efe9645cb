"""From `search:` of a plan to the searches of its cells, and from trials.jsonl to the results of trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from plimsoll.plan.metrics.rules import Rule, parse_rule
from plimsoll.plan.model.search import Search
from plimsoll.search.capacity import CapacitySearch
from plimsoll.search.controller import Limits
from plimsoll.search.goals import Axis, Goal, starts_for_rules
from plimsoll.search.grid import LoadGrid
from plimsoll.search.trials import GoalOutcome, Invalid, Trial, TrialResult
from plimsoll.search.trials import Rule as Why

_MEDIAN: Final = 0.5


def capacity_search(search: Search, seed: int, start: float | None = None) -> CapacitySearch:
    """The search of one cell. `seed`: of the order of confirming runs; `start`: the first load, None: the lowest."""
    width = min(goal.width for goal in search.goals)
    return CapacitySearch(
        goals=tuple(_goal(search, number) for number in range(len(search.goals))),
        grid=LoadGrid.of(search.low, search.high, width, whole=search.is_whole),
        limits=Limits(search.max_time_s, search.overhead_s),
        axis=Axis(search.axis),
        repeat=search.repeat,
        start=start,
        hysteresis=search.hysteresis,
        confirm=search.confirm,
        seed=seed,
    )


def _goal(search: Search, number: int) -> Goal:
    goal = search.goals[number]
    response, errors = rules_of(goal.response, goal.errors)
    return Goal(
        goal.name,
        search.final_s,
        search.initial_s,
        search.sum_s,
        search.exceed,
        goal.width,
        starts_for_rules(
            [] if response is None else [quantile_of(response)],
            [] if errors is None or errors.value >= 1 else [errors.value],
        ),
    )


def rules_of(response: str, errors: str) -> tuple[Rule | None, Rule | None]:
    """The rules of a goal, from their texts."""
    return (
        parse_rule(response, "response") if response else None,
        parse_rule(errors, "errors") if errors else None,
    )


def quantile_of(rule: Rule) -> float:
    """The quantile that a rule limits, as a share of 1."""
    return _MEDIAN if rule.arg is None else rule.arg / 100


def line_of(trial: Trial, run: str, cell: Mapping[str, str]) -> dict[str, Any]:
    """The line of a trial in trials.jsonl, before it is made."""
    return {
        "run": run,
        "cell": dict(cell),
        "search": trial.search,
        "load": trial.load,
        "seconds": trial.seconds,
        "rule": str(trial.rule),
        "reason": trial.reason,
        "goal": trial.goal,
    }


def result_record(result: TrialResult) -> dict[str, Any]:
    """The result of a trial in its line of trials.jsonl."""
    return {
        "goals": {
            name: {"high_loss": outcome.high_loss, "loss_ratio": outcome.loss_ratio}
            for name, outcome in result.outcomes.items()
        },
        "starts": result.starts,
        "spent_s": result.spent_seconds,
        "invalid": None if result.invalid is None else str(result.invalid),
    }


def result_of(line: Mapping[str, Any]) -> TrialResult:
    """The result of a trial, from its line. Raises KeyError, TypeError or ValueError if the line has another form."""
    found = line["result"]
    return TrialResult(
        load=line["load"],
        seconds=line["seconds"],
        outcomes={
            name: GoalOutcome(outcome["high_loss"], outcome["loss_ratio"])
            for name, outcome in found["goals"].items()
        },
        rule=Why(line["rule"]),
        search=line["search"],
        spent_seconds=found["spent_s"],
        starts=found["starts"],
        invalid=None if found["invalid"] is None else Invalid(found["invalid"]),
    )
