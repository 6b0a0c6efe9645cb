"""Services all of whose workers are in use: further requests wait, although no CPU or disk is full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.components.conditions import Condition, ConditionKind
from plimsoll.analyse.results.verdict_rules import RuleName, rule
from plimsoll.analyse.results.verdicts import Value
from plimsoll.analyse.window.transactions import Window

Array = NDArray[np.float64]
MIN_READINGS: Final = 5
"""Fewer readings could all fall into short bursts."""
FULL_SHARE: Final = 0.9
"""Share of the readings at which all workers are in use, from which on it is reported."""


@dataclass(frozen=True, slots=True)
class WorkerReadings:
    """Readings of the workers of a service. All arrays have the same length; NaN: not read.

    `host`: empty for the host of the lab. `worker`, `waiter`: nouns for a worker and for what waits for one. `t_s`:
    seconds from the run's zero. `in_use`: number of workers in use. `limit`: number of workers. `waiting`: number of
    waiting requests or connections; None: it is not counted, and `in_use` may include them."""

    service: str
    host: str
    worker: str
    waiter: str
    t_s: Array
    in_use: Array
    limit: Array
    waiting: Array | None = None


def full_workers(pools: Iterable[WorkerReadings], window: Window) -> Iterator[Condition]:
    """A condition for each service whose workers were all in use in at least FULL_SHARE of the readings in the window.
    Where the service counts what waits for a worker, something must have waited: a pool that just suffices is full,
    too."""
    for pool in pools:
        inside = (pool.t_s >= window.start / 1e9) & (pool.t_s < window.end / 1e9)
        inside &= np.isfinite(pool.in_use) & np.isfinite(pool.limit)
        in_use, limit = pool.in_use[inside], pool.limit[inside]
        if in_use.size < MIN_READINGS:
            continue
        is_full = in_use >= limit
        if pool.waiting is None:
            waiting = np.maximum(in_use - limit, 0.0)
        else:
            waiting = np.nan_to_num(pool.waiting[inside])
            is_full &= waiting > 0
        share = float(is_full.mean())
        if share < FULL_SHARE:
            continue
        values: dict[str, Value] = {
            "share": share,
            "workers": float(np.median(limit)),
            "waiting": float(waiting.mean()),
            "worker": pool.worker,
            "waiter": pool.waiter,
        }
        severity = 1.0 + float(waiting.mean()) / max(1.0, float(np.median(limit)))
        yield Condition(
            ConditionKind.WORKERS, pool.service, pool.host, severity, values, rule(RuleName.CONDITIONS)
        )
