"""Readings of the exporters that were watched during a run, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll.collect.results import RunFiles
from plimsoll.deploy.counters.databases.sessions import ACTIVE, is_wait

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WatchedReadings:
    """The readings of one exporter: `t_s` seconds from the run's zero; values by name as they were read, NaN if a
    reading lacks the value, but 0 for a wait of sessions that it lacks. `host`: name of the watched host of the
    exporter; empty: this host. `gauges`: names of the values that also decrease."""

    name: str
    kind: str
    host: str
    t_s: Array
    values: Mapping[str, Array]
    gauges: frozenset[str] = frozenset()


def watched_readings(run: RunFiles) -> list[WatchedReadings]:
    """The readings of each exporter; exporters without a response are left out."""
    return _readings(run, run.record.get("watched", ()))


def service_readings(run: RunFiles) -> list[WatchedReadings]:
    """The readings of each service with counters."""
    return _readings(run, (service for service in run.record["services"] if "counters" in service))


def _readings(run: RunFiles, entries: Iterable[Mapping[str, Any]]) -> list[WatchedReadings]:
    zero_s = (run.record.get("t0_unix_ns") or 0) / 1e9
    readings = []
    for entry in entries:
        lines = run.counters(entry["name"])
        if lines:
            t_s = np.array([line["t"] for line in lines], dtype=np.float64) - zero_s
            gauges = run.gauges(entry["name"])
            host = entry.get("host", "")
            readings.append(WatchedReadings(entry["name"], entry["kind"], host, t_s, _columns(lines), gauges))
    return readings


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    names = dict.fromkeys(name for line in lines for name in line["values"])
    return {
        name: np.array([_value(line["values"], name) for line in lines], dtype=np.float64) for name in names
    }


def _value(values: Mapping[str, float], name: str) -> float:
    return values.get(name, 0.0 if is_wait(name) and ACTIVE in values else np.nan)
