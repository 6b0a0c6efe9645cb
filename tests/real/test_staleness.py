"""Stale answers of a real cache before a real database: none without the cache, and no older than it may keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Lab
from tests.real.test_services import REST, needs, needs_engine_for_databases, place, run

__all__ = ["place"]

TABLE = "table: public.things, rows: 10, distinct: 4"


@pytest.mark.long
def test_a_cache_gives_stale_answers_and_the_database_none(lab: Lab, place: Path) -> None:
    needs("postgres", "squid")
    needs_engine_for_databases()
    found = run(
        lab,
        place,
        f"""
plimsoll: 1
services:
  db:    {{kind: postgres}}
  front: {{kind: frontier, database: db, ages: {{long: 1h}}}}
  cache: {{kind: squid, origin: front, cache: warm}}
data:
  things: {{into: db, rows: 40, row: 100B, versions: true}}
workloads:
  readers:
    driver: frontier
    target: cache
    timeout: 20s
    table: {{{TABLE}, versions: read}}
    load: {{testers: 2, think: 5ms}}
  writer:
    driver: sql
    target: db
    timeout: 20s
    table: {{{TABLE}, versions: write}}
    load: {{rate: 100/s, in_flight: 2}}
factors:
  cache:
    none: {{workloads.readers.target: front}}
    keeps: {{services.front.ages.long: 1h}}
thresholds:
  - {{metric: stale_share, test: "rate<=0", where: {{cache: none}}}}
{REST.replace("1500ms", "3s")}""",
    )
    fresh, kept = (run["staleness"] for run in found["runs"])
    for got in (fresh, kept):
        readers = got["readers"]
        assert readers["answers"] > 20 and not readers["unjudged"]
        assert got["writes"] > 20 and not got["writes_unjudged"]
        assert got["objects"] == 4
        assert readers["answers"] == readers["hits"] + readers["revalidations"] + readers["fetches"]
    # Whoever asks after an acknowledgement gets what was acknowledged, or something newer.
    assert fresh["readers"]["stale"] == 0
    assert fresh["readers"]["fetches"] == fresh["readers"]["answers"]
    # What was filled in before the run stays for all of it: stale from the first write of an object on.
    assert kept["readers"]["fetches"] == 0
    assert kept["readers"]["stale"] > 0
    assert 0 < kept["readers"]["stale_age_ms"]["max"] < 3000
    assert [each["passed"] for each in found["verdicts"]] == [True]
    assert found["answer"][0] == "Only cache none has no stale answers."
    assert all(not run["metrics"] for run in found["runs"])
