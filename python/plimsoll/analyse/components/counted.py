"""The counters of services and of watched systems, and figures that are computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from plimsoll.analyse.components.binned import Array
from plimsoll.analyse.results.run import CountedService, Statement
from plimsoll.analyse.window.transactions import Window
from plimsoll.collect.watched import WatchedReadings


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """Increases of counters in a window, and means of the gauges over the readings in it, by name."""

    increases: dict[str, float]
    gauges: dict[str, float]


NO_COUNTS: Final = WindowCounts({}, {})


def window_counts(
    readings: WatchedReadings, window: Window, idle_before: int | None = None, idle_after: int | None = None
) -> WindowCounts:
    """The counts of a service in a window.

    Between two readings a counter is taken to increase evenly: its value at the start and at the end of the window is
    interpolated between the readings before and after. A counter that decreased was reset; its value is the increase
    since then. A counter is left out unless the readings bracket the window. `idle_before`, `idle_after` (ns): the
    service had no requests before and after these times, so its counters were constant.
    """
    start, end = window.start / 1e9, window.end / 1e9
    increases, gauges = {}, {}
    for name, values in readings.values.items():
        known = np.isfinite(values)
        t, value = readings.t_s[known], values[known]
        if name in readings.gauges:
            inside = (t >= start) & (t < end)
            if inside.any():
                gauges[name] = float(value[inside].mean())
        elif t.size > 1 and t[0] <= start and t[-1] >= end:
            if idle_after is not None:
                t, value = _constant_after(t, value, idle_after / 1e9)
            if idle_before is not None:
                t, value = _constant_before(t, value, idle_before / 1e9)
            step = np.diff(value)
            total = np.concatenate([[0.0], np.cumsum(np.where(step < 0, value[1:], step))])
            increases[name] = float(np.interp(end, t, total) - np.interp(start, t, total))
    return WindowCounts(increases, gauges)


def _constant_before(t: Array, value: Array, start: float) -> tuple[Array, Array]:
    """The readings, and the last one before `start` (s) again at `start`. Without it, requests between `start` and the
    next reading would count as sent partly before `start`."""
    at = int(np.searchsorted(t, start))
    return (t, value) if at == 0 else (np.insert(t, at, start), np.insert(value, at, value[at - 1]))


def _constant_after(t: Array, value: Array, end: float) -> tuple[Array, Array]:
    """The readings, and the first one after `end` (s) already at `end`."""
    at = int(np.searchsorted(t, end, side="right"))
    return (t, value) if at == t.size else (np.insert(t, at, end), np.insert(value, at, value[at]))


def counted_services(
    records: Iterable[Mapping[str, Any]], windows: Mapping[str, WindowCounts] | None = None
) -> tuple[CountedService, ...]:
    """The counters of those services and watched systems of a run.json that have counters. `records`: their entries;
    `windows`: their counts in the window, by name."""
    in_window = windows or {}
    return tuple(
        CountedService(
            window=(counts := in_window.get(record["name"], NO_COUNTS)).increases,
            window_gauges=counts.gauges,
            window_derived=derived(record["kind"], counts.increases) if counts.increases else {},
            name=record["name"],
            kind=record["kind"],
            version=record.get("version", ""),
            derived=derived(record["kind"], record["counters"]),
            counters=dict(record["counters"]),
            gauges=dict(record.get("gauges", {})),
            statements=tuple(_statement(statement) for statement in record.get("statements", ())),
            means=dict(record.get("means", {})),
            peaks=dict(record.get("peaks", {})),
        )
        for record in records
        if "counters" in record
    )


def derived(kind: str, counters: Mapping[str, float]) -> dict[str, float | None]:
    """Figures by name; ratios are fractions of 1.

    Squid: `hit_ratio` is hits / requests of clients; `byte_hit_ratio` is the bytes sent for hits / all bytes sent to
    clients. Both are as its cache manager counts them: an object that the origin reports as unchanged is a hit.
    `origin_requests` is the number of requests to servers and peers. PostgreSQL: `buffer_hit_ratio` is blks_hit /
    (blks_hit + blks_read); MariaDB: 1 - buffer pool reads / read requests. In both, blocks that the operating system
    returned from its own cache count as read.
    """
    value = counters.get
    match kind:
        case "squid":
            return {
                "hit_ratio": _ratio(value("client_http.hits"), value("client_http.requests")),
                "byte_hit_ratio": _ratio(
                    value("client_http.hit_kbytes_out"), value("client_http.kbytes_out")
                ),
                "origin_requests": value("server.all.requests"),
            }
        case "postgres":
            hit, read = value("blks_hit", 0.0), value("blks_read", 0.0)
            return {"buffer_hit_ratio": _ratio(hit, hit + read)}
        case "mariadb":
            requests, read = (
                value("Innodb_buffer_pool_read_requests", 0.0),
                value("Innodb_buffer_pool_reads", 0.0),
            )
            return {"buffer_hit_ratio": _ratio(requests - read, requests)}
        case _:
            return {}


def _ratio(part: float | None, whole: float | None) -> float | None:
    if part is None or not whole or whole < 0:
        return None
    # Two counters are not read at the same instant, so the ratio can exceed 1.
    return min(max(part / whole, 0.0), 1.0)


def _statement(record: Mapping[str, Any]) -> Statement:
    calls, total = int(record["calls"]), float(record["total_s"])
    return Statement(
        statement=str(record["statement"]),
        calls=calls,
        total_s=total,
        mean_ms=total * 1000 / calls if calls else None,
        rows=int(record["rows"]),
    )
