"""Nominal capacity where the truth is known: how far it lies from the highest true mean, and how often its interval
holds that mean. The long form prints the rates that stand in docs/methods.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from tests.stats.saturation_truths import LONG, NOISES, TRUTHS, Experiment, knee

from plimsoll.analyse.design.capacity import capacity
from plimsoll.analyse.design.capacity.plateau import highest
from plimsoll.analyse.design.capacity.ranking import Contender, ranking
from plimsoll.analyse.design.capacity.rule_bounds import RuleValue
from plimsoll.analyse.design.capacity.saturation import saturation, throughput_error
from plimsoll.analyse.results.analysis import Capacity
from plimsoll.analyse.results.verdicts import CapacityReason, RankingVerdict
from plimsoll.analyse.stats.means import cell_intervals
from plimsoll.analyse.stats.proportion import wilson
from plimsoll.plan.metrics.rules import parse_rule

Levels = Mapping[float, Sequence[float]]
CURVED = [
    "scalability law, contention .1",
    "closed network, three centres",
    "retrograde",
    "slightly retrograde",
    "elasticity .02",
    "elasticity .1",
]


def nominal(levels: Levels) -> Capacity:
    return nominal_of_all([levels])[0]


def nominal_of_all(combinations: Sequence[Levels]) -> list[Capacity]:
    """As `plimsoll.analyse.design.capacity.load_line` does, without blocks."""
    error = throughput_error(combinations)
    every = [values for levels in combinations for values in levels.values()]
    intervals = iter(cell_intervals(every, log=True))
    out = []
    for levels in combinations:
        bracket = saturation(levels, error)
        facts = [capacity.Level(load, next(intervals), [], [], []) for load in levels]
        top = highest(levels, error, bracket)
        out.append(capacity.nominal(facts, top, saturated=bracket.upper is not None))
    return out


def plateau(levels: int) -> tuple[Callable[[float], float], tuple[float, ...]]:
    """Two levels below the plateau, and `levels` on it."""
    return knee(4), tuple(2.0**at for at in range(2 + levels))


@dataclass(frozen=True)
class Rates:
    bias: float
    covered: int
    averaged: float
    experiments: int

    def __str__(self) -> str:
        share = self.covered / self.experiments
        return f"bias {100 * self.bias:+.2f} %, covered {share:.3f}, averaged {self.averaged:.2f}"

    def assert_covered(self) -> None:
        assert wilson(self.covered, self.experiments, confidence=0.98)[1] >= 0.95, str(self)


def rates(truth: Callable[[float], float], loads: tuple[float, ...], sd: float, runs: int, of: int) -> Rates:
    rng, experiment = np.random.default_rng(41), Experiment.of(truth, loads)
    highest_mean = math.exp(experiment.log_throughput.max())
    off, covered, averaged = [], 0, 0
    for _ in range(of):
        capacity_ = nominal(experiment.with_noise(NOISES["constant"](rng, experiment, sd, runs)))
        assert (
            capacity_.value is not None
            and capacity_.value.low is not None
            and capacity_.value.high is not None
        )
        off.append(capacity_.value.mean / highest_mean - 1)
        covered += capacity_.value.low <= highest_mean <= capacity_.value.high
        averaged += bool(capacity_.loads)
    return Rates(float(np.mean(off)), covered, averaged / of, of)


@pytest.mark.parametrize("levels", [1, 3, 5, 8])
def test_the_interval_holds_the_plateau(levels: int) -> None:
    for runs, sd in ((2, 0.01), (3, 0.02), (3, 0.1), (5, 0.033)):
        rates(*plateau(levels), sd, runs, 100).assert_covered()


def test_the_mean_of_a_plateau_has_no_bias() -> None:
    coverage = rates(*plateau(5), 0.02, 5, 200)
    assert coverage.averaged > 0.95 and abs(coverage.bias) < 0.002, str(coverage)


@pytest.mark.parametrize("name", CURVED)
def test_the_interval_holds_the_highest_mean_of_a_curve(name: str) -> None:
    """Nor is a curve that falls, or still rises, averaged down by more than 2.5 %."""
    coverage = rates(TRUTHS[name], LONG, 0.02, 3, 150)
    coverage.assert_covered()
    assert coverage.bias > -0.025, str(coverage)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("levels", [1, 3, 5, 8])
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_the_intervals_hold_plateaus(levels: int, runs: int) -> None:
    for sd in (0.01, 0.02, 0.033, 0.05, 0.1):
        coverage = rates(*plateau(levels), sd, runs, 1000)
        print(f"{levels} levels, {runs} runs, {100 * sd:g} %: {coverage}")
        coverage.assert_covered()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CURVED)
def test_the_intervals_hold_the_highest_means_of_curves(name: str) -> None:
    for runs in (2, 3, 5):
        for sd in (0.01, 0.033, 0.1):
            coverage = rates(TRUTHS[name], LONG, sd, runs, 1000)
            print(f"{name}, {runs} runs, {100 * sd:g} %: {coverage}")
            coverage.assert_covered()
            assert coverage.bias > -0.025


UTILIZATION = parse_rule("avg<80%", "utilization.db")


def usable(levels: Levels, held: Callable[[float], bool]) -> Capacity:
    """As `plimsoll.analyse.design.capacity.load_line` does, for a rule that some loads hold."""
    error = throughput_error([levels])
    intervals = cell_intervals(list(levels.values()), log=True)
    bracket = saturation(levels, error)
    facts = [
        capacity.Level(load, interval, [RuleValue(0.7 if held(load) else 0.9, 0.6, 0.95)], [], [])
        for load, interval in zip(levels, intervals, strict=True)
    ]
    return capacity.usable(
        facts,
        [UTILIZATION],
        lambda loads: highest({load: levels[load] for load in loads}, error, bracket).rivals,
    )


@pytest.mark.parametrize("flat", [0, 1, 3])
def test_the_interval_of_a_usable_capacity_holds_the_highest_mean_of_the_loads_that_meet_the_rule(
    flat: int,
) -> None:
    """Up to 4 testers throughput rises; `flat` more levels with the same throughput meet the rule, and two do not."""
    truth, loads = plateau(3 + flat)
    limit = loads[2 + flat]
    experiment = Experiment.of(truth, loads)
    among = [at for at, load in enumerate(loads) if load <= limit]
    top = math.exp(max(float(experiment.log_throughput[at]) for at in among))
    for runs, sd in ((2, 0.01), (3, 0.02), (3, 0.1), (5, 0.033)):
        rng, covered = np.random.default_rng(43), 0
        for _ in range(150):
            noisy = experiment.with_noise(NOISES["constant"](rng, experiment, sd, runs))
            value = usable(noisy, lambda load: load <= limit).value
            assert value is not None and value.low is not None and value.high is not None
            covered += value.low <= top <= value.high
        assert wilson(covered, 150, confidence=0.98)[1] >= 0.95, f"{runs} runs, {sd}: {covered} of 150"


def around(mean: float) -> list[float]:
    return [mean * 0.99, mean, mean * 1.01]


def test_levels_of_a_plateau_are_averaged() -> None:
    capacity_ = nominal({1: around(100), 2: around(200), 4: around(300), 8: around(303), 16: around(299)})
    assert (
        capacity_.value is not None and capacity_.value.low is not None and capacity_.value.high is not None
    )
    assert (
        capacity_.loads == (4, 8, 16) and capacity_.load == 8 and capacity_.reached and capacity_.rivals == 1
    )
    assert capacity_.value.mean == pytest.approx((300 + 303 + 299) / 3, rel=1e-4)
    assert capacity_.value.low > 295 and capacity_.value.high > 303


def test_levels_beyond_the_peak_are_not_averaged() -> None:
    capacity_ = nominal({1: around(100), 2: around(200), 4: around(300), 8: around(280), 16: around(260)})
    assert capacity_.value is not None and capacity_.loads == () and capacity_.load == 4
    assert capacity_.value.mean == pytest.approx(300)


def test_the_highest_of_levels_without_a_difference_has_a_remark() -> None:
    capacity_ = nominal(
        {1: [100.0, 110, 90], 2: [300.0, 340, 260], 4: [310.0, 350, 270], 8: [290.0, 330, 250]}
    )
    assert capacity_.loads == () and capacity_.rivals == 3
    assert CapacityReason.HIGHEST in [reason.code for reason in capacity_.reasons]
    without_repetitions = nominal({1: [100.0], 2: [200.0], 4: [201.0]})
    assert (
        without_repetitions.value is not None
        and without_repetitions.value.low is None
        and without_repetitions.loads == ()
    )


TIES: Mapping[str, tuple[Callable[[float], float], Callable[[float], float], tuple[float, float]]] = {
    "two plateaus": (knee(4), knee(4), (1, 1)),
    "a quiet and a noisy one": (knee(4), knee(4), (1, 3)),
    "one still rises": (knee(4), lambda n: 4 * (n / 32) ** 0.5, (1, 1)),
    "one slopes": (knee(4), lambda n: min(n, 4 * (n / 32) ** 0.02), (1, 1)),
}
"""Pairs with the same highest mean throughput on the loads of LONG, and the deviations of their runs."""


def ranked_apart(tie: str, sd: float, runs: int, experiments: int) -> int:
    rng, apart = np.random.default_rng(43), 0
    first, second, deviations = TIES[tie]
    curves = [Experiment.of(truth, LONG) for truth in (first, second)]
    for _ in range(experiments):
        combinations = [
            of.with_noise(NOISES["constant"](rng, of, sd * times, runs))
            for of, times in zip(curves, deviations, strict=True)
        ]
        contenders = [
            Contender(
                {"way": str(at)},
                tuple(
                    tuple((None, v) for v in levels[load])
                    for load in (capacity_.loads or (capacity_.load or 0.0,))
                ),
                capacity_.rivals,
            )
            for at, (levels, capacity_) in enumerate(
                zip(combinations, nominal_of_all(combinations), strict=True)
            )
        ]
        result = ranking(contenders)
        apart += result is not None and result.verdict == RankingVerdict.HIGHEST
    return apart


@pytest.mark.parametrize("tie", TIES)
def test_capacities_that_are_equal_are_rarely_ranked(tie: str) -> None:
    for runs, sd in ((2, 0.03), (3, 0.01), (5, 0.03)):
        apart = ranked_apart(tie, sd, runs, 100)
        assert wilson(apart, 100, confidence=0.90)[0] <= 0.05, f"{apart} of 100"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tie", TIES)
def test_equal_capacities_are_rarely_ranked(tie: str) -> None:
    for runs in (2, 3, 5):
        for sd in (0.01, 0.03, 0.1):
            apart = ranked_apart(tie, sd, runs, 1000)
            print(f"{tie}, {runs} runs, {100 * sd:g} %: {apart} of 1000")
            assert wilson(apart, 1000, confidence=0.90)[0] <= 0.05
