"""Changes of throughput, response time and CPU during a run whose load does not change by plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.components.cpu_series import HostCpu
from plimsoll.analyse.results.run import OutsideCpu, RunChange
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import ChangedSeries
from plimsoll.analyse.stats.change_points import change_points
from plimsoll.collect.live import Second

Array = NDArray[np.float64]

MIN_SECONDS: Final = 30
"""A series with fewer seconds is not examined."""
MIN_TRANSACTIONS: Final = 10
"""Minimum median number of successful transactions in a second for a series of response times. In a single second with
fewer, the response time is unknown."""
LEVEL: Final = 0.01
"""Of all series of a run together, each tested at an equal part. If neighbouring seconds have a correlation of 0.8, the
rate of false changes is several times as large, but below 5 % (docs/methods.md)."""
MIN_CHANGE: Final = 0.1
"""Smallest change that is reported, relative to the mean before."""
MIN_CORES: Final = 0.05
"""Smallest change of a component's CPU that is reported, in cores."""
MIN_SEGMENT: Final = 5
"""Minimum number of values (seconds, or groups of seconds) between changes."""
MAX_VALUES: Final = 150
"""Longer series are tested in groups of seconds: 2 s from 2.5 to 5 minutes. The time of a test increases with the
square."""
OUTSIDE_LEVEL: Final = 0.01
MIN_OUTSIDE: Final = 0.05
"""Smallest change of the share of other processes, of a host's CPU, that explains a change of the traffic."""
MAX_DISTANCE_S: Final = 3.0
"""Maximum time between a change of the traffic and the change that explains it, in addition to a group of seconds."""


@dataclass(frozen=True, slots=True)
class _Examined:
    """A series with what it measures; `values` by second, NaN: unknown."""

    series: ChangedSeries
    values: Array
    component: str = ""
    host: str = ""


def run_changes(
    live: Sequence[Second], seconds: range, hosts: Sequence[HostCpu] = ()
) -> tuple[RunChange, ...] | None:
    """The changes of a run, in order of time. `seconds`: those of the measured window; all values belong to it.
    None if no series has 30 seconds.

    At the end of a closed load whose testers end one after the other, the seconds with fewer active testers are left
    out: the load changes there.
    """
    series = [*_traffic(live, seconds), *_cpu(hosts)]
    series = [entry for entry in series if np.count_nonzero(np.isfinite(entry.values)) >= MIN_SECONDS]
    if not series:
        return None
    level = LEVEL / len(series)
    found = [change for entry in series for change in _changes(entry, level, seconds.start)]
    found = _explained(found, hosts, seconds.start)
    return tuple(sorted(found, key=lambda change: (change.at_s, _ORDER.index(change.series))))


_ORDER: Final = tuple(ChangedSeries)
_UNITS: Final = {
    ChangedSeries.THROUGHPUT: "requests/s",
    ChangedSeries.RESPONSE: "ms",
    ChangedSeries.CPU: "cores",
}


def _traffic(live: Sequence[Second], seconds: range) -> list[_Examined]:
    """Successful transactions by second, and their mean response time in ms."""
    count, total, active = (np.zeros(len(seconds)) for _ in range(3))
    for second in live:
        if second.number in seconds:
            at = second.number - seconds.start
            count[at] += second.succeeded
            total[at] += float(second.values.astype(np.float64) @ second.counts) / 1e6
            active[at] += second.active
    usual = np.nonzero(active >= np.median(active))[0] if active.size else np.zeros(0, dtype=np.int64)
    last = int(usual[-1]) + 1 if usual.size else 0
    count, total = count[:last], total[:last]
    if not count.any():
        return []
    examined = [_Examined(ChangedSeries.THROUGHPUT, count)]
    if np.median(count) >= MIN_TRANSACTIONS:
        known = count >= MIN_TRANSACTIONS
        mean = np.divide(total, count, out=np.full(count.size, np.nan), where=known)
        examined.append(_Examined(ChangedSeries.RESPONSE, mean))
    return examined


def _cpu(hosts: Sequence[HostCpu]) -> list[_Examined]:
    """Cores in use by each host of the target, or of the lab, and by each service and watched process."""
    examined = []
    for host in hosts:
        if host.only_testers:
            continue
        examined.append(_Examined(ChangedSeries.CPU, host.busy, host=host.host))
        examined += [
            _Examined(ChangedSeries.CPU, values, component, host.host)
            for component, values in host.components.items()
        ]
    return examined


def _changes(entry: _Examined, level: float, first: int) -> list[RunChange]:
    """The significant changes of a series that are large enough to be reported."""
    found = change_points(
        entry.values, level=level, min_segment=MIN_SEGMENT, min_change=MIN_CHANGE, max_values=MAX_VALUES
    )
    smallest = MIN_CORES if entry.series == ChangedSeries.CPU else 0.0
    return [
        RunChange(
            series=entry.series,
            component=entry.component,
            host=entry.host,
            at_s=float(first + change.index),
            before=change.before,
            after=change.after,
            unit=_UNITS[entry.series],
            ratio=change.ratio if math.isfinite(change.ratio) else None,
            p=change.p,
            rule=rule(RuleName.CHANGES),
        )
        for change in found
        if abs(change.after - change.before) >= smallest
    ]


def _explained(found: Sequence[RunChange], hosts: Sequence[HostCpu], first: int) -> list[RunChange]:
    """The changes, those of the traffic with the changes of other processes near the same time."""
    if all(change.series == ChangedSeries.CPU for change in found):
        return list(found)
    outside = [change for host in hosts for change in _outside_changes(host, first)]
    group = max([1, *(math.ceil(host.busy.size / MAX_VALUES) for host in hosts)])
    return [_with_outside(change, outside, MAX_DISTANCE_S + group - 1) for change in found]


def _outside_changes(host: HostCpu, first: int) -> list[OutsideCpu]:
    if host.outside is None or np.count_nonzero(np.isfinite(host.outside)) < MIN_SECONDS:
        return []
    found = change_points(
        host.outside, level=OUTSIDE_LEVEL, min_segment=MIN_SEGMENT, min_change=0.0, max_values=MAX_VALUES
    )
    return [
        OutsideCpu(host.host, float(first + change.index), change.before, change.after)
        for change in found
        if abs(change.after - change.before) >= MIN_OUTSIDE
    ]


def _with_outside(change: RunChange, outside: Sequence[OutsideCpu], distance_s: float) -> RunChange:
    """A slower target is explained by other processes that use more CPU, a faster one by those that use less."""
    if change.series == ChangedSeries.CPU:
        return change
    is_slower = (change.after < change.before) == (change.series == ChangedSeries.THROUGHPUT)
    near = [
        other
        for other in outside
        if abs(other.at_s - change.at_s) <= distance_s and (other.after > other.before) == is_slower
    ]
    return change.with_outside(tuple(near))
