"""Conditions databases and joined tables in real databases: each query returns the expected rows."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import Lab
from tests.real.test_services import needs, place, run

__all__ = ["place"]

FILE = """
plimsoll: 1
services:
  db:      {kind: KIND}
  gateway: {kind: frontier, database: db}
data: {conditions: {into: db, DATA}}
workload:
  driver: frontier
  target: gateway
  timeout: 30s
  WORK
factors:
  method: {gateway: {workload.target: gateway}, direct: {workload.driver: sql, workload.target: db}}
load: {testers: 1}
run: {until: {each_tester: COUNT}}
design: {seed: 1, order: listed}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""
SMALL = "folders: 3, channels: 25, iovs: 8, payload: 177B"
TYPES = "types: [int, int, int, int, int, double, double, double, double, double, float, text]"


def answers(
    lab: Lab, place: Path, kind: str, data: str, work: str, count: int
) -> list[dict[str, list[dict[str, Any]]]]:
    """The transactions by their operation: of the run through the gateway, and of the one without it."""
    text = FILE.replace("KIND", kind).replace("DATA", data).replace("WORK", work)
    run(lab, place, text.replace("COUNT", str(count)))
    runs = []
    for number in (1, 2):
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in pq.read_table(
            lab.results() / "runs" / f"{number:04d}" / "transactions.parquet"
        ).to_pylist():
            assert row["outcome"] == "ok", row
            found[row["operation"]].append(row)
        runs.append(found)
    return runs


@pytest.mark.parametrize(
    ("versioning", "access", "rows"),
    [
        pytest.param("multi", "access: whole-folder, tag: 2", 25 * 8, marks=pytest.mark.long),
        pytest.param("single", "access: whole-folder", 25 * 8, marks=pytest.mark.long),
        pytest.param("multi", "access: all-channels", 25, marks=pytest.mark.long),
    ],
)
def test_all_of_a_folder_is_read(lab: Lab, place: Path, versioning: str, access: str, rows: int) -> None:
    """Answers from both databases have the same bytes, except for the names of the types of their columns."""
    needs("postgres")
    data = f"kind: cool, {SMALL}, {TYPES}, versioning: {versioning}, tags: 2"
    work = f"cool: {{{SMALL}, columns: 12, versioning: {versioning}, mix: many-folders, session: false, {access}}}"
    sizes = []
    for kind in ("postgres", "sqlite"):
        gateway, direct = answers(lab, place, kind, data, work, 6)
        for found in (gateway, direct):
            assert [row["items"] for row in found["iov"]] == [rows] * 6
        sizes.append([row["payload"] for row in gateway["iov"]])
    assert len({one - other for one, other in zip(*sizes, strict=True)}) == 1
    assert min(sizes[0]) > rows * 177


def test_a_client_of_payloads_by_hash_finds_them_all(lab: Lab, place: Path) -> None:
    needs("postgres")
    data = (
        "kind: conddb, prefix: CMS, global_tags: 2, tags: 5, iovs: 250, payloads: 40, payload: 2kB, seed: 3"
    )
    work = "conddb: {prefix: CMS, global_tags: 2, tags: 5, iovs: 250, payloads: 40, seed: 3}"
    for kind in ("postgres", "sqlite"):
        for found in answers(lab, place, kind, data, work, 80):
            items = {operation: {row["items"] for row in rows} for operation, rows in found.items()}
            assert items["global tag"] == {1}
            assert items["global tag map"] == {5}
            assert items["tag"] == {1} and len(found["tag"]) == 5
            assert items["iov groups"] == {3} and len(found["iov groups"]) == 5
            assert items["iovs"] <= {100, 50}
            assert items["payload"] == {1}
            assert {re.sub(r"-\d+$", "", operation) for operation in found} == {
                *("dictionary", "global tag", "global tag map", "tag", "iov groups", "iovs", "payload"),
            }


@pytest.mark.long
def test_tables_are_joined_by_the_database(lab: Lab, place: Path) -> None:
    needs("postgres")
    data = "rows: 500, row: 20B, tables: 3, columns: 2, types: [text, double]"
    work = "table: {table: conditions, tables: 3, join: true, rows: 50, distinct: 10, columns: [string, double_2]}"
    for kind in ("postgres", "sqlite"):
        for found in answers(lab, place, kind, data, work, 5):
            assert [row["items"] for row in found["conditions"]] == [50] * 5
