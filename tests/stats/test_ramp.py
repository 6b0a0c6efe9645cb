"""The load at which a rule fails in a ramp, for queues of known capacity: the stated load is an upper bound."""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from tests.unit.analyse.made import histogram, latency, run

from plimsoll.analyse.design.capacity.ramp import ramp
from plimsoll.analyse.results.run import RampRule
from plimsoll.analyse.results.verdicts import RampVerdict
from plimsoll.analyse.stats.proportion import clopper_pearson
from plimsoll.analyse.window.load_profile import Piece, Profile, load_bins
from plimsoll.analyse.window.transactions import Window
from plimsoll.plan.metrics.rules import parse_rule

Times = NDArray[np.float64]
NS = 10**9
MAX_FALSE = 0.05


def arrivals(rng: np.random.Generator, low: float, high: float, seconds: float) -> Times:
    """A Poisson process whose rate rises linearly: uniform numbers through the inverse of the planned starts."""
    mean = (low + high) / 2 * seconds
    planned = np.sort(rng.random(rng.poisson(mean))) * mean
    slope = (high - low) / seconds
    out: Times = (np.sqrt(low * low + 2 * slope * planned) - low) / slope
    return out


def departures(start: Times, service: Times, servers: int) -> Times:
    """First come, first served."""
    free = [0.0] * servers
    out = np.empty_like(start)
    for at, (begin, takes) in enumerate(zip(start.tolist(), service.tolist(), strict=True)):
        out[at] = max(begin, heapq.heappop(free)) + takes
        heapq.heappush(free, out[at])
    return out


def mmc_quantile(rate: float, servers: int, mean_s: float, q: float) -> float:
    """Quantile of the response time of M/M/c in seconds (Jain 1991, 31.3)."""
    mu, load = 1 / mean_s, rate * mean_s
    idle = sum(load**k / math.factorial(k) for k in range(servers))
    full = load**servers / math.factorial(servers) / (1 - load / servers)
    waits, spare = full / (idle + full), servers * mu - rate

    def beyond(t: float) -> float:
        if abs(spare - mu) < 1e-9 * mu:
            return math.exp(-mu * t) * (1 + waits * mu * t)
        tail = (spare * math.exp(-mu * t) - mu * math.exp(-spare * t)) / (spare - mu)
        return (1 - waits) * math.exp(-mu * t) + waits * tail

    return float(brentq(lambda t: beyond(t) - (1 - q), 0, 1e4 / spare))


def judged(start: Times, ends: Times, low: float, high: float, seconds: float, test: str) -> RampRule:
    """The verdict of the rule on a simulated run."""
    profile = Profile("rate", (Piece(0, round(seconds * NS), low, high),))
    bins = load_bins(profile, Window(0, round(seconds * NS)))
    outcomes = []
    for bin_ in bins:
        here = (start >= bin_.start / NS) & (start < bin_.end / NS)
        ms = (ends[here] - start[here]) * 1e3
        traffic = replace(run().traffic, errors=0, response_ms=latency(ms.tolist()))
        outcomes.append((traffic, histogram(ms.tolist())))
    (rule,) = ramp(run(), profile, bins, outcomes, [parse_rule(test, "response")]).rules
    return rule


CASES = [
    # servers, capacity (1/s), true limit as part of it, q, ramp from and to (parts of the capacity), seconds
    (1, 100.0, 0.8, 0.95, 0.2, 1.5, 30.0),
    (1, 100.0, 0.8, 0.5, 0.2, 1.0, 60.0),
    (1, 100.0, 0.9, 0.95, 0.1, 0.88, 60.0),
    (4, 100.0, 0.8, 0.95, 0.1, 0.78, 60.0),
    (4, 100.0, 0.9, 0.5, 0.2, 1.5, 30.0),
    (1, 40.0, 0.8, 0.95, 0.2, 1.2, 30.0),
]


@pytest.mark.parametrize(("servers", "capacity", "limit", "q", "low", "high", "seconds"), CASES)
def test_the_load_at_which_a_rule_fails_is_an_upper_bound(
    servers: int, capacity: float, limit: float, q: float, low: float, high: float, seconds: float
) -> None:
    """False is: a constant load of `load_high` holds the rule. Ramps that end below the true limit are among the cases.
    In nearly all ramps up to 1.5 times the capacity the failure is detected."""
    rng = np.random.default_rng(17)
    mean_s, times = servers / capacity, 100
    limit_s = mmc_quantile(limit * capacity, servers, mean_s, q)
    test = f"p({100 * q:g})<{limit_s * 1e3:.6f}ms"
    false = failures = 0
    for _ in range(times):
        start = arrivals(rng, low * capacity, high * capacity, seconds)
        ends = departures(start, rng.exponential(mean_s, start.size), servers)
        rule = judged(start, ends, low * capacity, high * capacity, seconds, test)
        if rule.verdict in (RampVerdict.FAILED_FROM, RampVerdict.FAILED_THROUGHOUT):
            assert rule.load_high is not None
            failures += 1
            false += rule.load_high < limit * capacity * (1 - 1e-9)
    assert clopper_pearson(false, times)[0] <= MAX_FALSE, f"{false} of {times}"
    if high >= 1.5:
        assert failures >= 0.9 * times


def test_a_queue_without_randomness_fails_at_the_computed_load() -> None:
    """D/D/1, 100/s: the work that waits at time t is the integral of the rate beyond the capacity."""
    low, high, seconds, capacity = 40.0, 200.0, 32.0, 100.0
    count = round((low + high) / 2 * seconds)
    slope = (high - low) / seconds
    start = (np.sqrt(low * low + 2 * slope * (np.arange(count) + 0.5)) - low) / slope
    ends = departures(start, np.full(count, 1 / capacity), 1)
    rule = judged(start, ends, low, high, seconds, "p(95)<100ms")
    # Ten requests wait when slope/2 * t^2 = 10 after the capacity is reached: at t = 2 s, 110/s.
    assert rule.verdict == RampVerdict.FAILED_FROM
    assert (rule.load_low, rule.load_high, rule.held_up_to) == (104.0, 120.0, 104.0)


def test_a_rule_that_always_fails_or_never_does() -> None:
    start = np.linspace(0, 10, 4000, endpoint=False)
    assert judged(start, start + 0.2, 1, 100, 10, "p(95)<100ms").verdict == RampVerdict.FAILED_THROUGHOUT
    assert judged(start, start + 0.01, 1, 100, 10, "p(95)<100ms").verdict == RampVerdict.HELD
    few = np.linspace(0, 10, 100, endpoint=False)
    assert judged(few, few + 0.01, 1, 100, 10, "p(95)<100ms").verdict == RampVerdict.NOT_JUDGED
