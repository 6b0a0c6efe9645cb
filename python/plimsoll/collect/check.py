"""`plimsoll check`: all files of a results directory exist, are readable and of a known version; the counts agree."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from plimsoll.collect.columns.parquet import require_format
from plimsoll.collect.hosts import START, read_agents
from plimsoll.collect.results import Results, RunFiles
from plimsoll.errors import DamagedResults

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, described by `what`. `run` is empty for a problem of the directory as a whole."""

    run: str
    what: str
    missing: bool = False
    """The run has no directory."""


def check(results: Results) -> Iterator[Finding]:
    """All problems, run by run. A run that was not started yet is not a problem."""
    for run in results.runs:
        try:
            yield from _check_run(run)
        except DamagedResults as error:
            yield Finding(run.id, str(error))
    existing = {run.id for run in results.runs} | {path.name for path in (results.path / "runs").glob("*")}
    ids = [run["id"] for run in results.due]
    last = max((at for at, name in enumerate(ids) if name in existing), default=-1)
    for name in ids[:last]:
        if name not in existing:
            yield Finding(name, "is missing, but a later run exists: its directory was removed", missing=True)
    for directory in sorted((results.path / "runs").glob("*")):
        if directory.is_dir() and not (directory / "run.json").exists():
            yield Finding(directory.name, "was started but did not end; `plimsoll run --resume` repeats it")


def _check_run(run: RunFiles) -> Iterator[Finding]:
    if run.record.get("status") in ("refused", "not-started"):
        return
    summary = run.summary
    if summary is None:
        yield Finding(
            run.id,
            "has no summary.json: the engine did not finish the run (`plimsoll run --resume` repeats it)",
        )
        return
    counters = summary["counters"]
    if counters["started"] != counters["succeeded"] + counters["failed"] + summary["in_flight"]:
        yield Finding(run.id, "the number started differs from succeeded + failed + in flight at the end")
    for damage in summary.get("damage", []):
        yield Finding(run.id, f"damaged while recording: {damage}")
    yield from _check_segments(run)
    read_agents(run)  # raises DamagedResults if the clock map or the probes cannot be read
    for service in (*run.record["services"], *run.record.get("watched", ())):
        if "counters" in service and len(run.counters(service["name"])) < 2:
            yield Finding(
                run.id, f"{service['name']} has counters, but its counters.jsonl has fewer than two readings"
            )
    rows = _rows(run)
    if rows is None:
        if summary.get("keep") != "summaries":
            yield Finding(run.id, "has no transactions.parquet")
    elif rows != counters["started"] - counters["lost_records"]:
        yield Finding(
            run.id,
            f"{rows} transactions are on disk, but the summary counts {counters['started']} started and "
            f"{counters['lost_records']} not recorded",
        )
    if run.samples is None:
        yield Finding(run.id, "has no samples.parquet")
    else:
        _open(run.samples, "plimsoll.samples")


def _rows(run: RunFiles) -> int | None:
    if run.transactions is None:
        return None
    file = _open(run.transactions, "plimsoll.transactions")
    try:
        # Reading one column of every row group finds a file that was cut or overwritten in the middle.
        for group in range(file.num_row_groups):
            file.read_row_group(group, columns=["start", "end"])
    except OSError as error:
        raise DamagedResults(f"{run.transactions}: {error}") from error
    return int(file.metadata.num_rows)


def _open(path: Path, name: str) -> Any:
    try:
        file = pq.ParquetFile(path)
    except Exception as error:
        raise DamagedResults(f"{path} cannot be read: {error}") from error
    require_format(file, name, path)
    return file


def _check_segments(run: RunFiles) -> Iterator[Finding]:
    for sidecar in sorted((run.path / "segments").glob("*.json")):
        if sidecar.name == START:
            continue
        try:
            recorded = json.loads(sidecar.read_text(encoding="utf-8"))
            segment = sidecar.with_suffix(".arrow")
            checksum = _crc32(segment)
        except (OSError, ValueError) as error:
            yield Finding(run.id, f"{sidecar.name}: {error}")
            continue
        if checksum != recorded.get("crc32"):
            yield Finding(
                run.id,
                f"{segment.name}: checksum {checksum:08x}, written with {recorded.get('crc32')!r}",
            )


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            value = zlib.crc32(block, value)
    return value
