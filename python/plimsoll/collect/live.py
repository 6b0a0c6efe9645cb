"""The seconds of live.jsonl as values."""

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
    """What happened in one second of a run. `values` (ns, ascending) and `counts`: histogram of the response times of
    the successful transactions that ended in it; `active` testers and transactions `in_progress` at its end.
    `dropped`: starts that were not made. `own`: how late the load generator itself made transactions start (None: not
    recorded, in results of older releases); `stopped_s`: for how long its threads stood still, the longest of all."""

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
    own: Histogram | None = None
    stopped_s: float | None = None


def seconds_of(lines: Iterable[Mapping[str, Any]]) -> list[Second]:
    """From the lines of live.jsonl, its head left out. Raises DamagedResults for a line that is no second."""
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
"""A run of more than a month is rubbish in the file, and would be memory here."""
