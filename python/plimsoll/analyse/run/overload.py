"""Whether the target keeps up with an open load: planned starts against completions, within one window.

The difference between the two is the growth of what is in progress or waits for a slot. Of a target that keeps up it
stays bounded; of one that is overloaded it grows as long as the load lasts. Only the second half of the window is
judged: at the start of a run, what is in progress rises from nothing to its mean, whatever the target. The half is cut
into PARTS; the target is overloaded if the mean difference is above MARGIN of the planned starts and its 95 % interval
is above zero. With so few parts a single stall cannot decide: it would have to last for two fifths of them.

Differences of a bounded queue are negatively correlated, so the interval is too wide for a target that keeps up, and
false verdicts are rarer than its level. Rates: tests/stats/test_overload.py.

Rejected: concurrency that trends, which a warm-up shows too; throughput against the offered rate without regard to
failures, as an answer that is refused at once is no sign of overload.
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
"""Of the planned starts: a smaller shortfall is no overload whatever its interval."""
FEWEST = 30
"""Planned starts in the second half below which nothing is judged."""

Counts = NDArray[np.int64] | NDArray[np.float64]


def is_overloaded(found: Iterable[Overload | None]) -> bool:
    """Whether most of the runs of a cell (more than half) overloaded the target."""
    known = [each is not None and each.verdict == OverloadVerdict.OVERLOADED for each in found]
    return 2 * sum(known) > len(known)


def overload(planned: Counts, completed: Counts, seconds: float) -> Overload | None:
    """`planned`, `completed`: starts by schedule, and transactions that ended (failed ones too), in equal parts of a
    window of `seconds`. None: too few, or fewer than 2 * PARTS parts."""
    half = planned.size // 2
    if half < PARTS:
        return None
    last = planned.size - half
    wanted, ended = float(planned[last:].sum()), float(completed[last:].sum())
    if wanted < FEWEST:
        return None
    missing = np.array(
        [each.sum() for each in np.array_split((planned - completed)[last:], PARTS)], dtype=float
    )
    width = t_quantile(0.975, PARTS - 1) * float(missing.std(ddof=1)) * math.sqrt(PARTS)
    share, by = (wanted - ended) / wanted, width / wanted
    low, high = share - by, share + by
    verdict = OverloadVerdict.NOT_DECIDED
    if share > MARGIN and low > 0:
        verdict = OverloadVerdict.OVERLOADED
    elif high < MARGIN:
        verdict = OverloadVerdict.KEPT_UP
    part_s = seconds * half / planned.size
    return Overload(verdict, wanted / part_s, ended / part_s, share, low, high, rule(RuleName.OVERLOAD))
