"""The time at which throughput and response time are back at the level before an incident.

Windows of several lengths slide over the time after the incident. A window is bad if its throughput is below 95 % of
the baseline, or its mean response time above 105 %, and if chance does not explain the difference from the baseline.
The service has recovered when no bad window follows. docs/methods.md has the reasons and the error rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.actions import Recovery, RecoveryReason, RecoveryVerdict
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.run.outages.success_bins import SuccessBins
from plimsoll.analyse.stats.distributions import normal_quantile

THROUGHPUT: Final = 0.95
RESPONSE: Final = 1.05
FALSE_ALARMS: Final = 0.01
"""Probability that a service at the level before has a bad window by chance, over all windows together."""
STEPS: Final = 8
"""Windows of one length begin an eighth of it apart."""
OVERLAP: Final = 3
"""Sliding windows are counted as this multiple of the windows without overlap, which exceeds a limit as often."""
MIN_WINDOWS: Final = 4
"""Windows of the longest length that fit before and after."""
MIN_WINDOW_S: Final = 0.1
MIN_RESPONSES: Final = 50
"""Windows with fewer successes are not judged by their response time."""
Z_OF_REST: Final = -normal_quantile(FALSE_ALARMS / 2)
"""Quantile for the time after the recovery as a whole."""
MIN_POWER: Final = 0.5
"""A length is used only if half the throughput, or twice the response time, makes a window bad."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Number of successes and sum of response times (ns) up to the beginning of each bin."""

    done: NDArray[np.float64]
    response: NDArray[np.float64]

    @staticmethod
    def of(bins: SuccessBins) -> _Sums:
        return _Sums(
            np.concatenate([[0.0], np.cumsum(bins.done, dtype=np.float64)]),
            np.concatenate([[0.0], np.cumsum(bins.response)]),
        )

    def windows(
        self, start: int, end: int, width: int, step: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Begin (bin), successes, and mean response time (NaN without successes) of the windows in [start, end)."""
        begin = np.arange(start, end - width + 1, step)
        if begin.size and begin[-1] != end - width:
            begin = np.append(begin, end - width)
        done = self.done[begin + width] - self.done[begin]
        total = self.response[begin + width] - self.response[begin]
        mean = np.divide(total, done, out=np.full(done.size, np.nan), where=done > 0)
        return begin, done, mean


@dataclass(frozen=True, slots=True)
class _Scale:
    """One length of windows (bins) with its limits. `most_response`: infinite if response times vary too much."""

    width: int
    least_done: float
    most_response: float
    throughput_margin: float
    response_margin: float | None
    mean: float
    sd: float
    """Mean and standard deviation of the successes of a window of the baseline."""
    baseline: int
    """Length of the baseline in bins."""

    def is_below(self, sums: _Sums, start: int, end: int) -> bool:
        """Whether the throughput of [start, end), which is longer than the window, is too low. Long times show a small
        loss that no window shows."""
        ratio = (end - start) / self.width
        found = float(sums.done[end] - sums.done[start])
        sd = self.sd * math.sqrt(ratio * (1 + (end - start) / self.baseline))
        limit = self.mean * ratio - Z_OF_REST * sd
        return ratio > 1 and found < min(THROUGHPUT * self.mean * ratio, limit)


def recovery(bins: SuccessBins, before: tuple[int, int], after: tuple[int, int], not_before: int) -> Recovery:
    """The recovery after an incident. `before`, `after`: the times (ns) of the baseline, and from the last action to
    the next incident or the end of the window. `not_before`: the end of the last outage (ns): the service has not
    recovered earlier."""
    sums = _Sums.of(bins)
    low, high = (-(-before[0] // bins.bin_ns), before[1] // bins.bin_ns)
    start, end = (-(-after[0] // bins.bin_ns), min(after[1] // bins.bin_ns, bins.n))
    widths = _widths(bins.bin_ns, min(high - low, end - start))
    if not widths:
        too_short = high - low > end - start
        return _undecided(RecoveryReason.TOO_SHORT if too_short else RecoveryReason.NO_BASELINE)
    if sums.done[high] - sums.done[low] < MIN_WINDOWS:
        return _undecided(RecoveryReason.NO_BASELINE)
    scales = _scales(sums, low, high, end - start, widths)
    if not scales:
        return _undecided(RecoveryReason.TOO_NOISY)
    lasts = [(_last_bad(sums, start, end, scale), scale) for scale in scales]
    last, decisive = max(lasts, key=lambda entry: entry[0])
    at = max(start if last < start else last + _step(decisive.width), -(-not_before // bins.bin_ns))
    if at >= end or decisive.is_below(sums, at, end):
        return Recovery(RecoveryVerdict.NOT_RECOVERED, rule=rule(RuleName.RECOVERY))
    smoothing_last, smoothing = _smoothing(lasts)
    latest = max(
        at, (start if smoothing_last < start else smoothing_last + _step(smoothing.width)) + smoothing.width
    )
    if latest > end - smoothing.width:
        if any(position == end - scale.width for position, scale in lasts):
            return Recovery(RecoveryVerdict.NOT_RECOVERED, rule=rule(RuleName.RECOVERY))
        return _undecided(RecoveryReason.TOO_SHORT)
    is_unchanged = last < start and not_before <= after[0]
    at_ns = after[0] if is_unchanged else max(after[0], at * bins.bin_ns)
    return Recovery(
        RecoveryVerdict.RECOVERED,
        at_s=at_ns / 1e9,
        recovery_s=(at_ns - after[0]) / 1e9,
        latest_s=(latest * bins.bin_ns - after[0]) / 1e9,
        window_s=smoothing.width * bins.bin_ns / 1e9,
        throughput_margin=smoothing.throughput_margin,
        response_margin=smoothing.response_margin,
        rule=rule(RuleName.RECOVERY),
    )


def _smoothing(lasts: list[tuple[int, _Scale]]) -> tuple[int, _Scale]:
    """The length that bounds the recovery from above, with its last bad window: the shortest in which chance explains
    less than 5 %, else the longest. Where throughput only rises, it has reached the limit at the end of the first
    window that is not bad."""
    exact = (entry for entry in lasts if entry[1].throughput_margin <= 1 - THROUGHPUT + 1e-9)
    return next(exact, lasts[-1])


def _undecided(reason: RecoveryReason) -> Recovery:
    return Recovery(RecoveryVerdict.UNDECIDED, reason=reason, rule=rule(RuleName.RECOVERY))


def _step(width: int) -> int:
    return max(1, width // STEPS)


def _widths(bin_ns: int, length: int) -> list[int]:
    """Lengths in bins: doubled from MIN_WINDOW_S on, as long as MIN_WINDOWS fit into `length` bins."""
    width = max(1, round(MIN_WINDOW_S * 1e9 / bin_ns))
    widths = []
    while width * MIN_WINDOWS <= length:
        widths.append(width)
        width *= 2
    return widths


def _scales(sums: _Sums, low: int, high: int, after: int, widths: list[int]) -> list[_Scale]:
    """The lengths that have power, with their limits.

    The standard deviation of a length is estimated from the windows of the baseline. There are few long windows. For
    them, that of a shorter length is used too, extended as for independent windows; the greater of both counts. So
    positive correlation widens the limits, and a small sample does not narrow them.
    """
    scales = []
    done_variance = response_variance = 0.0
    reference = 0
    skewness = 0.0
    for width in widths:
        _, done, response = sums.windows(low, high, width, width)
        done, response = done[: (high - low) // width], response[: (high - low) // width]
        known = response[~np.isnan(response)]
        mean, mean_response = float(done.mean()), float(known.mean()) if known.size else math.nan
        done_sd, response_sd = float(done.std(ddof=1)), float(known.std(ddof=1)) if known.size > 1 else 0.0
        if reference:
            ratio = width / reference
            skewness /= math.sqrt(ratio)
            done_sd = max(done_sd, math.sqrt(done_variance * ratio))
            response_sd = max(response_sd, math.sqrt(response_variance / ratio))
        else:
            skewness = _skewness(known)
        reference, done_variance, response_variance = width, done_sd**2, response_sd**2
        done_sd = max(done_sd, 1.0)  # where starts are even, windows differ by one at their edges
        number = OVERLAP * max(1.0, after / width) * len(widths)
        z = -normal_quantile(FALSE_ALARMS / (2 * number)) * math.sqrt(1 + width / (high - low))
        least = min(THROUGHPUT * mean, mean - z * done_sd, THROUGHPUT * float(done.min()))
        most = math.nan
        if known.size:
            worst = RESPONSE * float(known.max())
            skewed = (
                z + (z * z - 1) * skewness / 6
            )  # Cornish and Fisher: means of few long-tailed times are skewed
            most = max(RESPONSE * mean_response, mean_response + skewed * response_sd, worst)
        if not least >= MIN_POWER * mean:
            continue
        has_response = most * MIN_POWER <= mean_response and mean >= MIN_RESPONSES
        scales.append(
            _Scale(
                width,
                least,
                most if has_response else math.inf,
                1 - least / mean,
                most / mean_response - 1 if has_response else None,
                mean,
                done_sd,
                high - low,
            )
        )
    return scales


def _skewness(values: NDArray[np.float64]) -> float:
    """The sample skewness, 0 if it is negative: the upper limit is not narrowed."""
    sd = float(values.std()) if values.size > 2 else 0.0
    return max(0.0, float(((values - values.mean()) ** 3).mean()) / sd**3) if sd > 0 else 0.0


def _last_bad(sums: _Sums, start: int, end: int, scale: _Scale) -> int:
    """Begin of the last bad window of this length; -1 if there is none."""
    begin, done, response = sums.windows(start, end, scale.width, _step(scale.width))
    bad = (done < scale.least_done) | (response > scale.most_response)
    return int(begin[bad][-1]) if bad.any() else -1
