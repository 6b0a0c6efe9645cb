"""What caches on the way said of the answers of a run, with their response times, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.collect.parquet import numbered, numbers, require_format
from plimsoll.collect.transactions import Int
from plimsoll.errors import DamagedResults

NONE: Final = "none"
"""No cache said anything."""
_COLUMNS: Final = ("scheduled", "start", "end", "outcome", "cache")


def read_caches(path: Path, start_ns: int, end_ns: int) -> Iterator[tuple[str, Int]]:
    """What caches said, and the response times (ns) of the successful transactions that ended in [start_ns, end_ns):
    pairs, row group by row group. Nothing where no cache said anything. Raises DamagedResults."""
    try:
        file = pq.ParquetFile(path, read_dictionary=["outcome", "cache"])
        require_format(file, "plimsoll.transactions", path)
        if not _spoken(file):
            return
        for group in range(file.num_row_groups):
            yield from _of(file.read_row_group(group, columns=list(_COLUMNS)), start_ns, end_ns)
    except (OSError, pa.ArrowException) as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    except KeyError as error:
        raise DamagedResults(f"{path} has no column {error}") from error


def _spoken(file: Any) -> bool:
    """Whether any cache said something: by that column alone, which most runs do not have to read further."""
    for group in range(file.num_row_groups):
        names, _ = numbered(file.read_row_group(group, columns=["cache"]), "cache")
        if set(names) - {NONE}:
            return True
    return False


def _of(table: Any, start_ns: int, end_ns: int) -> Iterator[tuple[str, Int]]:
    outcomes, outcome = numbered(table, "outcome")
    if "ok" not in outcomes:
        return
    caches, cache = numbered(table, "cache")
    start, length, planned = (numbers(table, name) for name in ("start", "end", "scheduled"))
    end = start + length
    done = (outcome == outcomes.index("ok")) & (length >= 0) & (end >= start_ns) & (end < end_ns)
    # `end` and `scheduled` are told relative to `start`.
    response = np.maximum(length - planned, 0).astype(np.int64)
    for number, name in enumerate(caches):
        values = response[done & (cache == number)]
        if values.size:
            yield name, values
