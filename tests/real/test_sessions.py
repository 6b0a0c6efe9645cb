"""Sessions of testers with a real database: directly, and through the gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.conftest import Lab

FILE = """
plimsoll: 1
name: jobs
services:
  db: {kind: sqlite}
  gateway: {kind: frontier, database: db}
data:
  t_string: {into: db, rows: 1000, row: 100B}
workloads:
  direct:
    driver: sql
    target: db
    sql: {queries: ["SELECT string FROM t_string WHERE id={k}"]}
    values: {k: {uniform: [1, 1000]}}
    session: {start: ["true"], compute: {uniform: [0s, 1ms]}, busy: true, queries: 3}
    load: {testers: 2}
  through:
    driver: frontier
    target: gateway
    frontier: {queries: ["SELECT string FROM t_string WHERE id={k}"]}
    values: {k: {uniform: [1, 1000]}}
    session: {compute: {uniform: [10ms, 30ms]}, queries: {uniform: [2, 4]}}
    load: {testers: 2}
  broken:
    driver: sql
    target: db
    sql: {queries: ["SELECT nothing FROM t_string"]}
    session: {compute: 10ms, queries: 1}
    load: {testers: 1}
run: {duration: 3s}
"""


def test_sessions_are_counted_with_their_failures_and_their_queries(lab: Lab) -> None:
    lab.run("run", lab.file(FILE))
    check(lab.results())


def check(results: Path) -> None:
    run = json.loads((results / "analysis.json").read_text(encoding="utf-8"))["runs"][0]
    sessions = run["tester_sessions"]
    assert sessions["succeeded"] > 0 and sessions["query_failed"] > 0 and sessions["work_failed"] == 0
    assert sessions["per_s"] > 0 and sessions["unfinished"] <= 5
    rows = pq.read_table(results / "runs/0001/transactions.parquet").to_pylist()
    failed = [row for row in rows if row["workload"] == "broken" and row["outcome"] == "error"]
    assert len(failed) >= sessions["query_failed"]
    for workload, allowed in (("direct", {3}), ("through", {2, 3, 4})):
        mine = [row for row in rows if row["workload"] == workload]
        counts: dict[tuple[int, int], int] = {}
        for row in mine:
            job = (row["tester"], row["session"])
            counts[job] = counts.get(job, 0) + 1
            assert (row["connected"] >= 0) == (counts[job] == 1), "a session has its own connection"
        last = {tester: max(session for own, session in counts if own == tester) for tester, _ in counts}
        finished = {count for (tester, session), count in counts.items() if session < last[tester]}
        assert finished <= allowed, "an unfinished session is the last one of its tester"
