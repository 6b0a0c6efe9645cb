"""The sessions of the testers of a run, from metrics.parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.collect.columns.parquet import numbered, numbers, row_groups

SUCCEEDED: Final = 0
WORK_FAILED: Final = 1
QUERY_FAILED: Final = 2
UNFINISHED: Final = 3
METRICS: Final = ("session_s", "session_work_failed_s", "session_query_failed_s", "session_unfinished_s")
"""The metric of each way in which a session ends (crate `drive`, tester/session), in the order of the constants."""


@dataclass(frozen=True, slots=True)
class SessionColumns:
    """One item for each session: `start`: ns from the start of the run; `duration`: ns, of an unfinished session until
    the run was over; `ended`: SUCCEEDED, WORK_FAILED, QUERY_FAILED or UNFINISHED."""

    start: NDArray[np.int64]
    duration: NDArray[np.int64]
    ended: NDArray[np.int64]


def read_sessions(path: Path) -> SessionColumns:
    """All sessions of a run; none if the testers carried out single transactions. Raises DamagedResults."""
    starts, durations, ends = ([np.empty(0, np.int64)] for _ in range(3))
    for table in row_groups(path, "plimsoll.metrics", ("start", "metric", "value")):
        names, number = numbered(table, "metric")
        kinds = np.array([METRICS.index(name) if name in METRICS else -1 for name in names] or [-1])
        ended = kinds[number].astype(np.int64)
        selected = ended >= 0
        starts.append(numbers(table, "start")[selected].astype(np.int64))
        durations.append(np.rint(numbers(table, "value")[selected] * 1e9).astype(np.int64))
        ends.append(ended[selected])
    return SessionColumns(np.concatenate(starts), np.concatenate(durations), np.concatenate(ends))
