"""All searches of one cell of the design: complete searches, an approach from above, and runs that confirm the bounds.

Like `SearchController`, `CapacitySearch.next` computes everything from the results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plimsoll.search.classify import LoadClass, Sums, classify
from plimsoll.search.combined import Capacity, combine
from plimsoll.search.controller import Limits, SearchController
from plimsoll.search.evidence import Interval, exceed_interval
from plimsoll.search.goals import Axis, Goal, shortest, trial_seconds
from plimsoll.search.grid import LoadGrid
from plimsoll.search.trials import Rule, Trial, TrialResult, charged
from plimsoll.search.verdict import Verdict

OVERLOAD = math.log(2)
"""Distance of the trial that overloads the service before the approach from above, in log load."""
MAX_INVALID = 3


@dataclass(frozen=True, slots=True)
class Descent:
    """The approach from above for one goal. `load`: the lower end of the bracket; `high` of `trials` had high loss
    there after an overload. `recovers_at`: the highest load at which the goal holds again; None: at none, or not
    searched because both directions agree."""

    goal: str
    load: float
    high: int
    trials: int
    exceed: Interval
    agrees: bool
    recovers_at: float | None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Runs at one end of a bracket, in random order with those at the other ends: `met` of `runs` met the goal."""

    goal: str
    load: float
    is_lower: bool
    met: int
    runs: int


@dataclass(frozen=True, slots=True)
class CapacityVerdict:
    """The answer for one cell. `descents`, `confirmations`: empty if not asked for, or without a bracket."""

    capacities: tuple[Capacity, ...]
    descents: tuple[Descent, ...]
    confirmations: tuple[Confirmation, ...]
    searches: tuple[Verdict, ...]
    trials: int
    spent_seconds: float

    def __getitem__(self, goal: str) -> Capacity:
        return next(found for found in self.capacities if found.goal == goal)


@dataclass(frozen=True)
class CapacitySearch:
    """`repeat` complete searches, each with an equal part of the time that remains; then, if asked for, an approach
    from above (`hysteresis`), and `confirm` runs at each end of each bracket, in an order drawn with `seed`.

    The numbers of the searches (`Trial.search`) are 0 to `repeat` - 1, then `repeat` (from above) and `repeat` + 1.
    Later searches start at the lower end of the first bracket, with their own trials. If a search ends for all goals
    without a bracket (the lowest load fails, the highest holds, the generator is the limit), there is no further
    one. `start`: the lower end of an earlier bracket (`--like`)."""

    goals: tuple[Goal, ...]
    grid: LoadGrid
    limits: Limits
    axis: Axis = Axis.RATE
    repeat: int = 1
    start: float | None = None
    hysteresis: bool = False
    confirm: int = 0
    seed: int = 0

    def next(self, results: Sequence[TrialResult]) -> Trial | CapacityVerdict:
        """The next trial after `results`, or the answer."""
        verdicts: list[Verdict] = []
        left, trials = self.limits.max_seconds - self._reserved(), self.limits.max_trials
        for number in range(self.repeat):
            own = [result for result in results if result.search == number]
            limits = replace(self.limits, max_seconds=left / (self.repeat - number), max_trials=trials)
            step = self._controller(number, limits, verdicts).next(own)
            if isinstance(step, Trial):
                return step
            verdicts.append(step)
            left -= charged(own, shortest(self.goals))
            trials -= len(own)
            if all(found.ending.is_final for found in step.goals):
                break
        later = self._from_above(results, verdicts) or self._confirming(results, verdicts)
        if later is not None and not self._is_over(results, later):
            return later
        return self._verdict(results, verdicts)

    def _controller(self, number: int, limits: Limits, before: Sequence[Verdict]) -> SearchController:
        lowest = min((low for low, _ in self._brackets(before).values()), default=None)
        start = self.start if lowest is None else lowest
        return SearchController(self.goals, self.grid, limits, self.axis, start, number == 0, number)

    def _brackets(self, verdicts: Sequence[Verdict]) -> dict[str, tuple[float, float]]:
        """Ends of the bracket of each goal, from the first search that has one."""
        return {
            found.goal: (found.lower.load, found.upper.load)
            for verdict in reversed(verdicts)
            for found in verdict.goals
            if found.lower is not None and found.upper is not None
        }

    def _reserved(self) -> float:
        """Time kept for the approach from above and the confirming runs."""
        trials = sum((2 * self.confirm + (1 + _size(goal)) * self.hysteresis) for goal in self.goals)
        longest = max(goal.final_seconds for goal in self.goals)
        return min(self.limits.max_seconds / 2, trials * (longest + self.limits.overhead_seconds))

    def _is_over(self, results: Sequence[TrialResult], trial: Trial) -> bool:
        spent = charged(results, shortest(self.goals))
        too_long = spent + trial.seconds + self.limits.overhead_seconds > self.limits.max_seconds
        return too_long or len(results) >= self.limits.max_trials

    def _trial(self, load: float, goal: Goal, rule: Rule, reason: str, number: int) -> Trial:
        rate = load if self.axis is Axis.RATE else None
        seconds = trial_seconds(rate, goal.final_seconds, goal.starts)
        return Trial(load, seconds, rule, reason, goal.name, number)

    def _from_above(self, results: Sequence[TrialResult], verdicts: Sequence[Verdict]) -> Trial | None:
        """An overload, then trials at the lower end of each bracket; if the goal fails there, lower loads until it
        holds."""
        brackets = self._brackets(verdicts)
        if not self.hysteresis or not brackets:
            return None
        made = [result for result in results if result.search == self.repeat]
        ordered = sorted((g for g in self.goals if g.name in brackets), key=lambda g: -brackets[g.name][0])
        if not made:
            load = self.grid.up(max(high for _, high in brackets.values()), OVERLOAD)
            reason = "it overloads the service before the approach from above"
            return self._trial(load, ordered[0], Rule.FROM_ABOVE, reason, self.repeat)
        if _invalid_in_sequence(made):
            return None
        for goal in ordered:
            below = self._next_below(goal, brackets[goal.name][0], made[1:])
            if below is not None:
                reason = "it shows whether the goal also holds after an overload"
                return self._trial(below, goal, Rule.FROM_ABOVE, reason, self.repeat)
        return None

    def _next_below(self, goal: Goal, lower: float, made: Sequence[TrialResult]) -> float | None:
        """The load of the next trial from above: the lower end of the bracket, and if the goal fails there, loads
        below it in doubling steps until it holds."""
        step, load = goal.target.log_width, lower
        while True:
            here = _outcomes(made, goal, load)
            if load == lower:
                if len(here) < _size(goal):
                    return load
                if exceed_interval(sum(here), len(here)).low <= goal.exceed:
                    return None
            else:
                match classify(Sums.of(_at(made, load), goal.name, goal.final_seconds), goal.target):
                    case LoadClass.UNDECIDED:
                        return load
                    case LoadClass.LOWER:
                        return None
            if load <= self.grid.low:
                return None
            load, step = self.grid.down(load, step), 2 * step

    def _descents(self, results: Sequence[TrialResult], verdicts: Sequence[Verdict]) -> list[Descent]:
        made = [result for result in results if result.search == self.repeat][1:]
        found = []
        for goal in self.goals:
            lower = self._brackets(verdicts).get(goal.name, (0.0, 0.0))[0]
            here = _outcomes(made, goal, lower)
            if not here:
                continue
            exceed = exceed_interval(sum(here), len(here))
            agrees = exceed.low <= goal.exceed
            recovered = [
                load
                for load in {result.load for result in made if result.load < lower}
                if classify(Sums.of(_at(made, load), goal.name, goal.final_seconds), goal.target)
                is LoadClass.LOWER
            ]
            recovers_at = None if agrees else max(recovered, default=None)
            found.append(Descent(goal.name, lower, sum(here), len(here), exceed, agrees, recovers_at))
        return found

    def _confirming(self, results: Sequence[TrialResult], verdicts: Sequence[Verdict]) -> Trial | None:
        number = self.repeat + 1
        made = [result for result in results if result.search == number]
        valid = sum(result.invalid is None for result in made)
        order = self._order(verdicts)
        if valid >= len(order) or _invalid_in_sequence(made):
            return None
        goal, load, is_lower = order[valid]
        reason = f"it confirms the {'lower' if is_lower else 'upper'} end of the bracket"
        return self._trial(load, goal, Rule.CONFIRM, reason, number)

    def _order(self, verdicts: Sequence[Verdict]) -> list[tuple[Goal, float, bool]]:
        brackets = self._brackets(verdicts)
        runs = [
            (goal, end, end == brackets[goal.name][0])
            for goal in self.goals
            if goal.name in brackets
            for end in brackets[goal.name]
            for _ in range(self.confirm)
        ]
        return [runs[i] for i in np.random.default_rng(self.seed).permutation(len(runs))]

    def _confirmations(
        self, results: Sequence[TrialResult], verdicts: Sequence[Verdict]
    ) -> list[Confirmation]:
        made = [r for r in results if r.search == self.repeat + 1 and r.invalid is None]
        found: dict[tuple[str, float, bool], list[bool]] = {}
        for (goal, load, is_lower), result in zip(self._order(verdicts), made, strict=False):
            met = not result.outcomes[goal.name].high_loss
            found.setdefault((goal.name, load, is_lower), []).append(met)
        return [
            Confirmation(name, load, is_lower, sum(met), len(met))
            for (name, load, is_lower), met in sorted(found.items())
        ]

    def _verdict(self, results: Sequence[TrialResult], verdicts: Sequence[Verdict]) -> CapacityVerdict:
        capacities = tuple(
            combine(goal.name, [found[goal.name] for found in verdicts]) for goal in self.goals
        )
        return CapacityVerdict(
            capacities,
            tuple(self._descents(results, verdicts)),
            tuple(self._confirmations(results, verdicts)),
            tuple(verdicts),
            len(results),
            sum(result.spent for result in results),
        )


def _size(goal: Goal) -> int:
    """Trials at the lower end from above: as many as make the sum, and at least the 6 that can exclude one half."""
    return max(6, math.ceil(goal.sum_seconds / goal.final_seconds))


def _at(made: Sequence[TrialResult], load: float) -> list[TrialResult]:
    return [result for result in made if result.load == load]


def _outcomes(made: Sequence[TrialResult], goal: Goal, load: float) -> list[bool]:
    return [r.outcomes[goal.name].high_loss for r in _at(made, load) if r.invalid is None]


def _invalid_in_sequence(made: Sequence[TrialResult]) -> bool:
    last = made[-MAX_INVALID:]
    return len(last) == MAX_INVALID and all(result.invalid is not None for result in last)
