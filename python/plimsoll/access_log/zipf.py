"""Counts of the requests of objects whose popularity is Zipf's law: expectations and simulation. Pure.

An object of rank i among N has the probability p_i = i^-s / sum(j^-s). Ranks up to `HEAD` are treated one by one. The
ranks above are grouped in blocks whose first and last rank differ by less than 1 %, and whose objects have the mean
probability of the block, so that the cost does not grow with N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HEAD: Final = 1_000
BLOCK_GROWTH: Final = 0.01


@dataclass(frozen=True, slots=True)
class ZipfLaw:
    """`probabilities` of one object of each group, `members` of each group; the sum of their products is 1."""

    s: float
    objects: int
    probabilities: Floats
    members: Ints


def zipf_law(s: float, objects: int) -> ZipfLaw:
    """Zipf's law with exponent `s` >= 0 for `objects` >= 1."""
    head = np.arange(1, min(objects, HEAD) + 1, dtype=np.float64)
    edges = [HEAD]
    while edges[-1] < objects:
        edges.append(min(objects, int(edges[-1] * (1 + BLOCK_GROWTH))))
    limits = np.array(edges if objects > HEAD else [], dtype=np.float64)
    members = np.diff(limits)
    # The integral of x^-s from first - 1/2 to last + 1/2 is the sum of i^-s up to a relative error of i^-2.
    low, high = limits[:-1] + 0.5, limits[1:] + 0.5
    is_log = abs(s - 1) < 1e-9
    sums = np.log(high / low) if is_log else (high ** (1 - s) - low ** (1 - s)) / (1 - s)
    weights = np.concatenate((head**-s, sums / members if members.size else sums))
    counts = np.concatenate((np.ones(head.size, dtype=np.int64), members.astype(np.int64)))
    return ZipfLaw(s, objects, weights / float(np.sum(weights * counts)), counts)


def expected_distinct(law: ZipfLaw, requests: int) -> float:
    """Expected number of different objects among `requests` independent requests."""
    return float(
        np.sum(law.members * -np.expm1(requests * np.log1p(-np.minimum(law.probabilities, 1 - 1e-12))))
    )


def new_share(law: ZipfLaw, requests: int) -> float:
    """Probability that the next request is for an object that none of `requests` requests was for."""
    log_unseen = requests * np.log1p(-np.minimum(law.probabilities, 1 - 1e-12))
    return float(np.sum(law.members * law.probabilities * np.exp(log_unseen)))


@dataclass(frozen=True, slots=True)
class CountsByRank:
    """Observed or simulated counts: `values` in decreasing order, `objects` with each value."""

    values: Ints
    objects: Ints

    @property
    def distinct(self) -> int:
        """Number of objects with at least one request."""
        return int(self.objects.sum())

    @property
    def requests(self) -> int:
        """Number of requests."""
        return int(np.sum(self.values * self.objects))

    def mean_log_rank(self) -> float:
        """Sum of c_i ln i over the ranks i by decreasing count c_i, per request. Equal counts have successive
        ranks."""
        upto = np.cumsum(self.objects).astype(np.float64)
        factorials = special.gammaln(upto + 1)
        return float(np.sum(self.values * np.diff(factorials, prepend=0.0)) / self.requests)

    def share_of_top(self, ranks: Ints) -> Floats:
        """Share of the requests that are for the first `ranks` objects (increasing ranks)."""
        upto = np.concatenate(([0], np.cumsum(self.objects)))
        sums = np.concatenate(([0], np.cumsum(self.values * self.objects)))
        return np.interp(ranks, upto, sums) / self.requests


def by_rank(counts: Ints) -> CountsByRank:
    """Counts of objects in the order of their ranks. Objects without a request are left out."""
    histogram = np.bincount(counts)
    values = np.flatnonzero(histogram)[::-1]
    values = values[values > 0]
    return CountsByRank(values.astype(np.int64), histogram[values].astype(np.int64))


def simulate(law: ZipfLaw, requests: int, rng: np.random.Generator) -> CountsByRank:
    """Counts of `requests` independent requests (of those of ranks above `HEAD`: Poisson with the same mean)."""
    single = law.members.size if law.objects <= HEAD else HEAD
    p = law.probabilities[:single]
    if law.objects <= HEAD:
        return by_rank(rng.multinomial(requests, p / p.sum()))
    share = float(p.sum())
    head = by_rank(rng.multinomial(rng.binomial(requests, share), p / share))
    tail = _simulate_blocks(requests * law.probabilities[single:], law.members[single:], rng)
    upto = max(int(head.values[0]) if head.values.size else 0, tail.size - 1)
    histogram = np.zeros(upto + 1, dtype=np.int64)
    histogram[head.values] += head.objects
    histogram[: tail.size] += tail
    histogram[0] = 0
    values = np.flatnonzero(histogram)[::-1]
    return CountsByRank(values.astype(np.int64), histogram[values])


def _simulate_blocks(means: Floats, members: Ints, rng: np.random.Generator) -> Ints:
    """Number of objects with each count, 0 included, of objects whose counts are Poisson with `means`."""
    left = members.copy()
    found = []
    passed = np.zeros_like(means)
    probability = np.exp(-means)
    count = 0
    while left.any():
        with np.errstate(invalid="ignore", divide="ignore"):
            hazard = np.where(passed < 1, probability / (1 - passed), 1.0)
        # Rounding: beyond this, the rest of the distribution is below 1e-12.
        hazard = np.where(1 - passed < 1e-12, 1.0, np.clip(hazard, 0.0, 1.0))
        drawn = rng.binomial(left, hazard)
        found.append(int(drawn.sum()))
        left = left - drawn
        passed = passed + probability
        count += 1
        probability = probability * means / count
    return np.array(found, dtype=np.int64)
