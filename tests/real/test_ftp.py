"""The driver `ftp` with a real GridFTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

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
    "missing",
)


def test_transfers_are_verified_and_counted_by_both_sides(lab: Lab, place: Path) -> None:
    """Downloads, parts and uploads in both modes, with checksums of the server."""
    for text in missing_programs({"gridftp"}):
        what, _, command = text.rpartition(": ")
        missing(what, command)
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
    - {{name: missing, first: 1, path: /none}}
  values: {{k: {{uniform: [0, 2]}}}}
load: {{testers: 2}}
run: {{duration: 120s, until: {{transactions: 40}}, drain: 2s}}
{REST}""",
    )
    rows = pq.read_table(lab.results() / "runs/0001/transactions.parquet").to_pylist()
    results = {(row["operation"], row["outcome"], row["code"]) for row in rows}
    errors = {row for row in results if row[0] == "missing"}
    assert results - errors == {(name, "ok", "") for name in NAMES if name != "missing"}
    assert {outcome for _, outcome, _ in errors} == {"error"}
    assert all(code in ("FTP 500", "FTP 550") for _, _, code in errors)
    read: dict[str, Any] = {"plain": SIZE, "blocks": SIZE, "part": 100_000, "part in blocks": 600_000}
    written = {"write": 1_000_000, "write in blocks": 2_000_000}
    for row in rows:
        assert row["payload"] == (read | written | {"missing": 0})[row["operation"]]
    counted = service(found, "store")["counters"]
    assert counted["bytes_sent"] == sum(read.get(row["operation"], 0) for row in rows)
    assert counted["bytes_received"] == sum(written.get(row["operation"], 0) for row in rows)
    (tier,) = found["runs"][0]["tiers"]
    # A transfer that cannot begin is not in the log of the server.
    assert counted["transfers"] == len(rows) - sum(row["operation"] == "missing" for row in rows)
    assert abs(tier["difference"]) <= len(rows) - counted["transfers"]
