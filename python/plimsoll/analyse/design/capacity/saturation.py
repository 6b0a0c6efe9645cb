"""The load from which on throughput does not increase: between two levels that were run, never finer.

Throughput is *flat* from a level on if its elasticity with respect to the load, dlnX/dlnN, is below FLAT from there to
the highest load, and no level beyond it gains more over a lower one than this elasticity yields over their distance
(over a doubling, if they are closer). Three claims are made, each only if the data show it:

- *increases beyond L*: some higher level has more throughput than L. Tested upwards from the lowest level, each against
  all higher ones (Bonferroni), to the first level without an increase.
- *flat from U on*: each of the comparisons behind the definition shows it. Tested downwards, from the highest level
  that has a level at OCTAVE times its load, to the first level that is not shown to be flat.
- *falls from V on*: some lower level has more throughput. Tested downwards from the highest level, each against all
  lower ones (Bonferroni), to the first that does not fall.

The order of the tests does not depend on the data, and the tests end at the first failure. So the probability of a
false claim is that of one test, for any number of levels (closed testing). Rates: tests/stats/test_saturation_rates.py.

With an open load a single run shows whether the target completes it (`overload`): this decides before any comparison.

If comparisons do not decide, a full component of the target can (utilization law, X = U / D; Denning and Buzen,
Computing Surveys 10 (1978) 225): a component with a utilization U completes at most 1 / U times as much, as long as the
service demand of a request is constant. It decides only under these conditions: it is full at two loads or more; it is
not full at a lower one (a service that polls is full at any load); no increase is shown beyond the first of these
loads; and the mean throughputs there rise by less than FLAT. If the demand per request falls with the load (batches),
throughput may still rise.

Rejected: the verdict "not saturated", because a knee just below the highest load cannot be distinguished from none;
gains without regard to the ratio of the loads; the absence of a proven rise as proof of saturation; a slope over all
loads from U on, which averages a rise and a fall; a fitted curve, which is a model for predictions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plimsoll.analyse.results.verdicts import Gain, SaturationReason, SaturationVerdict
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.ladder import Ladder
from plimsoll.analyse.stats.means import PooledError, pooled_error

FLAT = 0.2
"""Elasticity below which throughput is flat: a doubling of the load increases it by less than 2**0.2 - 1 = 15 %."""
OCTAVE = 1.8
"""Minimum ratio of the highest load to the load at which the tests of flatness begin. Smaller ratios need many runs."""
RISE_TAIL = 0.025
FLAT_TAIL = 0.05
FALL_TAIL = 0.025
POWER_QUANTILE = 0.84
"""Quantile of the normal distribution: planned runs decide with a probability of 80 %."""
MAX_RUNS = 100


@dataclass(frozen=True, slots=True)
class Bracket:
    """Throughput increases beyond `lower` and is flat from `upper` on (levels of the load factor).

    `upper` None: not shown to be flat. `lower` None: not shown to increase at all. `falls_from`: the load from which on
    it is shown to be below that of a lower load. `gains`: from each level to the next. `reason`: why there is no
    verdict, or the evidence for the bracket. `doubt`: the gain that is not decided. `more_runs`: number of further runs
    per level that would decide; None: unknown, or over MAX_RUNS.
    """

    verdict: SaturationVerdict
    lower: float | None
    upper: float | None
    falls_from: float | None
    gains: tuple[Gain, ...]
    levels: int
    reason: SaturationReason | None = None
    doubt: Gain | None = None
    more_runs: int | None = None
    has_error: bool = True
    """False: no level has two runs."""


def throughput_error(combinations: Sequence[Mapping[float, Sequence[float]]]) -> PooledError | None:
    """Error of one run's log throughput, pooled over all levels of all combinations. None without repetitions.

    Levels with a run without throughput are left out.
    """
    groups = []
    for levels in combinations:
        for values in levels.values():
            y = np.asarray(values, dtype=np.float64)
            if y.size and float(y.min()) > 0:
                groups.append(np.log(y))
    return pooled_error(groups)


def saturation(
    levels: Mapping[float, Sequence[float]],
    error: PooledError | None,
    overloaded: Collection[float] = (),
    full: Collection[float] = (),
) -> Bracket:
    """Bracket of one combination of the other factors.

    `levels`: throughputs (one per valid run) by level of the load; loads of 0 are left out. `error`: see
    `throughput_error`. `overloaded`: levels of an open load that the target cannot complete. Throughput is flat from
    the level on from which all levels are overloaded, for any result of the comparisons, because throughput rises
    between a level that is completed and one that is not. `full`: levels at which one component of the target is full
    in each run.
    """
    bracket = _bracket_by_comparisons(levels, error)
    if bracket.verdict == SaturationVerdict.CANNOT_SAY:
        bracket = _with_full_component(bracket, levels, full)
    known = sorted(load for load in levels if load > 0 and len(levels[load]))
    rest = [load for load in known if load not in overloaded]
    above = [load for load in known if not rest or load > rest[-1]]
    if not above:
        return bracket
    verdict = SaturationVerdict.BRACKETED if rest else SaturationVerdict.AT_LOWEST
    return replace(
        bracket,
        verdict=verdict if bracket.falls_from is None else SaturationVerdict.RETROGRADE,
        lower=rest[-1] if rest else None,
        upper=above[0],
        reason=SaturationReason.OVERLOADED,
        doubt=None,
        more_runs=None,
    )


def _bracket_by_comparisons(levels: Mapping[float, Sequence[float]], error: PooledError | None) -> Bracket:
    known = {load: list(levels[load]) for load in sorted(levels) if load > 0 and len(levels[load])}
    if len(known) < 2:
        return _undecided(SaturationReason.TOO_FEW_LEVELS, len(known))
    if not any(max(values) > 0 for values in known.values()):
        return _undecided(SaturationReason.NOTHING_SUCCEEDED, len(known))
    alive = _without_dead_end(known)
    if error is None or any(min(values) <= 0 for values in alive.values()):
        reason = SaturationReason.ONE_REPETITION if error is None else SaturationReason.RUNS_DIFFER
        return replace(_undecided(reason, len(known)), has_error=error is not None)
    bracket = _decide(Ladder.of(alive, error)) if len(alive) > 1 else _undecided(None, 1)
    dead = next((load for load in known if load not in alive), None)
    return replace(bracket if dead is None else _with_dead_load(bracket, dead), levels=len(known))


def _with_full_component(
    bracket: Bracket, levels: Mapping[float, Sequence[float]], full: Collection[float]
) -> Bracket:
    """Flat from the lowest load on from which the component is full, unless a measurement contradicts it."""
    known = sorted(load for load in levels if load > 0 and len(levels[load]))
    rest = [load for load in known if load not in full]
    above = [load for load in known if rest and load > rest[-1]]
    if len(above) < 2 or (bracket.lower is not None and bracket.lower >= above[0]):
        return bracket
    if any(min(levels[load]) <= 0 for load in above):
        return bracket
    mean = {load: float(np.log(np.asarray(levels[load])).mean()) for load in above}
    pairs = [(low, high) for low in above for high in above if low < high]
    if any(mean[j] - mean[i] > FLAT * max(math.log(j / i), math.log(2)) for i, j in pairs):
        return bracket
    return replace(bracket, verdict=SaturationVerdict.BRACKETED, upper=above[0], reason=SaturationReason.FULL)


def _undecided(reason: SaturationReason | None, levels: int) -> Bracket:
    return Bracket(SaturationVerdict.CANNOT_SAY, None, None, None, (), levels, reason)


def _without_dead_end(known: Mapping[float, list[float]]) -> dict[float, list[float]]:
    """The levels without the highest loads at which no transaction succeeded in any of two or more runs."""
    alive = dict(known)
    for load in reversed(list(known)):
        if max(known[load]) > 0 or len(known[load]) < 2:
            break
        del alive[load]
    return alive


def _with_dead_load(bracket: Bracket, dead: float) -> Bracket:
    """The bracket, given that no transaction succeeds from the load `dead` on."""
    upper = dead if bracket.upper is None else bracket.upper
    falls = dead if bracket.falls_from is None else bracket.falls_from
    verdict = SaturationVerdict.RETROGRADE
    return Bracket(verdict, bracket.lower, upper, falls, bracket.gains, bracket.levels)


def _decide(ladder: Ladder) -> Bracket:
    verdict, count, start = SaturationVerdict, len(ladder), _first_tested(ladder)
    rises, flat, falls = _rises_beyond(ladder), _flat_from(ladder, start), _falls_from(ladder)
    gains = tuple(_gain(ladder, i, i + 1) for i in range(count - 1))
    ends = [i for i in (flat, falls) if i is not None]
    if ends:
        upper = min(ends)
        lower = None if rises is None or upper == 0 else ladder.loads[min(rises, upper - 1)]
        falls_from = None if falls is None else ladder.loads[falls]
        outcome = verdict.AT_LOWEST if upper == 0 else verdict.BRACKETED
        if falls is not None:
            outcome = verdict.RETROGRADE
        return Bracket(outcome, lower, ladder.loads[upper], falls_from, gains, count)
    lower = None if rises is None else ladder.loads[rises]
    if rises is not None and rises >= start:
        return Bracket(verdict.INCREASED, lower, None, None, gains, count)
    pair = _undecided_pair(ladder, start)
    doubt, more = _gain(ladder, *pair), _more_runs(ladder, *pair)
    reason = SaturationReason.RUNS_DIFFER
    return Bracket(verdict.CANNOT_SAY, lower, None, None, gains, count, reason, doubt, more)


def _first_tested(ladder: Ladder) -> int:
    """The highest level at which flatness can be tested: the highest load is at least OCTAVE times its load."""
    top = len(ladder) - 1
    candidates = [i for i in range(top) if ladder.distance(i, top) >= math.log(OCTAVE)]
    return candidates[-1] if candidates else 0


def _rises_beyond(ladder: Ladder) -> int | None:
    last_rising = None
    for i in range(len(ladder) - 1):
        higher = range(i + 1, len(ladder))
        tail = RISE_TAIL / len(higher)
        if not any(ladder.rise(i, j) > ladder.half_width(i, j, tail) for j in higher):
            break
        last_rising = i
    return last_rising


def _falls_from(ladder: Ladder) -> int | None:
    last_falling = None
    for j in reversed(range(1, len(ladder))):
        tail = FALL_TAIL / j
        if not any(-ladder.rise(i, j) > ladder.half_width(i, j, tail) for i in range(j)):
            break
        last_falling = j
    return last_falling


def _flat_from(ladder: Ladder, start: int) -> int | None:
    last_flat = None
    for i in reversed(range(start + 1)):
        if _excess(ladder, i, len(ladder) - 1, FLAT * ladder.distance(i, len(ladder) - 1)) >= 0:
            break
        if any(_excess(ladder, *pair, _rise_limit(ladder, *pair)) >= 0 for pair in _pairs(ladder, i)):
            break
        last_flat = i
    return last_flat


def _pairs(ladder: Ladder, start: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(start, len(ladder)) for j in range(i + 1, len(ladder))]


def _rise_limit(ladder: Ladder, lower: int, upper: int) -> float:
    return FLAT * max(ladder.distance(lower, upper), math.log(2))


def _excess(ladder: Ladder, lower: int, upper: int, limit: float) -> float:
    """Upper bound of a rise minus the limit; below 0: shown to be flat."""
    return ladder.rise(lower, upper) + ladder.half_width(lower, upper, FLAT_TAIL) - limit


def _gain(ladder: Ladder, lower: int, upper: int) -> Gain:
    rise, half = ladder.rise(lower, upper), ladder.half_width(lower, upper, 0.025)
    bounds = math.expm1(rise - half), math.expm1(rise + half)
    return Gain(ladder.loads[lower], ladder.loads[upper], math.expm1(rise), *bounds)


def _undecided_pair(ladder: Ladder, start: int) -> tuple[int, int]:
    """The two levels whose comparison is furthest from showing flatness."""
    top = len(ladder) - 1
    limits = {pair: _rise_limit(ladder, *pair) for pair in _pairs(ladder, start)}
    limits[start, top] = FLAT * ladder.distance(start, top)
    return max(limits, key=lambda pair: _excess(ladder, pair[0], pair[1], limits[pair]))


def _more_runs(ladder: Ladder, lower: int, upper: int) -> int | None:
    """Number of further runs per level that would show the more likely of an increase and flatness; None: too many."""
    rise, sd = ladder.rise(lower, upper), ladder.sd(lower, upper)
    to_flat = FLAT * ladder.distance(lower, upper) - rise
    tail, margin = (RISE_TAIL, rise) if rise > to_flat else (FLAT_TAIL, to_flat)
    have = min(ladder.runs[lower], ladder.runs[upper])
    for runs in range(have + 1, MAX_RUNS + have):
        needed = (t_quantile(1 - tail, 2 * (runs - 1)) + POWER_QUANTILE) * sd * math.sqrt(2 / runs)
        if needed <= margin:
            return runs - have
    return None
