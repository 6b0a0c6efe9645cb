"""What a stored trial says about the goals of a search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from plimsoll.analyse.design.goals import LossCounts, outcome_of
from plimsoll.analyse.results.verdicts import RunReason, Severity
from plimsoll.analyse.window.transactions import OK, Window
from plimsoll.assemble.asked import AnalysisRequest
from plimsoll.assemble.one_run import measured_window, one_run
from plimsoll.assemble.options import Options
from plimsoll.assemble.search_request import quantile_of, rules_of
from plimsoll.assemble.window import transactions_of
from plimsoll.collect.live import seconds_of
from plimsoll.collect.results import Results, RunFiles
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.model_search import Search
from plimsoll.search.trials import GoalOutcome, Invalid, Trial, TrialResult

_BY_GENERATOR: Final = frozenset({RunReason.TESTER_CPU, RunReason.LATENESS, RunReason.STARTED})
"""Reasons of an invalid run that state that the load generator was the limit."""


def trial_result(
    trial: Trial, run: RunFiles | None, results: Results, search: Search, spent_s: float
) -> TrialResult:
    """The result of a trial. `run`: its files; None: there are none. `spent_s`: wall time with start, drain, rest and
    bookkeeping."""
    invalid, outcomes, starts = _outcomes(run, results, search)
    return TrialResult(
        load=trial.load,
        seconds=trial.seconds,
        outcomes=outcomes,
        rule=trial.rule,
        search=trial.search,
        spent_seconds=round(spent_s, 3),
        starts=starts,
        invalid=invalid,
    )


def _outcomes(
    run: RunFiles | None, results: Results, search: Search
) -> tuple[Invalid | None, dict[str, GoalOutcome], int | None]:
    if run is None or run.summary is None or run.transactions is None:
        return Invalid.OTHER, {}, None
    measured = measured_window(run, Options())
    if measured is None:
        return Invalid.OTHER, {}, None
    is_cut = run.record["status"] == "ceiling"
    invalid = None if is_cut else _invalid(run, results, measured)
    rules = {goal.name: rules_of(goal.response, goal.errors) for goal in search.goals}
    counts = _counts(run, measured, [response for response, _ in rules.values() if response is not None])
    if counts.planned == 0:
        return invalid or Invalid.OTHER, {}, 0
    outcomes = {}
    for name, (response, errors) in rules.items():
        quantile = None if response is None else quantile_of(response)
        found = outcome_of(counts, response, quantile, errors)
        outcomes[name] = GoalOutcome(found.high_loss or is_cut, found.loss_ratio)
    return invalid, outcomes, counts.planned


def _invalid(run: RunFiles, results: Results, measured: Window) -> Invalid | None:
    """Why the run says nothing about the service; None if it is valid."""
    if run.record["status"] != "done":
        return Invalid.OTHER
    found, _, _ = one_run(run, results, Options(), measured, AnalysisRequest(results.plan))
    against = {reason.code for reason in found.reasons if reason.severity == Severity.INVALID}
    if against & _BY_GENERATOR:
        return Invalid.GENERATOR
    return Invalid.OTHER if against else None


def _counts(run: RunFiles, measured: Window, rules: Sequence[Rule]) -> LossCounts:
    """The planned starts of the window, whenever they ended."""
    planned = failed = 0
    limits = dict.fromkeys((rule.value, rule.op) for rule in rules)
    late = dict.fromkeys(limits, 0)
    for chunk in transactions_of(run).chunks():
        inside = chunk.take((chunk.scheduled >= measured.start) & (chunk.scheduled < measured.end))
        lost = (inside.outcome != OK) | (inside.end < 0)
        planned += len(inside)
        failed += int(np.count_nonzero(lost))
        response = (inside.end - inside.scheduled)[~lost] / 1e9
        for limit, op in limits:
            above = response > limit if op == "<=" else response >= limit
            late[limit, op] += int(np.count_nonzero(above))
    dropped = _dropped(run, measured)
    return LossCounts(planned + dropped, failed + dropped, late)


def _dropped(run: RunFiles, measured: Window) -> int:
    """Planned starts that did not take place, without those of the warm-up."""
    assert run.summary is not None
    before: Iterable[int] = (
        second.dropped for second in seconds_of(run.live) if (second.number + 1) * 10**9 <= measured.start
    )
    return int(run.summary["counters"]["dropped"]) - sum(before)
