"""The controller of one search: results in, the next trial or the verdict out. No files, no clock, no random numbers.

`next` computes everything from the results, in the order in which they were measured. A search is therefore resumed by
passing the stored results to a new controller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.search.classify import Bounds, conditional_throughput
from plimsoll.search.evidence import (
    Interval,
    Posterior,
    evidence,
    exceed_interval,
    full_length,
    posterior,
)
from plimsoll.search.goals import Axis, Goal, shortest, trial_seconds
from plimsoll.search.grid import LoadGrid, step_of
from plimsoll.search.strategy import TargetState, candidate, current_target, target_states
from plimsoll.search.trials import Invalid, Rule, Trial, TrialResult, charged
from plimsoll.search.verdict import BoundEvidence, Ending, GoalVerdict, Verdict

REPORTED_WIDTHS = 2
"""The bracket that is reported may have this many times the width of the goal."""
GENERATOR_LIMITED = 2
"""Trials in which the generator was the limit, after which a load above all valid ones counts as out of its reach."""
GENERATOR_BUSY = 6
"""The same for a load below a valid one: the generator reaches it, but is busy with other work for too long."""
INVALID_IN_SEQUENCE = 3
END_CONFIDENCE = 0.99
"""Confidence of the Beta interval by which the lowest load fails, or the highest holds. The interval is computed after
each trial, so its error is several times 1 %."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a search besides its goals. `max_seconds`: of all trials with overheads. `overhead_seconds`: expected
    start, drain, rest and bookkeeping of a trial, until trials have been measured. `max_trials`: of all searches."""

    max_seconds: float
    overhead_seconds: float = 1.5
    max_trials: int = 10_000


@dataclass(frozen=True, slots=True)
class _Step:
    """The state of one goal: a trial that it needs, or why it has ended. `stage`: coarse targets come first."""

    goal: Goal
    stage: int = 0
    trial: Trial | None = None
    ending: Ending | None = None


@dataclass(frozen=True)
class SearchController:
    """One search over `grid` for all `goals`. `start`: the lower end of an earlier bracket; None: the lowest load.
    `warm_up`: whether a first trial is made that does not count."""

    goals: tuple[Goal, ...]
    grid: LoadGrid
    limits: Limits
    axis: Axis = Axis.RATE
    start: float | None = None
    warm_up: bool = True
    search: int = 0

    def next(self, results: Sequence[TrialResult]) -> Trial | Verdict:
        """The next trial after `results`, or the verdict."""
        counted = [result for result in results if result.rule is not Rule.WARM_UP]
        if self.warm_up and not results:
            warm_up = self._warm_up()
            over = self._is_over(results, warm_up)
            return self._verdict(results, counted, Ending.TIME) if over else warm_up
        if self._is_broken(counted):
            return self._verdict(results, counted, Ending.INVALID)
        steps = [self._step(goal, counted) for goal in self.goals]
        open_steps = [step for step in steps if step.trial is not None]
        if not open_steps:
            return self._verdict(results, counted, Ending.GENERATOR)
        trial = min(open_steps, key=lambda step: (step.stage, step.trial.load if step.trial else 0.0)).trial
        assert trial is not None
        if self._is_over(results, trial):
            return self._verdict(results, counted, Ending.TIME)
        last = counted[-1] if counted else None
        if last is not None and last.invalid and last.load == trial.load:
            reason = f"the last trial does not count: {last.invalid.text}"
            return Trial(trial.load, trial.seconds, Rule.REPEAT_INVALID, reason, trial.goal, self.search)
        return trial

    def bracket(self, results: Sequence[TrialResult]) -> Verdict:
        """What is known so far, for a live view or after an interrupt."""
        counted = [result for result in results if result.rule is not Rule.WARM_UP]
        return self._verdict(results, counted, Ending.TIME)

    def _warm_up(self) -> Trial:
        load = self.grid.low if self.start is None else self.grid.at_most(self.start)
        return Trial(load, shortest(self.goals), Rule.WARM_UP, "the service starts cold", "", self.search)

    def _reachable(self, goal: Goal, counted: Sequence[TrialResult]) -> LoadGrid | None:
        """The loads that the generator may reach: up to the highest that counts for the goal, and the middle between
        that and the lowest that it did not reach, unless they are as close as the bounds. None: it reaches no load."""
        tries: dict[float, int] = defaultdict(int)
        for result in counted:
            tries[result.load] += result.invalid is Invalid.GENERATOR and not result.counts_for(goal.name)
        valid = {result.load for result in counted if result.invalid is None}
        most = max(valid, default=0.0)
        limited = (
            load
            for load, n in tries.items()
            if load not in valid and n >= (GENERATOR_LIMITED if load > most else GENERATOR_BUSY)
        )
        beyond = min(limited, default=None)
        if beyond is None:
            return self.grid
        if beyond <= self.grid.low:
            return None
        reached = (result.load for result in counted if result.counts_for(goal.name))
        highest = max((load for load in reached if load < beyond), default=self.grid.low)
        middle = self.grid.middle(highest, beyond)
        if middle is None or self.grid.is_narrow(highest, beyond, step_of(goal.width)):
            return self.grid.to(highest)
        return LoadGrid((*self.grid.to(highest).loads, middle))

    def _is_broken(self, counted: Sequence[TrialResult]) -> bool:
        last = counted[-INVALID_IN_SEQUENCE:]
        without = [r for r in last if r.invalid and r.invalid is not Invalid.GENERATOR and not r.outcomes]
        return len(without) == INVALID_IN_SEQUENCE

    def _is_over(self, results: Sequence[TrialResult], trial: Trial) -> bool:
        spent = charged(results, shortest(self.goals))
        overheads = [result.spent - result.seconds for result in results]
        overhead = sum(overheads) / len(overheads) if overheads else self.limits.overhead_seconds
        too_long = spent + trial.seconds + max(0.0, overhead) > self.limits.max_seconds
        return too_long or len(results) >= self.limits.max_trials

    def _step(self, goal: Goal, counted: Sequence[TrialResult]) -> _Step:
        grid = self._reachable(goal, counted)
        if grid is None:
            return _Step(goal, ending=Ending.GENERATOR)
        by_load = _by_load(goal, counted, grid)
        last = TargetState.of(by_load, goal.name, goal.target, grid)
        if not last.is_done:
            states = target_states(by_load, goal, grid)
            index = current_target(states)
            start = None if self.start is None else grid.at_most(self.start)
            found = candidate(states[index], states[index - 1] if index else None, grid, start)
            seconds = states[index].target.seconds
            trial = self._trial(found.load, goal, seconds, found.rule, found.reason, counted)
            return _Step(goal, index, trial)
        bounds, stage = last.bounds, len(goal.targets())
        if bounds.lower is None or bounds.upper is None:
            return self._at_end(goal, bounds, counted, stage)
        return self._between(goal, counted, grid, stage)

    def _at_end(self, goal: Goal, bounds: Bounds, counted: Sequence[TrialResult], stage: int) -> _Step:
        """The lowest load fails or the highest holds: more trials until its Beta interval excludes `exceed`."""
        load = bounds.lower if bounds.lower is not None else bounds.upper
        assert load is not None, "a target that is done has a bound"
        found = _own(goal, load, counted, END_CONFIDENCE)
        if goal.exceed == 0 or not found.own.contains(goal.exceed):
            fails = bounds.lower is None
            reached = load >= self.grid.high
            held = Ending.HIGHEST_HOLDS if reached else Ending.GENERATOR
            return _Step(goal, ending=Ending.LOWEST_FAILS if fails else held)
        reason = (
            f"{found.high} of {found.trials} trials do not yet exclude an exceed ratio of {goal.exceed:g}"
        )
        return _Step(goal, stage, self._trial(load, goal, goal.final_seconds, Rule.EVIDENCE, reason, counted))

    def _between(self, goal: Goal, counted: Sequence[TrialResult], grid: LoadGrid, stage: int) -> _Step:
        """The bounds are found: more trials until the interval of the load sought is narrow."""
        found = posterior(counted, goal, grid)
        if found is None:
            return _Step(goal, ending=Ending.BRACKET)
        bracket = found.bracket(grid)
        if grid.is_narrow(bracket.low, bracket.high, REPORTED_WIDTHS * step_of(goal.width)):
            return _Step(goal, ending=Ending.BRACKET)
        load = found.most_informative(grid)
        last = counted[-GENERATOR_BUSY:]
        if len(last) == GENERATOR_BUSY and all(r.invalid and r.load == load for r in last):
            return _Step(goal, ending=Ending.GENERATOR)
        reason = f"the bracket {bracket.low:g} to {bracket.high:g} is too wide"
        return _Step(goal, stage, self._trial(load, goal, goal.final_seconds, Rule.EVIDENCE, reason, counted))

    def _trial(
        self,
        load: float,
        goal: Goal,
        seconds: float,
        rule: Rule,
        reason: str,
        counted: Sequence[TrialResult],
    ) -> Trial:
        """A trial with enough starts for its rules."""
        rate = load if self.axis is Axis.RATE else _starts_per_second(load, counted)
        length = trial_seconds(rate, seconds, goal.starts)
        return Trial(load, length, rule, reason, goal.name, self.search)

    def _verdict(
        self,
        results: Sequence[TrialResult],
        counted: Sequence[TrialResult],
        stopped: Ending,
    ) -> Verdict:
        found = tuple(self._goal_verdict(goal, counted, stopped) for goal in self.goals)
        return Verdict(found, len(results), sum(result.spent for result in results))

    def _goal_verdict(
        self,
        goal: Goal,
        counted: Sequence[TrialResult],
        stopped: Ending,
    ) -> GoalVerdict:
        grid = self._reachable(goal, counted) or self.grid
        ending = self._step(goal, counted).ending or stopped
        by_load = _by_load(goal, counted, grid)
        bounds = TargetState.of(by_load, goal.name, goal.target, grid).bounds
        curve = posterior(counted, goal, grid)
        lower, upper = self._bracket(goal, ending, bounds, curve, evidence(counted, goal), grid)
        throughput = None
        if bounds.lower is not None:
            throughput = conditional_throughput(bounds.lower, by_load[bounds.lower], goal.name, goal.target)
        bracketed = lower is not None and upper is not None
        return GoalVerdict(
            goal.name,
            ending,
            bounds,
            None if lower is None else _own(goal, lower, counted, 0.95, curve),
            None if upper is None else _own(goal, upper, counted, 0.95, curve),
            curve.median if curve is not None and bracketed else None,
            throughput,
            1.0 if curve is None else curve.inflation,
        )

    def _bracket(
        self,
        goal: Goal,
        ending: Ending,
        bounds: Bounds,
        curve: Posterior | None,
        full: Sequence[TrialResult],
        grid: LoadGrid,
    ) -> tuple[float | None, float | None]:
        """The ends to report. A side without a relevant bound is open if the interval reaches beyond all full-length
        trials there."""
        if ending is Ending.LOWEST_FAILS:
            return None, grid.low
        if ending in (Ending.HIGHEST_HOLDS, Ending.GENERATOR):
            # With both bounds, too few trials near the load sought are valid: the curve of these states what holds.
            is_between = bounds.lower is not None and bounds.upper is not None
            return (curve.bracket(grid).low if is_between and curve else bounds.lower), None
        if curve is None:
            return (bounds.lower, bounds.upper) if goal.exceed == 0 else (None, None)
        found, loads = curve.bracket(grid), [trial.load for trial in full]
        lower = found.low if bounds.lower is not None or found.low >= min(loads) else None
        return lower, found.high if bounds.upper is not None or found.high <= max(loads) else None


def _by_load(goal: Goal, counted: Sequence[TrialResult], grid: LoadGrid) -> dict[float, list[TrialResult]]:
    by_load: dict[float, list[TrialResult]] = defaultdict(list)
    for result in counted:
        if result.counts_for(goal.name) and result.load <= grid.high:
            by_load[result.load].append(result)
    return dict(by_load)


def _own(
    goal: Goal,
    load: float,
    counted: Sequence[TrialResult],
    confidence: float,
    curve: Posterior | None = None,
) -> BoundEvidence:
    """The full-length trials at one load, with their Beta interval."""
    outcomes = [r.outcomes[goal.name].high_loss for r in full_length(counted, goal) if r.load == load]
    own: Interval = exceed_interval(sum(outcomes), len(outcomes), confidence=confidence)
    shared = None if curve is None else curve.exceed_at(load)
    return BoundEvidence(load, sum(outcomes), len(outcomes), own, shared)


def _starts_per_second(load: float, counted: Sequence[TrialResult]) -> float | None:
    """Starts per second at a load in testers: of the nearest measured load at or below it, which has fewer."""
    known = [r for r in counted if r.starts and r.invalid is None]
    nearest = max((r for r in known if r.load <= load), key=lambda r: r.load, default=None)
    if nearest is None or nearest.starts is None:
        return None
    return nearest.starts / nearest.seconds
