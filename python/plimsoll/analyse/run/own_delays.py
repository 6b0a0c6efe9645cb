"""What the load generator added to its own measurements.

Its own lateness is the delay of a start that nothing else delayed; a gap is a time in which it stood still. Lateness
alone does not show either: a start that waits for a free slot is late because the target is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plimsoll.analyse.stats.quantiles import Buckets, Histogram, bucket_of, carries, merged
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.live import Second

NS = 1_000_000_000
ALWAYS = 0.5
"""The quantile that is judged however small the sample is: every summary has a typical time."""


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
    """In the measured window. `stopped`: share of it in which a thread of the generator stood still (None: not
    recorded); `stopped_s`: for how long."""

    at: tuple[OwnDelay, ...]
    stopped: float | None
    stopped_s: float = 0.0


NOT_RECORDED = OwnDelays((), None)


def own_delays(
    seconds: Sequence[Second], window: Window, found: dict[str, Histogram], quantiles: Sequence[float]
) -> OwnDelays:
    """`found`: histograms of the window, by metric; `quantiles`: those that are reported or judged and for which the
    sample of the response times is large enough.

    Older results have no lateness of the generator's own: all lateness replaces it, which is at least as much.
    """
    mine = _inside(seconds, window)
    known = [each.own for each in mine if each.own is not None]
    own = Buckets()
    for each in known:
        if each.values.size:
            counts = np.bincount(bucket_of(each.values), weights=each.counts).astype(np.int64)
            own.absorb(counts, int(each.values[0]), int(each.values[-1]))
    if not known and "lateness" in found:
        own = merged([found["lateness"]])
    response = merged([found["response"]]) if "response" in found else Buckets()
    stopped = [each.stopped_s for each in mine if each.stopped_s is not None]
    share = min(1.0, sum(stopped) / window.seconds) if stopped and window.seconds > 0 else None
    return OwnDelays(_at(own, response, quantiles), share, sum(stopped))


def _inside(seconds: Sequence[Second], window: Window) -> list[Second]:
    """Whose middle lies in the window; of a window that is shorter than a second, those that it touches."""
    middle = [s for s in seconds if window.start <= s.number * NS + NS // 2 < window.end]
    return middle or [s for s in seconds if s.number * NS < window.end and window.start < (s.number + 1) * NS]


def _at(own: Buckets, response: Buckets, quantiles: Sequence[float]) -> tuple[OwnDelay, ...]:
    total = response.total
    wanted = sorted({ALWAYS, *(q for q in quantiles if carries(q, total))})
    pairs = ((q, own.quantile(q), response.quantile(q)) for q in wanted)
    return tuple(
        OwnDelay(q, late / 1e9, whole / 1e9)
        for q, late, whole in pairs
        if late is not None and whole is not None
    )
