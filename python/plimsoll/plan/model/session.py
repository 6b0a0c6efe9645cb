"""Sessions of testers: emulated application jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plimsoll.plan.model.times import Distribution
from plimsoll.plan.source.secret import Secret

DRIVERS: Final = ("frontier", "sql")
"""The drivers whose testers can have sessions."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session: the program `start` (empty: none), then computing for `compute`, with `min_queries` to `max_queries`
    requests at random times of it, each number with equal probability. `busy`: whether computing uses a core."""

    start: tuple[str | Secret, ...]
    compute: Distribution
    busy: bool
    min_queries: int
    max_queries: int
