"""Versions that a writer puts into a real database, and what readers get of them through a gateway and a cache."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import Lab
from tests.real.test_services import REST, needs, needs_engine_for_databases, place, record, run

__all__ = ["place"]

Versions = dict[str, list[tuple[int, int]]]


def noted(results: Path) -> Versions:
    """Object and version of each transaction that has them, by workload and operation, in the order of their starts."""
    here = results / "runs" / "0001"
    pair: dict[tuple[int, int], dict[str, float]] = {}
    for row in pq.read_table(here / "metrics.parquet").to_pylist():
        pair.setdefault((row["tester"], row["start"]), {})[row["metric"]] = row["value"]
    found: Versions = {}
    for one in sorted(pq.read_table(here / "transactions.parquet").to_pylist(), key=lambda one: one["start"]):
        metrics = pair.get((one["tester"], one["start"]), {})
        if "object" in metrics:
            told = (int(metrics["object"]), int(metrics["version"]))
            found.setdefault(f"{one['workload']}/{one['operation']}", []).append(told)
    return found


def read_is_written(read: list[tuple[int, int]], written: list[tuple[int, int]]) -> None:
    assert len(read) > 20 and len(written) > 20
    assert {(thing, version) for thing, version in read if version} <= set(written)
    assert any(version for _, version in read), "nothing that was written was ever read"


@pytest.mark.parametrize("database", ["postgres", pytest.param("mariadb", marks=pytest.mark.long)])
def test_what_is_read_was_written(lab: Lab, place: Path, database: str) -> None:
    needs(database, "squid")
    needs_engine_for_databases()
    table = "public.things" if database == "postgres" else "things"
    layout = f"table: {table}, tables: 2, rows: 10, distinct: 3"
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  db:    {{kind: {database}}}
  front: {{kind: frontier, database: db, ages: {{long: 1s}}}}
  cache: {{kind: squid, origin: front, cache: warm}}
data:
  things: {{into: db, rows: 30, row: 100B, tables: 2, versions: true}}
  lookup: {{into: db, rows: 20, row: 10B, versions: true}}
workloads:
  readers:
    driver: frontier
    target: cache
    timeout: 20s
    mix:
      - {{weight: 3, name: things, table: {{{layout}, versions: read}}}}
      - {{weight: 1, refresh: no-cache, table: {{table: lookup, rows: 10, distinct: 2, versions: read}}}}
    load: {{testers: 2, think: 5ms}}
  direct:
    driver: sql
    target: db
    timeout: 20s
    table: {{{layout}, versions: read, columns: ["*"]}}
    load: {{testers: 1, think: 5ms}}
  writer:
    driver: sql
    target: db
    timeout: 20s
    mix:
      - {{name: things, table: {{{layout}, versions: write, written: 2}}}}
      - {{table: {{table: lookup, rows: 10, distinct: 2, versions: write}}}}
    load: {{rate: 100/s, in_flight: 4}}
{REST.replace("1500ms", "3s")}""",
    )
    assert not found["runs"][0]["errors_by_kind"]
    got = noted(lab.results())
    assert set(got) == {
        *("readers/things", "readers/lookup", f"direct/{table}", "writer/things", "writer/lookup")
    }
    things, lookup = got["writer/things"], got["writer/lookup"]
    read_is_written(got["readers/things"], things)
    read_is_written(got[f"direct/{table}"], things)
    read_is_written(got["readers/lookup"], lookup)
    assert len({thing for thing, _ in things}) == 6 and len({thing for thing, _ in lookup}) == 2
    assert not {thing for thing, _ in things} & {thing for thing, _ in lookup}
    # A version is the time of its writing, and whoever asks the database itself never sees one go back.
    begun = record(lab)["t0_unix_ns"] // 1000
    assert all(begun <= version < begun + 60_000_000 for _, version in things + lookup)
    newest: dict[int, int] = {}
    for thing, version in got[f"direct/{table}"]:
        assert version >= newest.get(thing, 0)
        newest[thing] = version
