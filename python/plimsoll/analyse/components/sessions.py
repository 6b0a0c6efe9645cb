"""Sessions of databases by what they wait for, from samples of their states."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.load.sessions import DatabaseSessions, SessionWait
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.stats.batch import batch_mean
from plimsoll.analyse.stats.distributions import t_quantile
from plimsoll.analyse.stats.interval import Interval
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings
from plimsoll.deploy.counters.databases.sessions import (
    ACTIVE,
    IDLE_IN_TRANSACTION,
    LOCK_WAIT,
    RUNNING,
    STATE,
    WAIT,
    is_wait,
)

Array = NDArray[np.float64]

MIN_SAMPLES: Final = 15
"""With fewer samples, waits that last long would be reported falsely in more than 5 % of the runs."""
MIN_SESSIONS: Final = 1.0
MIN_SHARE: Final = 0.25
"""Mean number of sessions with a wait, and their share of the active ones, from which it explains something."""
NO_WAITS: Final = (RUNNING[0], STATE)
"""Types that are no waits."""


def database_sessions(readings: Iterable[WatchedReadings], window: Window) -> tuple[DatabaseSessions, ...]:
    """The sessions of each database whose sessions were read in the window."""
    found = (_of_database(each, window) for each in readings if ACTIVE in each.values)
    return tuple(sessions for sessions in found if sessions is not None)


def by_type(readings: WatchedReadings) -> dict[str, Array]:
    """The number of active sessions in each reading, by type of wait."""
    out: dict[str, Array] = {}
    for name, values in readings.values.items():
        if is_wait(name):
            kind = _parts(name)[0]
            out[kind] = out[kind] + values if kind in out else values
    return out


def sampled_mean(values: Array) -> Interval:
    """Mean of numbers of sessions in order of time, with the interval of `_mean`, cut at 0."""
    interval = _mean(values)
    return interval if interval.low is None else replace(interval, low=max(0.0, interval.low))


def _mean(values: Array) -> Interval:
    """Mean of samples with its 95 % interval: by batch means from 10 samples on, else Student's t from 3 samples on,
    else none."""
    batched = batch_mean(values)
    if batched is not None:
        return batched.interval
    mean = float(values.mean())
    if values.size < 3:
        return Interval(mean, None, None)
    half = t_quantile(0.975, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return Interval(mean, mean - half, mean + half, df=values.size - 1)


def explains(waiting: Array, active: Array) -> bool:
    """Whether a wait explains what the active sessions did: at least MIN_SESSIONS and a share of MIN_SHARE of them had
    it on average, each by the lower end of its interval."""
    if active.size < MIN_SAMPLES:
        return False
    low, excess = _mean(waiting).low, _mean(waiting - MIN_SHARE * active).low
    return low is not None and excess is not None and low >= MIN_SESSIONS and excess >= 0


def _of_database(readings: WatchedReadings, window: Window) -> DatabaseSessions | None:
    t, active = readings.t_s, readings.values[ACTIVE]
    inside = (t >= window.start / 1e9) & (t < window.end / 1e9) & np.isfinite(active)
    if not inside.any():
        return None
    types = {kind: values[inside] for kind, values in by_type(readings).items()}
    events = {_parts(name): values[inside] for name, values in readings.values.items() if is_wait(name)}
    explaining = [
        kind for kind, values in types.items() if kind not in NO_WAITS and explains(values, active[inside])
    ]

    def gauge(name: str) -> Array:
        return readings.values.get(name, np.zeros(t.size))[inside]

    return DatabaseSessions(
        service=readings.name,
        kind=readings.kind,
        samples=int(inside.sum()),
        active=sampled_mean(active[inside]),
        idle_in_transaction=float(gauge(IDLE_IN_TRANSACTION).mean()),
        types=_waits({(kind, ""): values for kind, values in types.items()}),
        waits=_waits(events),
        longest_lock_wait_s=float(gauge(LOCK_WAIT).max()),
        explained_by=max(explaining, key=lambda kind: float(types[kind].mean()), default=""),
        rule=rule(RuleName.SESSIONS),
    )


def _waits(values: dict[tuple[str, str], Array]) -> tuple[SessionWait, ...]:
    """The waits that occurred, the most frequent first."""
    found = [SessionWait(*name, sampled_mean(samples)) for name, samples in values.items() if samples.any()]
    return tuple(sorted(found, key=lambda wait: -wait.sessions.mean))


def _parts(name: str) -> tuple[str, str]:
    """Type and event of the name of a wait."""
    kind, _, event = name.removeprefix(WAIT).partition(".")
    return kind, event
