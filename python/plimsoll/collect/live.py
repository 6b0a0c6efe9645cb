"""The seconds of live.jsonl as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plimsoll.collect.hdr import decode
from plimsoll.errors import DamagedResults


@dataclass(frozen=True, slots=True)
class Second:
    """What happened in one second of a run. `values` (ns, ascending) and `counts`: histogram of the response times of
    the successful transactions that ended in it; `active` testers and transactions `in_progress` at its end."""

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
                    **numbers,
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedResults(f"live.jsonl: a line is no second of a run: {error!r}") from error
        if not 0 <= out[-1].number < LONGEST or min(numbers.values()) < 0:
            raise DamagedResults(f"live.jsonl: second {out[-1].number} cannot be")
    return out


COUNTERS = ("started", "succeeded", "failed", "items", "payload", "wire")
LONGEST = 31 * 24 * 3600
"""A run of more than a month is rubbish in the file, and would be memory here."""
