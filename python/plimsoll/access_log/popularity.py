"""The popularity law of a log: exponent and number of objects of Zipf's law, with intervals. Pure.

The ranks of objects are not known: they are sorted by the same counts that the exponent is estimated from. Chance
makes sorted counts steeper than the law, and objects without a request are missing. The maximum-likelihood estimate
with these ranks is therefore wrong (docs/methods.md, section 13). Instead the estimate is the law whose simulated
logs have, on average, the same mean logarithm of the sorted rank and the same number of distinct objects (indirect
inference: Gourieroux, Monfort and Renault, Journal of Applied Econometrics 8 (1993) S85).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from plimsoll.access_log.zipf import (
    CountsByRank,
    Floats,
    Ints,
    ZipfLaw,
    by_rank,
    expected_distinct,
    new_share,
    simulate,
    zipf_law,
)
from plimsoll.analyse.stats.distributions import normal_quantile
from plimsoll.analyse.stats.interval import Interval

MIN_REQUESTS: Final = 100
MIN_DISTINCT: Final = 5
MAX_EXPONENT: Final = 4.0
MAX_OBJECTS: Final = 100_000_000
MAX_UNCERTAINTY: Final = 1.0
"""Standard error of ln N above which the number of objects is not reported."""
ROUNDS: Final = 5
FEW, MANY = 25, 120
"""Number of simulated logs for each step of the search, and at its end."""
METHOD: Final = "indirect inference"


@dataclass(frozen=True, slots=True)
class Popularity:
    """Zipf's law of a log with `requests` for `distinct` objects. `exponent`, `objects`: with intervals; `objects` is
    None if the log does not determine it, and has no interval if it was given. `law_objects`: the number with which
    the exponent was estimated. `naive`: the estimate from the sorted ranks, for comparison. `distance`: greatest
    difference between the observed and the mean simulated share of the most popular objects; `p`: share of simulated
    logs with a greater one."""

    requests: int
    distinct: int
    exponent: Interval
    objects: Interval | None
    law_objects: int
    naive: float
    distance: float
    p: float


def popularity(
    counts: Ints, rng: np.random.Generator, objects: int | None = None, *, confidence: float = 0.95
) -> Popularity | None:
    """The popularity law. `counts`: requests of each object, in any order; `objects`: their number, if it is known.
    None if there are fewer than 100 requests or fewer than 5 objects with requests."""
    observed = by_rank(counts)
    if observed.values.size == 0 or observed.requests < MIN_REQUESTS or observed.distinct < MIN_DISTINCT:
        return None
    if objects is not None:
        objects = max(objects, observed.distinct)
    naive = exponent_of_ranks(observed.mean_log_rank(), observed.distinct)
    s = naive
    for _ in range(ROUNDS):
        before, s = s, _improved(s, observed, objects, rng)
        if abs(before - s) < exponent_error(s, observed.distinct, observed.requests) / 4:
            break
    law = zipf_law(s, objects or _fitting_objects(s, observed))
    logs = [simulate(law, observed.requests, rng) for _ in range(MANY)]
    statistics = _statistics(law, logs, observed.requests)[:, : 1 if objects else 2]
    jacobian = _derivatives(law, observed.requests, objects is None, rng)
    step, s_error, n_error = _last_step(observed, statistics, jacobian)
    s = min(MAX_EXPONENT, max(0.0, s + float(step[0])))
    number = law.objects * math.exp(float(step[-1])) if objects is None else law.objects
    number = max(observed.distinct, number)
    z = normal_quantile(0.5 + confidence / 2)
    exponent = Interval(s, max(0.0, s - z * s_error), s + z * s_error, confidence, None, METHOD)
    distance, p = _distance(observed, logs)
    return Popularity(
        observed.requests,
        observed.distinct,
        exponent,
        _objects_interval(number, observed.distinct, objects is not None, n_error, z, confidence),
        round(number),
        naive,
        distance,
        p,
    )


def exponent_of_ranks(mean_log_rank: float, objects: int) -> float:
    """Maximum-likelihood exponent for true ranks among `objects`: the mean of ln i under the law equals that of the
    requests. 0 if the requests are more even than any law of this kind."""
    low, high = 0.0, MAX_EXPONENT
    if _mean_log(low, objects) <= mean_log_rank:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        if _mean_log(middle, objects) > mean_log_rank:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def exponent_error(s: float, objects: int, requests: int) -> float:
    """Standard error of `exponent_of_ranks`: 1 / sqrt(n Var ln I)."""
    law = zipf_law(s, objects)
    mass = law.probabilities * law.members
    ranks = _middle_ranks(law)
    mean = float(np.sum(mass * np.log(ranks)))
    return 1 / math.sqrt(requests * float(np.sum(mass * (np.log(ranks) - mean) ** 2)))


def _mean_log(s: float, objects: int) -> float:
    law = zipf_law(s, objects)
    return float(np.sum(law.probabilities * law.members * np.log(_middle_ranks(law))))


def _middle_ranks(law: ZipfLaw) -> Floats:
    last = np.cumsum(law.members).astype(np.float64)
    return last - (law.members - 1) / 2


def _fitting_objects(s: float, observed: CountsByRank) -> int:
    """The number of objects for which the expected number of distinct ones is the observed one; `MAX_OBJECTS` if the
    observed one is greater than any expected one."""
    low, high = math.log(observed.distinct), math.log(MAX_OBJECTS)
    if expected_distinct(zipf_law(s, observed.distinct), observed.requests) >= observed.distinct - 0.5:
        return observed.distinct
    for _ in range(30):
        middle = (low + high) / 2
        law = zipf_law(s, round(math.exp(middle)))
        if expected_distinct(law, observed.requests) < observed.distinct:
            low = middle
        else:
            high = middle
    return round(math.exp((low + high) / 2))


def _improved(s: float, observed: CountsByRank, objects: int | None, rng: np.random.Generator) -> float:
    """A step of the search: the exponent at which a line through two simulated means has the observed value."""
    delta = max(0.02, 2 * exponent_error(s, observed.distinct, observed.requests))
    low, high = max(0.0, s - delta), min(MAX_EXPONENT, max(0.0, s - delta) + 2 * delta)
    seed = int(rng.integers(2**63))
    means = []
    for at in (low, high):
        law = zipf_law(at, objects or _fitting_objects(at, observed))
        # The same random numbers at both ends: the difference is then less noisy than the means.
        common = np.random.default_rng(seed)
        means.append(_mean_statistic(law, observed.requests, common))
    slope = (means[1] - means[0]) / (high - low)
    if slope >= 0:
        return s
    step = (observed.mean_log_rank() - means[0]) / slope + low - s
    return min(MAX_EXPONENT, max(0.0, s + max(-0.3, min(0.3, step))))


def _mean_statistic(law: ZipfLaw, requests: int, rng: np.random.Generator, times: int = FEW) -> float:
    return float(np.mean([simulate(law, requests, rng).mean_log_rank() for _ in range(times)]))


def _statistics(law: ZipfLaw, logs: list[CountsByRank], requests: int) -> Floats:
    """Mean log rank and number of distinct objects of each simulated log."""
    # A log with ranks above HEAD has a random number of requests: the distinct objects of the difference are removed.
    share = new_share(law, requests)
    return np.array([(log.mean_log_rank(), log.distinct - share * (log.requests - requests)) for log in logs])


def _derivatives(law: ZipfLaw, requests: int, is_free: bool, rng: np.random.Generator) -> Floats:
    """Derivatives of the mean statistics by s and ln N; of the first statistic by s only if N is known."""
    ds, dn = max(0.05, 4 * exponent_error(law.s, law.objects, requests)), 0.2
    below = max(0.0, law.s - ds)
    seed = int(rng.integers(2**63))

    def mean(s: float, objects: int) -> float:
        return _mean_statistic(zipf_law(s, objects), requests, np.random.default_rng(seed))

    def distinct(s: float, objects: int) -> float:
        return expected_distinct(zipf_law(s, objects), requests)

    width = law.s + ds - below
    by_s = (mean(law.s + ds, law.objects) - mean(below, law.objects)) / width
    if not is_free:
        return np.array([[by_s]])
    few, many = round(law.objects * math.exp(-dn)), round(law.objects * math.exp(dn))
    span = math.log(many / few)
    return np.array(
        [
            [by_s, (mean(law.s, many) - mean(law.s, few)) / span],
            [
                (distinct(law.s + ds, law.objects) - distinct(below, law.objects)) / width,
                (distinct(law.s, many) - distinct(law.s, few)) / span,
            ],
        ]
    )


def _last_step(observed: CountsByRank, statistics: Floats, jacobian: Floats) -> tuple[Floats, float, float]:
    """The step of s and ln N that moves the mean of the simulated statistics to the observed ones, and the standard
    errors of both by the delta method (that of ln N is 0 if N is known). No step if ln N is not determined."""
    none = np.zeros(jacobian.shape[0])
    try:
        inverse = np.linalg.inv(jacobian)
    except np.linalg.LinAlgError:
        return none, math.inf, math.inf
    # The mean of the simulated logs has an error of its own.
    covariance = np.atleast_2d(np.cov(statistics.T)) * (1 + 1 / len(statistics))
    errors = np.sqrt(np.maximum(np.diag(inverse @ covariance @ inverse.T), 0.0))
    n_error = float(errors[1]) if errors.size > 1 else 0.0
    if n_error > MAX_UNCERTAINTY:
        return none, float(errors[0]), n_error
    target = np.array([observed.mean_log_rank(), observed.distinct])[: errors.size]
    return inverse @ (target - statistics.mean(axis=0)), float(errors[0]), n_error


def _objects_interval(
    number: float, distinct: int, is_given: bool, n_error: float, z: float, confidence: float
) -> Interval | None:
    if is_given:
        return Interval(number, None, None, confidence, None, "given")
    if n_error > MAX_UNCERTAINTY or number >= MAX_OBJECTS:
        return None
    low = max(float(distinct), number * math.exp(-z * n_error))
    return Interval(number, low, number * math.exp(z * n_error), confidence, None, METHOD)


def _distance(observed: CountsByRank, logs: list[CountsByRank]) -> tuple[float, float]:
    """Greatest difference of the share of the first 1, 2, 4, ... objects from its mean over the simulated logs, and
    the share of simulated logs (and the observed one) whose difference is as great."""
    ranks = 2 ** np.arange(max(1, int(math.log2(observed.distinct)) + 1), dtype=np.int64)
    shares = np.array([log.share_of_top(ranks) for log in logs])
    mean = shares.mean(axis=0)
    own = float(np.max(np.abs(observed.share_of_top(ranks) - mean)))
    # A simulated log is compared with the mean of the others.
    others = np.max(np.abs(shares - mean), axis=1) * len(logs) / (len(logs) - 1)
    return own, float((1 + np.sum(others >= own)) / (len(logs) + 1))
