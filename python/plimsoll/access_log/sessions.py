"""Sessions of the clients of a log: requests without a long pause. Pure.

A client is an address. A proxy or a translation of addresses makes many users one client, so that sessions of a log
behind one are too long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval

Ints = NDArray[np.int64]
PAUSE_S: Final = 1800.0
"""Pause that ends a session (Catledge and Pitkow, Computer Networks 27 (1995) 1065, found 25.5 min; 30 min is
usual)."""
MIN_SESSIONS: Final = 5


@dataclass(frozen=True, slots=True)
class Sessions:
    """`sessions` of `clients`; `whole`: sessions that begin and end at least one pause after the beginning and before
    the end of the log; `requests`: mean per such session, or per session if fewer than 5 are whole; `think_s`: mean
    time from the end of a request to the start of the next one of the session (from start to start if durations are
    not logged); `think_median_s`; `below_grain`: share of these times below the resolution, which are taken as 0
    here; `concurrent`: mean number of sessions in progress."""

    clients: int
    sessions: int
    whole: int
    requests: Interval
    think_s: float | None
    think_median_s: float | None
    below_grain: float
    has_durations: bool
    concurrent: float


def sessions(
    start_ns: Ints,
    duration_ns: Ints,
    client: Ints,
    grain_ns: int,
    *,
    pause_s: float = PAUSE_S,
    confidence: float = 0.95,
) -> Sessions | None:
    """The sessions. `start_ns`: increasing; `duration_ns`: -1 if not logged. None if there are fewer than 5
    sessions."""
    if start_ns.size == 0:
        return None
    order = np.lexsort((start_ns, client))
    start, who = start_ns[order], client[order]
    end = start + np.maximum(duration_ns[order], 0)
    same = who[1:] == who[:-1]
    gap = np.maximum(start[1:] - end[:-1], 0)
    begins = np.concatenate(([True], ~(same & (gap < pause_s * 1e9))))
    first = np.flatnonzero(begins)
    if first.size < MIN_SESSIONS:
        return None
    counts = np.diff(np.append(first, start.size))
    last = np.append(first[1:], start.size) - 1
    whole = (start[first] >= start_ns[0] + pause_s * 1e9) & (end[last] <= int(start_ns[-1]) - pause_s * 1e9)
    whole_count = int(np.count_nonzero(whole))
    used = counts[whole] if whole_count >= MIN_SESSIONS else counts
    think = gap[~begins[1:]] / 1e9
    is_below = think < grain_ns / 1e9
    span_s = max(1e-9, float(start_ns[-1] - start_ns[0]) / 1e9)
    return Sessions(
        int(np.unique(client).size),
        int(first.size),
        whole_count,
        _mean_interval(used, confidence),
        float(think.mean()) if think.size else None,
        float(np.median(think)) if think.size else None,
        float(is_below.mean()) if think.size else 0.0,
        bool(np.all(duration_ns >= 0)),
        float(np.sum(end[last] - start[first]) / 1e9) / span_s,
    )


def _mean_interval(values: Ints, confidence: float) -> Interval:
    mean = float(values.mean())
    half = (
        t_quantile(0.5 + confidence / 2, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    )
    return Interval(mean, max(1.0, mean - half), mean + half, confidence, values.size - 1, "over sessions")
