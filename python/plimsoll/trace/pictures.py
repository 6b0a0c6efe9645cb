"""Requests for the pictures, as the engine returns them (crate `trace`, profile/points).

One by one, or in bins where a file has many.
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
"""Requests that a page shows one by one, over all files; a browser draws as many without a visible delay."""
COLUMNS: Final = 400
ROWS: Final = 200
"""Bins of a picture with more."""

Point = tuple[int, int | None, int, int | None, int, int, int, int]
"""Start and duration (ns), offset, bytes requested, 1 of a write, thread, bytes transferred, file."""
Cell = tuple[int, int, int, int]
"""Column, row, requests that begin there, bytes."""


class Density(Part):
    """All requests of a file in bins of time (ns) and place (bytes)."""

    start_ns: int
    column_ns: int
    columns: int
    start_byte: int
    row_bytes: int
    rows: int
    reads: tuple[Cell, ...]
    writes: tuple[Cell, ...]


class Picture(Part):
    """Requests of a file: `points`, or `density`."""

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
