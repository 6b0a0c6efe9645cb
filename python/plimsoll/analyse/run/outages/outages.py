"""Outages: times without success that are too long to be gaps between completions. docs/methods.md has the reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from plimsoll.analyse.results.actions import Outage
from plimsoll.analyse.results.run import ErrorCount
from plimsoll.analyse.run.outages.success_bins import SuccessBins
from plimsoll.analyse.window.transactions import OUTCOMES, Window

MIN_SUCCESSES: Final = 20
"""Fewer successes before the first action show no rate."""
FLOOR_S: Final = 0.1
"""A shorter time without success is never an outage."""
FALSE_OUTAGES: Final = 1e-3
"""Expected number of false outages of a run whose successes are a Poisson process."""
GAP_RATIO: Final = 2.0
"""A gap is no outage up to this multiple of the longest gap before the first action."""


def outage_limit_s(bins: SuccessBins, before: Window, until_ns: int) -> float | None:
    """The length from which on a time without success is an outage, s. `before`: the reference, without actions;
    `until_ns`: the end of the time that is searched. None: too few successes in the reference.

    The limit is the greatest of: FLOOR_S; twice the longest gap in the reference; and x with n exp(-rate x) =
    FALSE_OUTAGES, where n is the number of gaps that the rate of the reference predicts. The last is the length that
    one of n exponential gaps exceeds with that probability (union bound).
    """
    part = slice(before.start // bins.bin_ns, before.end // bins.bin_ns)
    done = int(bins.done[part].sum())
    if done < MIN_SUCCESSES or before.seconds <= 0:
        return None
    rate = done / before.seconds
    gaps = bins.gaps(before.start, before.end)
    longest = float((gaps[:, 1] - gaps[:, 0]).max()) / 1e9 if len(gaps) else 0.0
    number = max(1.0, rate * (until_ns - before.start) / 1e9)
    return max(FLOOR_S, GAP_RATIO * longest, math.log(number / FALSE_OUTAGES) / rate)


def outages(
    bins: SuccessBins, limit_s: float, start_ns: int, end_ns: int, codes: Sequence[str]
) -> tuple[Outage, ...]:
    """The outages in [start, end), in order of time. `codes`: texts of the codes of failures, by number."""
    gaps = bins.gaps(start_ns, end_ns)
    found = [(int(low), int(high), True) for low, high in gaps if (high - low) / 1e9 > limit_s]
    part = slice(start_ns // bins.bin_ns, -(-end_ns // bins.bin_ns))
    last = int(bins.last[part].max(initial=-1))
    if last >= 0 and (end_ns - last) / 1e9 > limit_s:
        found.append((last, end_ns, False))
    return tuple(
        Outage(low / 1e9, high / 1e9, (high - low) / 1e9, has_ended, error_counts(bins, low, high, codes))
        for low, high, has_ended in found
    )


def error_counts(
    bins: SuccessBins, start_ns: int, end_ns: int, codes: Sequence[str]
) -> tuple[ErrorCount, ...]:
    """The failures that ended between two times, to a tenth of a second, the most frequent kind first."""
    return tuple(
        ErrorCount(OUTCOMES[outcome], codes[code] if code < len(codes) else str(code), count)
        for (outcome, code), count in bins.errors_between(start_ns, end_ns).most_common()
    )
