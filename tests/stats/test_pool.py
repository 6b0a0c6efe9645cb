"""The warning that the pool of hosts changed: false in at most 5 % of unchanged pools, and seldom missed."""

from __future__ import annotations

import numpy as np
import pytest

from plimsoll.plan.sections.baseline import HANDSHAKES, TRIES, PathFigures, worse

MAX_FALSE = 0.05
POOLS = 1000
RATE = 2.4e6
RTT_NS = 20e6


def measured(
    rng: np.random.Generator, spread: float, rate: float, trip_ns: float, delay_ns: float
) -> PathFigures:
    """A measurement of a path. `spread`: standard deviation of the logarithm of the throughput; `delay_ns`: mean of the
    exponential delay of each handshake."""
    send, receive = rate * np.exp(rng.normal(0.0, spread, 2))
    trips = trip_ns + rng.exponential(delay_ns, HANDSHAKES)
    return PathFigures("lab", True, float(trips.min()), float(np.median(trips)), float(send), float(receive))


def is_reported(
    rng: np.random.Generator,
    spread: float,
    delay_ns: float,
    rate_after: float = RATE,
    trip_after: float = RTT_NS,
) -> bool:
    """Whether a host is reported. As in `drive.baseline`, a figure that is worse is measured up to three times."""
    before = measured(rng, spread, RATE, RTT_NS, delay_ns)
    after = measured(rng, spread, rate_after, trip_after, delay_ns)
    while worse(before, after) and after.tries < TRIES:
        after = after.best_with(measured(rng, spread, rate_after, trip_after, delay_ns))
    return bool(worse(before, after))


@pytest.mark.parametrize(("hosts", "spread"), [(1, 0.12), (10, 0.08), (100, 0.06)])
def test_an_unchanged_pool_is_seldom_reported(hosts: int, spread: float) -> None:
    rng = np.random.default_rng(19)
    pools = POOLS if hosts < 100 else POOLS // 5
    false = sum(any(is_reported(rng, spread, 5e6) for _ in range(hosts)) for _ in range(pools)) / pools
    assert false <= MAX_FALSE, false


def test_a_change_beyond_the_bounds_is_found() -> None:
    rng = np.random.default_rng(20)
    slower = sum(is_reported(rng, 0.05, 1e6, rate_after=RATE * 0.6) for _ in range(POOLS)) / POOLS
    farther = sum(is_reported(rng, 0.05, 1e6, trip_after=RTT_NS * 1.4) for _ in range(POOLS)) / POOLS
    within = sum(is_reported(rng, 0.02, 1e5, RATE * 0.9, RTT_NS * 1.1) for _ in range(POOLS)) / POOLS
    assert slower >= 0.95 and farther >= 0.95, (slower, farther)
    assert within <= MAX_FALSE, "a change within the bounds is not reported"
