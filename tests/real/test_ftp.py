"""The driver `ftp` with a real GridFTP server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.servers.needs import missing_programs
from tests.conftest import Lab, missing
from tests.real.test_services import place, run, service
from tests.real.test_storage import REST

__all__ = ["place"]  # the fixture

SIZE = 3_000_000
NAMES = (
    "plain",
    "blocks",
    "part",
    "part in blocks",
    "write",
    "write in blocks",
    "kept",
    "rest",
    "rest in blocks",
    "kept write",
    "part write",
    "striped write",
    "striped read",
    "missing",
)


def needs_gridftp() -> None:
    for text in missing_programs({"gridftp"}):
        what, _, command = text.rpartition(": ")
        missing(what, command)


def test_transfers_are_verified_and_counted_by_both_sides(lab: Lab, place: Path) -> None:
    """Downloads, uploads, parts and continued transfers in both modes, with checksums of the server."""
    needs_gridftp()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  store: {{kind: gridftp, files: {{count: 3, size: {SIZE}B, seed: 7}}}}
workload:
  driver: ftp
  target: store
  timeout: 20s
  ftp: {{path: "/f{{k}}"}}
  mix:
    - {{name: plain, first: 2, verify: md5, expect_bytes: {SIZE}B}}
    - {{name: blocks, first: 2, streams: 4, verify: adler32, expect_bytes: {SIZE}B}}
    - {{name: part, first: 2, part: {{offset: 1MB, length: 100kB}}, verify: md5}}
    - {{name: part in blocks, first: 2, part: {{offset: 1MB, length: 600kB}}, streams: 3, verify: adler32}}
    - {{name: write, first: 2, path: "/up-{{tester}}", transfer: upload, size: 1MB, verify: md5}}
    - {{name: write in blocks, first: 2, path: "/b-{{tester}}", transfer: upload, size: 2MB, streams: 4, verify: md5}}
    - {{name: kept, first: 3, streams: 3, data: kept, verify: adler32, expect_bytes: {SIZE}B}}
    - {{name: rest, first: 2, restart_at: 1MB, verify: md5, expect_bytes: {SIZE - 1_000_000}B}}
    - {{name: rest in blocks, first: 2, restart_at: 1MB, streams: 3, verify: adler32}}
    - {{name: kept write, first: 2, path: "/k-{{tester}}", transfer: upload, size: 1MB, data: kept, verify: md5}}
    - {{name: part write, first: 2, path: "/p-{{tester}}", transfer: upload, part: {{offset: 200kB, length: 500kB}},
       streams: 2, verify: adler32}}
    - {{name: striped write, first: 1, path: "/s-{{tester}}", transfer: upload, size: 1MB, stripes: 2, verify: adler32}}
    - {{name: striped read, first: 2, streams: 2, stripes: 3, data: kept, verify: adler32, expect_bytes: {SIZE}B}}
    - {{name: missing, first: 1, path: /none}}
  values: {{k: {{uniform: [0, 2]}}}}
load: {{testers: 2}}
run: {{duration: 120s, until: {{transactions: 64}}, drain: 2s}}
{REST}""",
    )
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    results = {(row["operation"], row["outcome"], row["code"]) for row in rows}
    errors = {row for row in results if row[0] == "missing"}
    assert results - errors == {(name, "ok", "") for name in NAMES if name != "missing"}
    assert {outcome for _, outcome, _ in errors} == {"error"}
    assert all(code in ("FTP 500", "FTP 550") for _, _, code in errors)
    read: dict[str, Any] = {
        **dict.fromkeys(("plain", "blocks", "kept", "striped read"), SIZE),
        **dict.fromkeys(("rest", "rest in blocks"), SIZE - 1_000_000),
        **{"part": 100_000, "part in blocks": 600_000},
    }
    written = {
        **dict.fromkeys(("write", "kept write", "striped write"), 1_000_000),
        **{"write in blocks": 2_000_000, "part write": 500_000},
    }
    for row in rows:
        assert row["payload"] == (read | written | {"missing": 0})[row["operation"]]
    counted = service(found, "store")["counters"]
    assert counted["bytes_sent"] == sum(read.get(row["operation"], 0) for row in rows)
    assert counted["bytes_received"] == sum(written.get(row["operation"], 0) for row in rows)
    (tier,) = found["runs"][0]["tiers"]
    # A transfer that cannot begin is not in the log of the server.
    assert counted["transfers"] == len(rows) - sum(row["operation"] == "missing" for row in rows)
    assert abs(tier["difference"]) <= len(rows) - counted["transfers"]


def test_small_files_are_pipelined_on_kept_connections(lab: Lab, place: Path) -> None:
    """The server opens its data connections once, and counts each file."""
    needs_gridftp()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  store: {{kind: gridftp, files: {{count: 5, size: 50kB, seed: 7}}}}
workload:
  driver: ftp
  target: store
  timeout: 20s
  ftp: {{path: "/f{{i}}", pipeline: 5, streams: 2, data: kept, verify: adler32, expect_bytes: 50kB}}
load: {{testers: 3}}
run: {{duration: 120s, until: {{each_tester: 10}}, drain: 2s}}
{REST}""",
    )
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    assert {(row["outcome"], row["items"], row["payload"]) for row in rows} == {("ok", 5, 250_000)}
    metrics = pq.read_table(lab.results() / "runs/0001/metrics.parquet").to_pylist()
    opened = [row["value"] for row in metrics if row["metric"] == "ftp_new_streams"]
    assert len(opened) == 30
    assert sum(value > 0 for value in opened) == 3, "only the first transaction of a tester opens connections"
    (tier,) = found["runs"][0]["tiers"]
    assert (tier["sent"], tier["counted"]) == (150, 150)


@pytest.mark.long
def test_a_ceiling_on_the_memory_of_the_server_ends_a_ramp(lab: Lab, place: Path) -> None:
    """The server has a process for each client. The run ends in order, and its reason states the number of testers."""
    needs_gridftp()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  store: {{kind: gridftp, files: {{count: 2, size: 100kB, seed: 7}}}}
workload: {{driver: ftp, target: store, ftp: {{path: /f0}}}}
load: {{ramp: {{testers: 60, every: 100ms}}, think: 20ms}}
ceiling: [{{metric: memory.store, test: "avg>60MB", for: 1s}}]
run: {{duration: 60s, drain: 2s}}
{REST}""",
    )
    record = json.loads((lab.results() / "runs/0001/run.json").read_text(encoding="utf-8"))
    assert record["status"] == "ceiling"
    text = re.fullmatch(
        r"memory\.store: avg>60MB held for 1 second: ([0-9.]+) MB is above 60\.0 MB, with ([0-9]+) active testers?",
        record["reason"],
    )
    assert text is not None, record["reason"]
    assert float(text[1]) > 60 and 1 < int(text[2]) < 60
    assert found["runs"][0]["counts"]["succeeded"] > 0, "the results of the run are kept"
