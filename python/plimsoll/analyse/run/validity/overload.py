"""Whether the target keeps up with an open load: planned starts and completions within one window.

The difference between the two is the growth of the number of transactions in progress or waiting for a slot. If the
target keeps up, it stays bounded; if the target is overloaded, it grows as long as the load lasts. Only the second half
of the window is judged: at the start of any run, the number in progress rises from zero to its mean. The half is cut
into PARTS; the target is overloaded if the mean difference is above MARGIN of the planned starts and its 95 % interval
is above zero. With so few parts a single stall cannot decide: it would have to last for two fifths of them.

Differences of a bounded queue are negatively correlated, so the interval is too wide for a target that keeps up, and
false verdicts are rarer than its level. Rates: tests/stats/test_overload.py.

Rejected: a trend of the concurrency, which a warm-up also causes; throughput relative to the offered rate without
failures, because a response that refuses the request at once is no sign of overload.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Overload
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import OverloadVerdict
from plimsoll.analyse.stats.distributions import t_quantile

PARTS = 10
MARGIN = 0.01
"""Share of the planned starts: a smaller shortfall is no overload, for every interval."""
MIN_PLANNED = 30
"""Minimum number of planned starts in the second half for a verdict."""

Counts = NDArray[np.int64] | NDArray[np.float64]


def is_overloaded(overloads: Iterable[Overload | None]) -> bool:
    """Whether most of the runs of a cell (more than half) overloaded the target."""
    known = [
        overload_ is not None and overload_.verdict == OverloadVerdict.OVERLOADED for overload_ in overloads
    ]
    return 2 * sum(known) > len(known)


def overload(planned: Counts, completed: Counts, seconds: float) -> Overload | None:
    """The verdict on one window. `planned`, `completed`: numbers of scheduled starts and of transactions that ended
    (also failed ones), in equal parts of a window of `seconds`. None: too few starts, or fewer than 2 * PARTS parts."""
    half = planned.size // 2
    if half < PARTS:
        return None
    last = planned.size - half
    planned_starts, ended = float(planned[last:].sum()), float(completed[last:].sum())
    if planned_starts < MIN_PLANNED:
        return None
    missing = np.array(
        [part.sum() for part in np.array_split((planned - completed)[last:], PARTS)], dtype=float
    )
    width = t_quantile(0.975, PARTS - 1) * float(missing.std(ddof=1)) * math.sqrt(PARTS)
    share, half_width = (planned_starts - ended) / planned_starts, width / planned_starts
    low, high = share - half_width, share + half_width
    verdict = OverloadVerdict.NOT_DECIDED
    if share > MARGIN and low > 0:
        verdict = OverloadVerdict.OVERLOADED
    elif high < MARGIN:
        verdict = OverloadVerdict.KEPT_UP
    part_s = seconds * half / planned.size
    return Overload(
        verdict, planned_starts / part_s, ended / part_s, share, low, high, rule(RuleName.OVERLOAD)
    )
