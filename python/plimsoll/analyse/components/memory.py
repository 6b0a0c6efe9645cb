"""Memory as the limit of a run: from evidence that it was short, never from its use alone.

A service that fills its memory may only keep a cache. Evidence is that the kernel killed one of its processes at its
limit, or that its tasks waited for memory: reclaim, or pages that were dropped or swapped out and had to be read again.
The kernel measures this wait as pressure (PSI, Documentation/accounting/psi.rst), per control group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.analyse.results.run import Utilization

Array = NDArray[np.float64]

PRESSURE: Final = 0.1
"""Memory is the limit if some task of a component waits for it for at least this share of the time. At 10 %, the
component could do up to 11 % more."""
MIN_PRESSURE: Final = 0.02
"""The lower end of the interval of this share must be at least this: one burst of reclaim in a short run is not
evidence of a limit. A lower end of 10 % would miss most runs in which reclaim comes in bursts (docs/methods.md)."""
SHORT: Final = 0.1
"""A host is short of memory only if less than this share of it is available: the pressure of a host includes that of
control groups with limits of their own."""
OOM_KILLS: Final = "memory.oom_kills"
SOME: Final = "psi.memory.some"
SOME_LOW: Final = "psi.memory.some low"
SOME_HIGH: Final = "psi.memory.some high"
OWN: Final = "memory.own"
LIMIT: Final = "memory.limit"
AVAILABLE: Final = "memory.available"
TOTAL: Final = "memory.total"
_MEANS: Final = (OWN, LIMIT, "memory.reclaims", "memory.major_faults", AVAILABLE, TOTAL)


def memory_details(
    series: Mapping[tuple[str, str], Array], interval: Mapping[str, tuple[float, float | None, float | None]]
) -> dict[str, float]:
    """What the samples of a component state about its memory, by the name of the metric. `series`: values in the
    window by metric and part; `interval`: mean and ends of `SOME`, if it was sampled."""
    detail: dict[str, float] = {}
    for metric in _MEANS:
        values = series.get((metric, ""))
        if values is not None and values.size:
            detail[metric] = float(values.mean())
    kills = series.get((OOM_KILLS, ""))
    if kills is not None and kills.size:
        detail[OOM_KILLS] = float(kills.sum())
    if SOME in interval:
        mean, low, high = interval[SOME]
        detail[SOME] = mean
        if low is not None and high is not None:
            detail |= {SOME_LOW: low, SOME_HIGH: high}
    return detail


def short_of_memory(components: Sequence[Utilization]) -> Utilization | None:
    """The component whose memory is the limit: of those with evidence the one with most killed processes, then with
    most pressure. A host counts only if no service has evidence. None: there is no evidence."""
    services = [c for c in components if c.role == "service" and _has_evidence(c)]
    hosts = [c for c in components if c.role == "host" and _is_pressed(c) and _is_nearly_full(c)]
    return max(
        services or hosts,
        key=lambda c: (c.detail.get(OOM_KILLS, 0.0), c.detail.get(SOME, 0.0)),
        default=None,
    )


def _has_evidence(component: Utilization) -> bool:
    return component.detail.get(OOM_KILLS, 0.0) > 0 or (LIMIT in component.detail and _is_pressed(component))


def _is_pressed(component: Utilization) -> bool:
    detail = component.detail
    return detail.get(SOME, 0.0) >= PRESSURE and detail.get(SOME_LOW, 0.0) >= MIN_PRESSURE


def _is_nearly_full(host: Utilization) -> bool:
    available, total = host.detail.get(AVAILABLE), host.detail.get(TOTAL)
    return available is not None and total is not None and available < SHORT * total
