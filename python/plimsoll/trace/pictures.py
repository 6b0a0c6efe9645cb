"""Requests for the pictures, as the engine returns them (crate `trace`, profile/points).

They are listed one by one; if a file has many, they are counted in bins.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic import ValidationError

from plimsoll.errors import EngineError
from plimsoll.trace.profile import Part, require_format

NAME: Final = "plimsoll.pictures"
MAJOR: Final = 1
MAX_POINTS: Final = 100_000
"""Maximum number of requests that a page shows one by one, over all files. A browser draws this number without a
visible delay."""
COLUMNS: Final = 400
ROWS: Final = 200
"""Number of bins of a picture with more requests, in time (COLUMNS) and offset (ROWS)."""

Point = tuple[int, int | None, int, int | None, int, int, int, int]
"""Start and duration (ns), offset, requested bytes, 1 for a write, thread, transferred bytes, file."""
Cell = tuple[int, int, int, int]
"""Column, row, requests that begin there, bytes."""


class Density(Part):
    """All requests of a file in bins of time (ns) and offset (bytes)."""

    start_ns: int
    column_ns: int
    columns: int
    start_byte: int
    row_bytes: int
    rows: int
    reads: tuple[Cell, ...]
    writes: tuple[Cell, ...]


class Picture(Part):
    """Requests of a file: `points`, or if there are too many, `density`."""

    path: str
    requests: int
    points: tuple[Point, ...]
    density: Density | None


class Pictures(Part):
    """Requests of all selected files. `unknown_offsets`: requests whose offset is unknown."""

    requests: int
    unknown_offsets: int
    files: tuple[Picture, ...]


def read(text: str | bytes) -> Pictures:
    """Parses the pictures that the engine printed. Raises EngineError if they are malformed."""
    try:
        document = json.loads(text)
        require_format(document, NAME, MAJOR)
        return Pictures.model_validate(document)
    except (ValueError, ValidationError) as error:
        raise EngineError(f"the engine's pictures have an unexpected form: {error}") from error
