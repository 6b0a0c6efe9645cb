"""Increases of the counters of a watched system between its readings in the window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.utilization import mean_interval
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings

Array = NDArray[np.float64]
Busy = tuple[float, float | None, float | None]
"""Mean with the ends of its interval."""


class WindowSteps:
    """Increase of counters between readings in the window. A counter that fell was reset: its increase is its new
    value."""

    def __init__(self, readings: WatchedReadings, window: Window) -> None:
        self._values = readings.values
        t = readings.t_s
        middle = (t[1:] + t[:-1]) / 2
        self._in = (middle >= window.start / 1e9) & (middle < window.end / 1e9) & (np.diff(t) > 0)
        self.width = np.diff(t)[self._in]

    def names(self, prefix: str) -> list[str]:
        return [name for name in self._values if name.startswith(prefix)]

    def counter_increase(self, name: str) -> Array:
        value = self._values.get(name)
        if value is None:
            return np.full(self.width.size, np.nan)
        step = np.diff(value)
        increase: Array = np.where(step < 0, value[1:], step)[self._in]
        return increase

    def total(self, name: str) -> float | None:
        """Increase of a counter over the window; None if it is not known."""
        increase = self.counter_increase(name)
        known = increase[np.isfinite(increase)]
        return float(known.sum()) if known.size else None

    def levels(self, name: str) -> Array:
        """A gauge at the ends of the intervals; NaN where it is not known."""
        value = self._values.get(name)
        return np.full(self.width.size, np.nan) if value is None else value[1:][self._in]

    def gauge(self, name: str) -> float | None:
        """Mean of a gauge over the ends of the intervals; None without values."""
        value = self._values.get(name)
        ends = np.zeros(0) if value is None else value[1:][self._in]
        ends = ends[np.isfinite(ends)]
        return float(ends.mean()) if ends.size else None

    def share(self, name: str, of: Array) -> Array:
        """Increase of a counter relative to `of`; NaN if one of the two is not known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Array = self.counter_increase(name) / np.where(of > 0, of, np.nan)
        return share

    def mean(self, values: Array) -> float | None:
        known = np.isfinite(values)
        return float(np.average(values[known], weights=self.width[known])) if known.any() else None

    def rates(self, prefix: str) -> dict[str, float]:
        """Increase per second of each counter with this prefix, by the rest of its name."""
        means = {name: self.mean(self.share(name, self.width)) for name in self.names(prefix)}
        return {name.removeprefix(prefix): mean for name, mean in means.items() if mean is not None}

    def utilization(self, values: Array) -> Busy:
        """Mean and interval. With a gap in the readings there is no interval, because one value then covers several
        intervals."""
        known = np.isfinite(values)
        width = self.width[known]
        mean = min(1.0, float(np.average(values[known], weights=width)))
        usual = float(np.median(width))
        if width.max() > 1.5 * usual:
            return mean, None, None
        # The last reading of a run is early: its interval may be too short to be comparable.
        _, low, high = mean_interval(values[known][width > usual / 2])
        return mean, None if low is None else min(low, mean), None if high is None else max(high, mean)
