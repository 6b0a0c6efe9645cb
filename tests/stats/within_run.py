"""Series of one run whose mean and dependence are known: autoregressive ones, and the response times of M/M/1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BINS = 240
SERVED_PER_S = 100.0


def autoregressive(rng: np.random.Generator, series: int, length: int, phi: float) -> Array:
    """One series a row: AR(1) with mean 0 and unit variance of its innovations, in its steady state."""
    values = rng.normal(size=(series, length))
    values[:, 0] /= np.sqrt(1 - phi**2)
    for i in range(1, length):
        values[:, i] += phi * values[:, i - 1]
    return values


def queues(
    rng: np.random.Generator, runs: int, load: float, seconds: float
) -> Iterator[tuple[Array, Array, float]]:
    """Of each run of M/M/1 with 100 services per second in its steady state: sums of the response times and numbers of
    the requests that ended in each bin, and the variance of the response times. The backlog at the start is drawn from
    its law; the arrivals of the first 30 s are left out, so that the order of the first ones does not matter."""
    before, arrivals_per_s = 30.0, load * SERVED_PER_S
    expected = arrivals_per_s * (before + seconds)
    n = int(expected + 8 * np.sqrt(expected))
    for _ in range(runs):
        arrival = np.cumsum(rng.exponential(1 / arrivals_per_s, n))
        service = rng.exponential(1 / SERVED_PER_S, n)
        backlog = rng.exponential(1 / (SERVED_PER_S - arrivals_per_s)) if rng.random() < load else 0.0
        worked = np.cumsum(service)
        end = worked + np.maximum(np.maximum.accumulate(arrival - worked + service), backlog)
        inside = (end >= before) & (end < before + seconds)
        response = (end - arrival)[inside]
        bin_ = ((end[inside] - before) * BINS / seconds).astype(np.int64)
        sums = np.bincount(bin_, response, BINS).astype(np.float64)
        yield sums, np.bincount(bin_, minlength=BINS).astype(np.float64), float(response.var(ddof=1))


def mean_response(load: float) -> float:
    """Of M/M/1, in seconds."""
    return 1 / (SERVED_PER_S * (1 - load))


def independent_requests(load: float, seconds: float) -> float:
    """As many independent response times as have the variance of the mean of the dependent ones: the asymptotic
    variance of the mean of n is (2 + 5r - 4r^2 + r^3) r / (1 - r)^4 n in service times squared (Daley, J. Appl. Prob. 5
    (1968) 683), and that of one is 1 / (1 - r)^2."""
    r = load
    return load * SERVED_PER_S * seconds / ((2 + 5 * r - 4 * r**2 + r**3) * r / (1 - r) ** 2)
