"""The seconds of live.jsonl as objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll.collect.hdr import Histogram, decode
from plimsoll.errors import DamagedResults


@dataclass(frozen=True, slots=True)
class Second:
    """The counts of one second of a run. `values` (ns, ascending) and `counts`: histogram of the response times of
    the successful transactions that ended in it; `active` testers and transactions `in_progress` at its end.
    `dropped`, `missed`: planned starts that were dropped, and slots that a busy tester skipped. `own`: lateness that
    the load generator itself caused (None: not recorded, in results of older releases); `stopped_s`: the longest time
    for which one of its threads was stopped."""

    number: int
    started: int
    succeeded: int
    failed: int
    items: int
    payload: int
    wire: int
    active: int
    in_progress: int
    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    dropped: int = 0
    missed: int = 0
    own: Histogram | None = None
    stopped_s: float | None = None


def seconds_of(lines: Iterable[Mapping[str, Any]]) -> list[Second]:
    """The seconds, from the lines of live.jsonl without its first line. Raises DamagedResults if a line is not a valid
    second."""
    out = []
    for line in lines:
        try:
            counters = line["counters"]
            response = decode(line["response"])
            numbers = {name: int(counters[name]) for name in COUNTERS}
            out.append(
                Second(
                    number=int(line["second"]),
                    active=int(line["active"]),
                    in_progress=int(line["in_progress"]),
                    values=response.values,
                    counts=response.counts,
                    dropped=int(counters.get("dropped", 0)),
                    missed=int(counters.get("missed", 0)),
                    own=decode(line["own_lateness"]) if "own_lateness" in line else None,
                    stopped_s=int(line["stopped_ns"]) / 1e9 if "stopped_ns" in line else None,
                    **numbers,
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedResults(f"live.jsonl: a line is not a valid second of a run: {error!r}") from error
        if not 0 <= out[-1].number < MAX_SECONDS or min(numbers.values()) < 0:
            raise DamagedResults(f"live.jsonl: invalid second {out[-1].number}")
    return out


COUNTERS = ("started", "succeeded", "failed", "items", "payload", "wire")
MAX_SECONDS = 31 * 24 * 3600
"""A greater number means a damaged file; arrays of that length would exhaust the memory."""
