"""Exports of a trace, read with pyarrow, which most readers of Parquet use."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.binary import find_engine

LOG = rb"""7 1700000000.000000 openat(AT_FDCWD, "/data/a, \"b\"\377", O_RDONLY) = 3 <0.000010>
7 1700000000.000100 read(3, ""..., 4096) = 100 <0.000020>
7 1700000000.000200 close(3) = 0 <0.000003>
7 1700000000.000300 openat(AT_FDCWD, "/data/no", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000004>
7 1700000000.000400 +++ exited with 0 +++
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    log, trace = tmp_path / "job.log", tmp_path / "job.trace"
    log.write_bytes(LOG)
    subprocess.run([find_engine(), "trace", "import", "-o", trace, log], check=True, capture_output=True)
    return trace


def export(trace: Path, to: str) -> Path:
    out = trace.with_suffix(f".{to}")
    command: list[str | Path] = [find_engine(), "trace", "export", trace, "--to", to, "-o", out]
    subprocess.run(command, check=True, capture_output=True)
    return out


def test_parquet_has_the_rows_of_csv_with_types(trace: Path) -> None:
    table = pq.read_table(export(trace, "parquet"))
    with export(trace, "csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[0] == "plimsoll.trace.csv/1"
    assert table.column_names == ["event", *header[1:]]
    found = [["" if value is None else str(value) for value in row.values()] for row in table.to_pylist()]
    assert found == rows
    assert "start_ns: int64" in str(table.schema)
    assert table["call"].to_pylist()[:4] == ["openat", "read", "close", "openat"]
    assert table["file_name"][1].as_py() == '/data/a, "b"\\xff'
    assert table["errno"].to_pylist()[:4] == [None, None, None, 2]


def test_parquet_has_the_header_of_the_trace(trace: Path) -> None:
    metadata = pq.read_metadata(export(trace, "parquet")).metadata
    assert metadata[b"plimsoll.format"] == b"plimsoll.trace.parquet/1"
    header = json.loads(metadata[b"plimsoll"])
    assert (header["format"], header["recorder"]) == ("plimsoll.trace/1", "strace")
