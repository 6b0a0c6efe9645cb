"""Named metrics of drivers and client programs, a part of `analysis.json`."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll.analyse.stats.value_histogram import ValueHistogram


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """A metric that a driver measured of its transactions, in its own unit (`_s` seconds, `_bytes` bytes)."""

    name: str
    count: int
    mean: float
    sd: float | None
    p50: float | None
    p95: float | None
    max: float
    min: float | None = None
    p90: float | None = None
    p99: float | None = None
    values: ValueHistogram | None = field(default=None, repr=False)
    """For figures over several runs; no part of analysis.json."""
