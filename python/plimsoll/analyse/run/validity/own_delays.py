"""Delays that the load generator added to its own measurements.

Its own lateness is the part of the delay of a start that it caused itself; a gap is a time in which one of its threads
was stopped. Lateness alone shows neither: a start that waits for a free slot is late because the target is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.stats.quantiles import Buckets, Histogram, bucket_of, is_large_enough, merged
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.live import Second

NS = 1_000_000_000
ALWAYS = 0.5
"""The quantile that is judged for samples of any size: every summary has a typical time."""


@dataclass(frozen=True, slots=True)
class OwnDelay:
    """At one quantile (0..1): the generator's own lateness, and the response time, s."""

    quantile: float
    own_s: float
    response_s: float

    @property
    def share(self) -> float:
        """The part of the response time that the generator can have added."""
        return self.own_s / self.response_s if self.response_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class OwnDelays:
    """The generator's own delays in the measured window. `stopped`: share of the window in which a thread of the
    generator was stopped (None: not recorded); `stopped_s`: the time in s."""

    at: tuple[OwnDelay, ...]
    stopped: float | None
    stopped_s: float = 0.0


NOT_RECORDED = OwnDelays((), None)


def own_delays(
    seconds: Sequence[Second], window: Window, histograms: dict[str, Histogram], quantiles: Sequence[float]
) -> OwnDelays:
    """`histograms`: of the window, by metric; `quantiles`: those that are reported or judged. Quantiles for which the
    sample of the response times is too small are left out.

    Older results do not contain the generator's own lateness. It is replaced by all lateness, which is at least as
    great.
    """
    inside = _seconds_in_window(seconds, window)
    recorded = [second.own for second in inside if second.own is not None]
    own = Buckets()
    for own_lateness in recorded:
        if own_lateness.values.size:
            counts = np.bincount(bucket_of(own_lateness.values), weights=own_lateness.counts).astype(np.int64)
            own.absorb(counts, int(own_lateness.values[0]), int(own_lateness.values[-1]))
    if not recorded and "lateness" in histograms:
        own = merged([histograms["lateness"]])
    response = merged([histograms["response"]]) if "response" in histograms else Buckets()
    stopped = [second.stopped_s for second in inside if second.stopped_s is not None]
    share = min(1.0, sum(stopped) / window.seconds) if stopped and window.seconds > 0 else None
    return OwnDelays(_delays_at(own, response, quantiles), share, sum(stopped))


def _seconds_in_window(seconds: Sequence[Second], window: Window) -> list[Second]:
    """Seconds whose middle lies in the window; if there is none, those that overlap with it."""
    middle = [s for s in seconds if window.start <= s.number * NS + NS // 2 < window.end]
    return middle or [s for s in seconds if s.number * NS < window.end and window.start < (s.number + 1) * NS]


def _delays_at(own: Buckets, response: Buckets, quantiles: Sequence[float]) -> tuple[OwnDelay, ...]:
    total = response.total
    judged_quantiles = sorted({ALWAYS, *(q for q in quantiles if is_large_enough(q, total))})
    pairs = ((q, own.quantile(q), response.quantile(q)) for q in judged_quantiles)
    return tuple(
        OwnDelay(q, late / 1e9, whole / 1e9)
        for q, late, whole in pairs
        if late is not None and whole is not None
    )
