"""Results in forms that other tools read."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from plimsoll.collect.hdr import decode
from plimsoll.collect.results import Results
from plimsoll.errors import DamagedResults, PlimsollError

COMPRESSED = struct.Struct(">ii")
COMPRESSED_COOKIE = 0x1C849314
"""V2 with deflate: the only form that readers of logs accept."""
LOG_VERSION = "1.3"
"""Version of the HdrHistogram log format: https://github.com/HdrHistogram/HdrHistogram (HistogramLogWriter)."""


def export_csv(results: Results, out: Path) -> list[Path]:
    """Writes one CSV per run with every column of its transactions, and one of its metrics if a driver reported any.

    Times are in ns: `start` from the run's zero, the other stamps from `start`; -1 means that the event did not happen.
    Returns the paths of the files. Raises DamagedResults, or PlimsollError if a file cannot be written.
    """
    written = []
    for run in results.runs:
        for name in ("transactions", "metrics"):
            source = run.path / f"{name}.parquet"
            if source.exists():
                target = _target(out, f"{run.id}-{name}.csv")
                _copy(source, target)
                written.append(target)
    return written


def _copy(source: Path, target: Path) -> None:
    try:
        file = pq.ParquetFile(source)
        with pacsv.CSVWriter(target, _plain_schema(file.schema_arrow)) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group).cast(_plain_schema(file.schema_arrow)))
    except pa.ArrowException as error:
        raise DamagedResults(f"{source} cannot be read: {error}") from error
    except OSError as error:
        raise PlimsollError(f"{target} could not be written: {error}") from error


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionary types, which CSV does not have."""
    return pa.schema(
        [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def export_hlog(results: Results, out: Path) -> list[Path]:
    """Writes one HdrHistogram log per run: response times (ns) of successful transactions, one interval per second.
    Returns the paths of the files. Raises DamagedResults, or PlimsollError if a file cannot be written."""
    written = []
    for run in results.runs:
        lines = [line for line in run.live if line.get("response")]
        if not lines:
            continue
        t0 = (run.record.get("t0_unix_ns") or 0) / 1e9
        text = [
            f"#[Logged with Plimsoll; response times in ns of run {run.id}]",
            f"#[Histogram log format version {LOG_VERSION}]",
            f"#[StartTime: {t0:.3f} (seconds since epoch)]",
            '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
        ]
        for line in lines:
            values = decode(line["response"]).values
            largest = float(values[-1]) / 1e6 if values.size else 0.0
            text.append(f"{float(line['second']):.3f},1.000,{largest:.3f},{compressed(line['response'])}")
        target = _target(out, f"{run.id}.hlog")
        try:
            target.write_text("\n".join(text) + "\n", encoding="utf-8")
        except OSError as error:
            raise PlimsollError(f"{target} could not be written: {error}") from error
        written.append(target)
    return written


def compressed(text: str) -> str:
    """A histogram of live.jsonl (V2, base64) as logs contain it: deflated, after a header of its own."""
    try:
        packed = zlib.compress(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise DamagedResults(f"live.jsonl: not a histogram in V2 encoding: {error}") from error
    return base64.b64encode(COMPRESSED.pack(COMPRESSED_COOKIE, len(packed)) + packed).decode("ascii")


def _target(out: Path, name: str) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlimsollError(f"{out} cannot be created: {error.strerror}") from error
    return out / name
