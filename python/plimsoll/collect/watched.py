"""Readings of the exporters that were watched during a run, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll.collect.results import RunFiles

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WatchedReadings:
    """The readings of one exporter: `t_s` seconds from the run's zero; values by name as they were read, NaN if a
    reading lacks the value. `host`: name of the watched host of the exporter; empty: this host."""

    name: str
    kind: str
    host: str
    t_s: Array
    values: Mapping[str, Array]


def watched_readings(run: RunFiles) -> list[WatchedReadings]:
    """The readings of each exporter; exporters without a response are left out."""
    zero_s = (run.record.get("t0_unix_ns") or 0) / 1e9
    readings = []
    for entry in run.record.get("watched", ()):
        lines = run.counters(entry["name"])
        if lines:
            t_s = np.array([line["t"] for line in lines], dtype=np.float64) - zero_s
            readings.append(
                WatchedReadings(entry["name"], entry["kind"], entry.get("host", ""), t_s, _columns(lines))
            )
    return readings


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    names = dict.fromkeys(name for line in lines for name in line["values"])
    return {
        name: np.array([line["values"].get(name, np.nan) for line in lines], dtype=np.float64)
        for name in names
    }
