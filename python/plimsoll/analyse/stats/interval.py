"""A mean with its interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval around a mean.

    `low` and `high` are None if there is no interval (a single repetition); `df` are its degrees of freedom; `method`
    names the source of its error term ("pooled over the design", "separate variances", "batch means within the run").
    """

    mean: float
    low: float | None
    high: float | None
    level: float = 0.95
    df: float | None = None
    method: str = ""
