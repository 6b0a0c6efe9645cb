"""Reports of the caches on the path for the responses of a run, with the response times, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.collect.columns.parquet import numbered, numbers, require_format
from plimsoll.collect.columns.transactions import Int
from plimsoll.errors import DamagedResults

NONE: Final = "none"
"""No cache reported anything."""
_COLUMNS: Final = ("scheduled", "start", "end", "outcome", "cache")


def read_caches(path: Path, start_ns: int, end_ns: int) -> Iterator[tuple[str, Int]]:
    """Yields pairs, row group by row group: what the caches reported, and the response times (ns) of the successful
    transactions that ended in [start_ns, end_ns). Nothing if no cache reported anything. Raises DamagedResults."""
    try:
        file = pq.ParquetFile(path, read_dictionary=["outcome", "cache"])
        require_format(file, "plimsoll.transactions", path)
        if not _has_reports(file):
            return
        for group in range(file.num_row_groups):
            yield from _response_times(file.read_row_group(group, columns=list(_COLUMNS)), start_ns, end_ns)
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    except KeyError as error:
        raise DamagedResults(f"{path} has no column {error}") from error


def _has_reports(file: Any) -> bool:
    """Whether any cache reported something. Reads only the column `cache`; most runs need no other column."""
    for group in range(file.num_row_groups):
        names, _ = numbered(file.read_row_group(group, columns=["cache"]), "cache")
        if set(names) - {NONE}:
            return True
    return False


def _response_times(table: Any, start_ns: int, end_ns: int) -> Iterator[tuple[str, Int]]:
    outcomes, outcome = numbered(table, "outcome")
    if "ok" not in outcomes:
        return
    caches, cache = numbered(table, "cache")
    start, length, planned = (numbers(table, name) for name in ("start", "end", "scheduled"))
    end = start + length
    done = (outcome == outcomes.index("ok")) & (length >= 0) & (end >= start_ns) & (end < end_ns)
    # `end` and `scheduled` are stored relative to `start`.
    response = np.maximum(length - planned, 0).astype(np.int64)
    for number, name in enumerate(caches):
        values = response[done & (cache == number)]
        if values.size:
            yield name, values
