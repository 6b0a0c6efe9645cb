"""Durations that may be drawn, ns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FixedTime:
    """Always the same duration, ns."""

    ns: int


@dataclass(frozen=True, slots=True)
class ExponentialTime:
    """Exponentially distributed with this mean, ns."""

    mean_ns: int


@dataclass(frozen=True, slots=True)
class UniformTime:
    """Uniformly distributed between two durations, ns."""

    from_ns: int
    to_ns: int


Distribution = FixedTime | ExponentialTime | UniformTime
