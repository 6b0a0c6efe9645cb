"""Simulated runs by second: throughput like that of a Poisson process under slow noise, and what depends on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tests.stats import within_run

from plimsoll.analyse.components.cpu_series import HostCpu
from plimsoll.collect.live import Second

Array = NDArray[np.float64]
CORES = 2
TESTERS = 4


def noise(rng: np.random.Generator, n: int, phi: float, sd: float) -> Array:
    """Autoregressive noise with this standard deviation."""
    values: Array = sd * np.sqrt(1 - phi**2) * within_run.autoregressive(rng, 1, n, phi)[0]
    return values


def second(number: int, succeeded: int, mean_ms: float, active: int = TESTERS) -> Second:
    """A second in which all transactions had the same response time."""
    times = np.array([round(mean_ms * 1e6)] if succeeded else [], dtype=np.int64)
    counts = np.array([succeeded] if succeeded else [], dtype=np.int64)
    return Second(number, succeeded, succeeded, 0, 0, 0, 0, active, 0, times, counts)


def simulated_run(
    rng: np.random.Generator,
    n: int,
    phi: float,
    *,
    rate: float = 200.0,
    sd: float = 0.1,
    at: int | None = None,
    slower: float = 0.0,
    outside: float = 0.0,
) -> tuple[list[Second], tuple[HostCpu, ...]]:
    """A closed load over `n` seconds on one host of two cores with two services.

    `sd`: relative noise of the rate with the correlation `phi`; Poisson noise is added. From second `at` on, the rate
    is lower by the share `slower`, and other processes use the share `outside` of the host.
    """
    level = np.ones(n)
    other = np.full(n, 0.01)
    if at is not None:
        level[at:] -= slower
        other[at:] += outside
    expected = rate * level * np.maximum(0.05, 1 + noise(rng, n, phi, sd))
    done = rng.poisson(expected)
    response = TESTERS / expected * 1e3 * (1 + rng.normal(0, 0.02, n))
    seconds = [
        second(at, int(count), float(mean))
        for at, (count, mean) in enumerate(zip(done, response, strict=True))
    ]

    def used(cost: float) -> Array:
        """Cores in use by a service, in ticks of 10 ms."""
        cores = np.maximum(0.0, done * cost * (1 + rng.normal(0, 0.02, n)))
        return np.asarray(np.round(cores, 2), dtype=np.float64)

    web, db = used(0.002), used(0.001)
    outside_share = np.maximum(0.0, other + noise(rng, n, phi, 0.01))
    busy = np.minimum(CORES, web + db + 0.1 + CORES * outside_share)
    return seconds, (HostCpu("", busy, {"web": web, "db": db}, outside_share),)
