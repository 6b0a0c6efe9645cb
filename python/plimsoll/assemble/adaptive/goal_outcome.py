"""What a stored trial says about the goals of a search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from plimsoll.analyse.design.capacity.goals import LossCounts, invalid_by, loss_is_upper_limit, outcome_of
from plimsoll.analyse.results.verdicts import RunReason, Severity
from plimsoll.analyse.window.transactions import OK, Window
from plimsoll.assemble.adaptive.search_request import quantile_of, rules_of
from plimsoll.assemble.run.asked import AnalysisRequest
from plimsoll.assemble.run.one_run import measured_window, one_run
from plimsoll.assemble.run.options import Options
from plimsoll.assemble.run.window import transactions_of
from plimsoll.collect.live import seconds_of
from plimsoll.collect.results import Results, RunFiles
from plimsoll.plan.metrics.rules import Rule
from plimsoll.plan.model.search import Search
from plimsoll.search.trials import GoalOutcome, Invalid, Trial, TrialResult

_LOST: Final = frozenset({"agent-lost", "engine-lost"})
"""States of runs that ended because their agent was lost."""


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
    if run is not None and run.record["status"] in _LOST:
        return Invalid.LOST_DATA, {}, None
    if run is None or run.summary is None or run.transactions is None:
        return Invalid.NOT_FINISHED, {}, None
    measured = measured_window(run, Options())
    if measured is None:
        return Invalid.NOT_FINISHED, {}, None
    is_cut = run.record["status"] == "ceiling"
    rules = {goal.name: rules_of(goal.response, goal.errors) for goal in search.goals}
    counts = _counts(run, measured, [response for response, _ in rules.values() if response is not None])
    if counts.planned == 0:
        return Invalid.OTHER, {}, 0
    outcomes = {}
    for name, (response, errors) in rules.items():
        quantile = None if response is None else quantile_of(response)
        found = outcome_of(counts, response, quantile, errors)
        outcomes[name] = GoalOutcome(found.high_loss or is_cut, found.loss_ratio)
    if is_cut:
        return None, outcomes, counts.planned
    request = AnalysisRequest(results.plan)
    against = _against(run, results, measured, request)
    if against:
        is_open = run.record["plans_starts"]
        is_limit = is_open and loss_is_upper_limit(against, counts, request.validity.started)
        outcomes = {name: one for name, one in outcomes.items() if is_limit and not one.high_loss}
    return invalid_by(against), outcomes, counts.planned


def _against(
    run: RunFiles, results: Results, measured: Window, request: AnalysisRequest
) -> frozenset[RunReason]:
    """The reasons for which the run is invalid."""
    if run.record["status"] != "done":
        return frozenset({RunReason.NOT_FINISHED})
    found, _, _ = one_run(run, results, Options(), measured, request)
    return frozenset(
        RunReason(reason.code) for reason in found.reasons if reason.severity == Severity.INVALID
    )


def _counts(run: RunFiles, measured: Window, rules: Sequence[Rule]) -> LossCounts:
    """The planned starts of the window, whenever they ended."""
    planned = failed = made = 0
    limits = dict.fromkeys((rule.value, rule.op) for rule in rules)
    late = dict.fromkeys(limits, 0)
    for chunk in transactions_of(run).chunks():
        inside = chunk.take((chunk.scheduled >= measured.start) & (chunk.scheduled < measured.end))
        lost = (inside.outcome != OK) | (inside.end < 0)
        planned += len(inside)
        failed += int(np.count_nonzero(lost))
        made += int(np.count_nonzero((inside.start >= 0) & (inside.start < measured.end)))
        response = (inside.end - inside.scheduled)[~lost] / 1e9
        for limit, op in limits:
            above = response > limit if op == "<=" else response >= limit
            late[limit, op] += int(np.count_nonzero(above))
    dropped = _dropped(run, measured)
    return LossCounts(planned + dropped, failed + dropped, late, made)


def _dropped(run: RunFiles, measured: Window) -> int:
    """Planned starts that did not take place, without those of the warm-up."""
    assert run.summary is not None
    before: Iterable[int] = (
        second.dropped for second in seconds_of(run.live) if (second.number + 1) * 10**9 <= measured.start
    )
    return int(run.summary["counters"]["dropped"]) - sum(before)
