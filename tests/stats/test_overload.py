"""The verdict on overload for known loads: how often it is false, and from which overload on it is detected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from plimsoll.analyse.results.verdicts import OverloadVerdict
from plimsoll.analyse.run.traffic import BINS
from plimsoll.analyse.run.validity.overload import overload
from plimsoll.analyse.stats.proportion import clopper_pearson

Times = NDArray[np.float64]
RUNS = 300
MAX_FALSE = 0.05


def queue(arrivals: Times, service: Times) -> Times:
    """Departures of one server, first come, first served (Lindley)."""
    served = np.cumsum(service)
    return served + np.maximum.accumulate(arrivals - np.concatenate([[0.0], served[:-1]]))


def mm1(rng: np.random.Generator, rate: float, rho: float, seconds: float) -> tuple[Times, Times]:
    arrivals = np.cumsum(rng.exponential(1 / rate, int(rate * seconds * 1.3) + 50))
    return arrivals, queue(arrivals, rng.exponential(rho / rate, arrivals.size))


def md1(rng: np.random.Generator, rate: float, rho: float, seconds: float) -> tuple[Times, Times]:
    """Even arrivals, fixed service."""
    arrivals = np.arange(1, int(rate * seconds * 1.1)) / rate
    return arrivals, queue(arrivals, np.full(arrivals.size, rho / rate))


def slow(rng: np.random.Generator, rate: float, rho: float, seconds: float) -> tuple[Times, Times]:
    """Any number in parallel, each takes `rho` of the window: at its start no transaction ends for that time."""
    arrivals = np.cumsum(rng.exponential(1 / rate, int(rate * seconds * 1.3) + 50))
    return arrivals, arrivals + rho * seconds


def stalls(rng: np.random.Generator, rate: float, rho: float, seconds: float) -> tuple[Times, Times]:
    """No transaction ends in the last `rho` of the window."""
    arrivals = np.cumsum(rng.exponential(1 / rate, int(rate * seconds * 1.3) + 50))
    ends = arrivals + 0.001
    return arrivals, np.where(ends > (1 - rho) * seconds, ends + 10 * seconds, ends)


Target = Callable[[np.random.Generator, float, float, float], tuple[Times, Times]]


def verdicts_of(
    target: Target, rate: float, rho: float, seconds: float, warmup: float = 0.0
) -> list[OverloadVerdict]:
    rng = np.random.default_rng(17)
    out = []
    for _ in range(RUNS):
        arrivals, ends = target(rng, rate, rho, seconds + warmup)
        edges = warmup + np.linspace(0, seconds, BINS + 1)
        result = overload(np.histogram(arrivals, edges)[0], np.histogram(ends, edges)[0], seconds)
        assert result is not None
        out.append(result.verdict)
    return out


@pytest.mark.parametrize(
    ("target", "rate", "rho", "seconds", "warmup"),
    [
        *[
            (mm1, rate, rho, s, w)
            for rate in (20, 200)
            for rho in (0.5, 0.8, 0.95)
            for s, w in ((10, 0), (60, 5))
        ],
        (mm1, 1000, 0.99, 20, 2),
        (md1, 100, 0.9, 10, 0),
        (md1, 500, 0.999, 10, 0),
        (slow, 100, 0.1, 10, 0),
        (slow, 100, 0.45, 10, 0),
        (stalls, 100, 0.05, 20, 0),
        (stalls, 1000, 0.15, 20, 0),
    ],
)
def test_a_target_that_keeps_up_is_rarely_called_overloaded(
    target: Target, rate: float, rho: float, seconds: float, warmup: float
) -> None:
    false = verdicts_of(target, rate, rho, seconds, warmup).count(OverloadVerdict.OVERLOADED)
    assert clopper_pearson(false, RUNS)[0] <= MAX_FALSE, f"{false} of {RUNS}"


@pytest.mark.parametrize(
    ("rate", "over", "seconds", "least"),
    [
        (120, 1.92, 10, 0.99),
        (600, 1.5, 8, 0.99),
        (100, 1.2, 20, 0.9),
        (200, 1.1, 60, 0.9),
        (1000, 1.05, 30, 0.8),
    ],
)
def test_an_overload_is_found(rate: float, over: float, seconds: float, least: float) -> None:
    overloads = verdicts_of(mm1, rate, over, seconds).count(OverloadVerdict.OVERLOADED)
    assert overloads >= least * RUNS, f"{overloads} of {RUNS}"


@pytest.mark.long
def test_to_keep_up_is_only_stated_where_it_is_shown() -> None:
    wrong = verdicts_of(mm1, 500, 1.1, 60).count(OverloadVerdict.KEPT_UP)
    assert clopper_pearson(wrong, RUNS)[0] <= MAX_FALSE, f"{wrong} of {RUNS}"
    assert verdicts_of(mm1, 2000, 0.5, 60).count(OverloadVerdict.KEPT_UP) > 0.8 * RUNS


def test_failures_are_completions_and_what_never_started_is_planned() -> None:
    planned, half = np.full(BINS, 10), np.full(BINS, 5)
    result = overload(planned, half, 60.0)
    assert result is not None and result.verdict == OverloadVerdict.OVERLOADED
    assert (result.planned_per_s, result.completed_per_s, result.shortfall) == (40, 20, 0.5)
    assert overload(planned[:12], half[:12], 60.0) is None, "too few parts"
    assert overload(np.zeros(BINS), half, 60.0) is None, "nothing was planned"
