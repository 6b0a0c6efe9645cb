"""Writes runs.parquet and runs.csv: one row per run, for R, pandas and spreadsheets."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from plimsoll.errors import PlimsollError

FORMAT: Final = "plimsoll.runs/1"
PARQUET: Final = "runs.parquet"
CSV: Final = "runs.csv"

Type = Literal["text", "int", "float", "bool", "time"]
_TYPES: Final = {
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, slots=True)
class RunColumn:
    """A column: one value for each run, None for a run without value; `time` in microseconds since the Unix epoch.
    `kind`: plan (set by the experiment), covariate (may affect the response), response (measured). `unit`: empty for
    texts, counts and fractions."""

    name: str
    type: Type
    values: Sequence[Any]
    kind: Literal["plan", "covariate", "response"]
    unit: str = ""


def as_table(columns: Sequence[RunColumn]) -> Any:
    """A pyarrow table. The metadata of each field contain kind and unit; those of the table contain the format."""
    fields = [
        pa.field(column.name, _TYPES[column.type], metadata={"unit": column.unit, "kind": column.kind})
        for column in columns
    ]
    arrays = [pa.array(column.values, _TYPES[column.type]) for column in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata={"format": FORMAT}))


def write_run_table(columns: Sequence[RunColumn], directory: Path) -> list[Path]:
    """Writes both files to the directory, each one completely or not at all, and returns their paths. Raises
    PlimsollError if a file cannot be written."""
    table = as_table(columns)
    parquet, csv = directory / PARQUET, directory / CSV
    _write(parquet, lambda path: pq.write_table(table, path))
    _write(csv, lambda path: pacsv.write_csv(table, path))
    return [parquet, csv]


def _write(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise PlimsollError(f"{path} could not be written: {error.strerror or error}") from error
