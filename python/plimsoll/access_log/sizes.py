"""Sizes of the objects and of the responses of a log. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from plimsoll.analyse.stats.interval import Interval

Ints = NDArray[np.int64]
QUANTILES: Final = (0.5, 0.95, 0.99)
MIN_OBJECTS: Final = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """`objects`: objects whose size is known, which is their largest response to GET; `quantiles`: of their sizes in
    bytes, in the order of `QUANTILES`, bounds None if the objects are too few for them; `largest`: in bytes;
    `mean_log`, `sd_log`: of ln size over objects above 0 bytes; `response_mean`: bytes of a response, over all GET
    requests; `total`: bytes of all of them."""

    objects: int
    quantiles: tuple[Interval, ...]
    largest: int
    mean_log: float
    sd_log: float
    response_mean: float
    total: int


def object_sizes(object_of: Ints, size: Ints, is_head: Ints, objects: int) -> Ints:
    """Largest response to GET of each object, bytes; -1 if none is logged."""
    largest = np.full(objects, -1, dtype=np.int64)
    used = (is_head == 0) & (size >= 0)
    np.maximum.at(largest, object_of[used], size[used])
    return largest


def sizes(
    object_of: Ints, size: Ints, is_head: Ints, objects: int, *, confidence: float = 0.95
) -> Sizes | None:
    """The sizes. `size`: -1 if not logged. None if the sizes of fewer than 5 objects are known."""
    largest = np.sort(object_sizes(object_of, size, is_head, objects))
    largest = largest[largest >= 0]
    if largest.size < MIN_OBJECTS:
        return None
    responses = size[(is_head == 0) & (size >= 0)]
    logs = np.log(largest[largest > 0])
    return Sizes(
        int(largest.size),
        tuple(quantile_interval(largest, q, confidence=confidence) for q in QUANTILES),
        int(largest[-1]),
        float(logs.mean()) if logs.size else 0.0,
        float(logs.std(ddof=1)) if logs.size > 1 else 0.0,
        float(responses.mean()),
        int(responses.sum()),
    )


def quantile_interval(ordered: Ints, q: float, *, confidence: float = 0.95) -> Interval:
    """Quantile of increasing, independent values with the interval of order statistics: the ranks are quantiles of
    the binomial distribution (Hahn and Meeker, Statistical Intervals, section 5.2). A bound that the sample does not
    have is None."""
    n, tail = ordered.size, (1 - confidence) / 2
    # P(at most r values are below the quantile) for every r.
    cumulative = special.bdtr(np.arange(n + 1, dtype=np.float64), n, q)
    low = int(np.searchsorted(cumulative, tail, side="right"))  # largest l with P(X < l) <= tail
    high = int(np.searchsorted(cumulative, 1 - tail, side="left")) + 1
    return Interval(
        float(ordered[min(n - 1, max(0, math.ceil(q * n) - 1))]),
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= n else None,
        confidence,
        None,
        "order statistics",
    )
