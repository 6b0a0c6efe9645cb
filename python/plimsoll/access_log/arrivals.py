"""The arrival law of a log: rate, dispersion of counts, and whether the arrivals are Poisson. Pure.

Counts of windows are used, not gaps: stamps have a resolution (often whole seconds), and no statement is made about
anything shorter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval

Ints = NDArray[np.int64]
MIN_REQUESTS: Final = 100
MIN_MEAN: Final = 5.0
"""Minimum mean count of a window for the chi-square approximation (Cochran 1954)."""
MIN_WINDOWS: Final = 20
MAX_WINDOWS: Final = 100_000
BLOCK: Final = 10
"""Windows of a block within which the rate is taken as constant."""
BATCHES: Final = 20
LEVEL: Final = 0.01
PARTS: Final = 12
LENGTHS_S: Final = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    60,
    120,
    300,
    600,
    1800,
    3600,
    7200,
    21600,
    86400,
)
ArrivalLaw = Literal["poisson", "clustered", "even", "unknown"]


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Counts of `windows` windows of `length_s`: `index` is variance / mean, 1 for Poisson arrivals. `low`, `high`:
    95 % interval, exact in the limit of Poisson counts."""

    length_s: float
    windows: int
    mean: float
    index: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of `requests` requests in `span_s`. `rate`: per second. `dispersion`: by window length. `law`: unknown
    if the log is too short for the test. `test_window_s`, `test_index`, `test_p` (two-sided): the test of Poisson
    within blocks; `detectable`: index that the test finds in 80 % of logs. `constant_p`: of the test that the rate is
    constant; `parts`: rates of 12 equal parts of the log (empty if too few windows)."""

    requests: int
    span_s: float
    grain_s: float
    rate: Interval
    dispersion: tuple[Dispersion, ...]
    law: ArrivalLaw
    test_window_s: float | None
    test_index: float | None
    test_p: float | None
    detectable: float | None
    constant_p: float | None
    parts: tuple[float, ...]


def arrivals(start_ns: Ints, grain_ns: int, *, confidence: float = 0.95) -> Arrivals | None:
    """The arrival law. `start_ns`: increasing; `grain_ns`: resolution of the times. None if there are fewer than 100
    requests, or if their times are within two steps of the resolution."""
    grain = max(1, grain_ns)
    if start_ns.size < MIN_REQUESTS or int(start_ns[-1] - start_ns[0]) < 2 * grain:
        return None
    # The first and the last step of the resolution are not observed as a whole.
    first = (int(start_ns[0]) // grain + 1) * grain
    last = int(start_ns[-1]) // grain * grain
    span_s = (last - first) / 1e9
    inside = start_ns[(start_ns >= first) & (start_ns < last)] - first
    dispersion = tuple(
        found
        for length in LENGTHS_S
        if (found := _dispersion(inside, last - first, round(length * 1e9), grain, confidence)) is not None
    )
    test = _test_poisson(inside, last - first, grain)
    law, constant_p = test.law if test else "unknown", test.constant_p if test else None
    is_poisson = law in ("poisson", "unknown") and (constant_p is None or constant_p >= LEVEL)
    rate = (
        _poisson_rate(start_ns, inside.size, span_s, grain, confidence)
        if is_poisson
        else _batch_rate(inside, last - first, confidence)
    )
    parts = np.histogram(inside, bins=PARTS, range=(0, last - first))[0] / (span_s / PARTS)
    return Arrivals(
        int(start_ns.size),
        span_s,
        grain / 1e9,
        rate,
        dispersion,
        law,
        test.window_s if test else None,
        test.index if test else None,
        test.p if test else None,
        test.detectable if test else None,
        constant_p,
        tuple(map(float, parts)) if span_s >= PARTS * grain / 1e9 else (),
    )


def dispersion_index(counts: Ints) -> float:
    """Variance (k - 1) / mean of at least two counts; NaN if all are 0."""
    mean = float(counts.mean())
    return float(counts.var(ddof=1)) / mean if mean > 0 else math.nan


def dispersion_interval(index: float, windows: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of an index: (k - 1) I / chi-square quantiles of k - 1 degrees of freedom. Covers 94 % at an index of
    2 and 88 % to 91 % at 10 (docs/methods.md, section 13)."""
    df, tail = windows - 1, (1 - confidence) / 2
    return df * index / _chi2_quantile(1 - tail, df), df * index / _chi2_quantile(tail, df)


def _chi2_quantile(p: float, df: float) -> float:
    return 2 * float(special.gammaincinv(df / 2, p))


def _chi2_tail(x: float, df: float) -> float:
    return float(special.gammaincc(df / 2, x / 2))


def _counts(inside: Ints, span_ns: int, length_ns: int) -> Ints:
    windows = span_ns // length_ns
    return np.bincount(inside[inside < windows * length_ns] // length_ns, minlength=windows).astype(np.int64)


def _dispersion(
    inside: Ints, span_ns: int, length_ns: int, grain_ns: int, confidence: float
) -> Dispersion | None:
    windows = span_ns // length_ns
    if length_ns % grain_ns or not MIN_WINDOWS <= windows <= MAX_WINDOWS:
        return None
    counts = _counts(inside, span_ns, length_ns)
    mean = float(counts.mean())
    if mean < 1:
        return None
    index = dispersion_index(counts)
    low, high = dispersion_interval(index, windows, confidence=confidence)
    return Dispersion(length_ns / 1e9, windows, mean, index, low, high)


@dataclass(frozen=True, slots=True)
class _PoissonTest:
    window_s: float
    index: float
    p: float
    law: ArrivalLaw
    detectable: float
    constant_p: float


def _test_poisson(inside: Ints, span_ns: int, grain_ns: int) -> _PoissonTest | None:
    """Tests the counts of the shortest window with a mean of at least 5 within blocks of 10 windows, whose rates may
    differ: the sum of (x - block mean)^2 / block mean is chi-square with 9 degrees of freedom per block (Brown et
    al., JASA 100 (2005) 36, do the same with gaps). The block counts test whether the rate is constant."""
    shortest = max(grain_ns, MIN_MEAN * span_ns / max(1, inside.size))
    for length_s in LENGTHS_S:
        length_ns = round(length_s * 1e9)
        if length_ns >= shortest and length_ns % grain_ns == 0:
            break
    else:
        return None
    blocks = span_ns // length_ns // BLOCK
    if blocks * BLOCK < MIN_WINDOWS:
        return None
    counts = _counts(inside, span_ns, length_ns)[: blocks * BLOCK].reshape(blocks, BLOCK)
    totals = counts.sum(axis=1)
    means = totals[:, None] / BLOCK
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(means > 0, (counts - means) ** 2 / means, 0.0)
    df = (BLOCK - 1) * int(np.count_nonzero(totals))
    statistic = float(each.sum())
    above = _chi2_tail(statistic, df)
    p = 2 * min(above, 1 - above)
    between = float(np.sum((totals - totals.mean()) ** 2) / totals.mean())
    law: ArrivalLaw = "poisson" if p >= LEVEL else "clustered" if statistic > df else "even"
    # Normal approximation of the chi-square: 2.58 standard deviations above 1, found with a probability of 80 %.
    deviation = math.sqrt(2 / df)
    detectable = (1 + 2.58 * deviation) / max(0.1, 1 - 0.84 * deviation)
    return _PoissonTest(length_s, statistic / df, p, law, detectable, _chi2_tail(between, blocks - 1))


def _poisson_rate(start_ns: Ints, count: int, span_s: float, grain_ns: int, confidence: float) -> Interval:
    """Rate of a Poisson process with its exact interval: 2 T rate is chi-square (Garwood, Biometrika 28 (1936) 437).
    With less than one request per step of the resolution, the time between the first and the last request is gamma
    with n - 1 events; otherwise whole steps are counted."""
    tail = (1 - confidence) / 2
    between_s = float(start_ns[-1] - start_ns[0]) / 1e9
    if start_ns.size * grain_ns / 1e9 < between_s:
        events, time_s, low_df, high_df = (
            start_ns.size - 1,
            between_s,
            2 * (start_ns.size - 1),
            2 * (start_ns.size - 1),
        )
    else:
        events, time_s, low_df, high_df = count, span_s, 2 * count, 2 * (count + 1)
    low = _chi2_quantile(tail, low_df) / (2 * time_s) if low_df else 0.0
    return Interval(
        events / time_s, low, _chi2_quantile(1 - tail, high_df) / (2 * time_s), confidence, None, "Poisson"
    )


def _batch_rate(inside: Ints, span_ns: int, confidence: float) -> Interval:
    """Rate of arrivals that are not Poisson, or whose rate changes: t interval over 20 equal parts of the log."""
    counts = np.histogram(inside, bins=BATCHES, range=(0, span_ns))[0] / (span_ns / 1e9 / BATCHES)
    half = t_quantile(0.5 + confidence / 2, BATCHES - 1) * float(counts.std(ddof=1)) / math.sqrt(BATCHES)
    mean = float(counts.mean())
    return Interval(mean, max(0.0, mean - half), mean + half, confidence, BATCHES - 1, "batch means")
