"""Tables with versions: queries of writers and readers, numbers of objects, and settings that do not fit."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.helpers import edited, load, problems

from plimsoll.plan import engine_document, make_plan
from plimsoll.plan.design.filling import fillings

FILE = """\
plimsoll: 1
services:
  db:    {kind: postgres}
  front: {kind: frontier, database: db}
  cache: {kind: squid, origin: front, cache: warm}
data: {t: {into: db, rows: 120, row: 10B, tables: 2, versions: true}}
workloads:
  readers:
    driver: frontier
    target: cache
    frontier: {ttl: forever}
    table: {table: public.t, tables: 2, rows: 10, distinct: 12, versions: read}
    load: {testers: 2}
  writer:
    driver: sql
    target: db
    table: {table: public.t, tables: 2, rows: 10, distinct: 12, versions: write, written: 3}
    load: {rate: 5/s}
run: {duration: 1s}
"""
ADDRESSES = {
    "cache": ["http://127.0.0.1:80"],
    "front": ["http://127.0.0.1:81"],
    "db": ["postgresql://u@h:1/d"],
}


def document(text: str) -> dict[str, Any]:
    """The workloads as the engine reads them, by name."""
    plan = make_plan(load(text), 1)
    workloads = engine_document(plan.runs[0], ADDRESSES, Path("/d"), "x")["workloads"]
    return {workload["name"]: workload for workload in workloads}


def request(workload: dict[str, Any], at: int = 0) -> dict[str, Any]:
    request_of_operation: dict[str, Any] = workload["operations"][at]["request"]
    return request_of_operation


def objects(workload: dict[str, Any], at: int = 0) -> list[str]:
    """The numbers of the object of an operation, for every combination of its values."""
    text = request(workload, at)["version"]["object"]
    names = sorted(set(re.findall(r"\{(\w+)\}", text)))
    draws = itertools.product(*(workload["values"][name]["items"] for name in names))
    return [text.format(**dict(zip(names, values, strict=True))) for values in draws]


def test_writers_and_readers_use_the_same_objects() -> None:
    workloads = document(FILE)
    readers, writer = workloads["readers"], workloads["writer"]
    assert request(readers) == {
        "queries": [
            "SELECT version, string FROM public.t_{_table} WHERE id>{_part}*10 AND id<={_part}*10+10",
        ],
        "zip": 5,
        "ttl": "forever",
        "refresh": "none",
        "freshkey": None,
        "version": {"object": "{_table}{_part}", "column": "version", "written": None},
    }
    assert request(writer) == {
        "query": "UPDATE public.t_{_table} SET version={now_us} "
        "WHERE id>{_part}*10 AND id<={_part}*10+3 AND version<{now_us}",
        "version": {"object": "{_table}{_part}", "column": None, "written": "{now_us}"},
    }
    assert readers["values"] == writer["values"]
    assert readers["values"]["_part"] == {
        "kind": "list",
        "items": [f"{part:02d}" for part in range(12)],
        "order": "random",
    }
    assert readers["values"]["_table"] == {"kind": "list", "items": ["1", "2"], "order": "random"}
    numbers = objects(readers)
    assert len(set(map(int, numbers))) == 24, "as numbers, too"


def test_a_table_of_public_is_the_same_with_and_without_its_schema() -> None:
    before, name, rest = FILE.rpartition("public.")
    assert name
    text = before + rest
    workloads = document(text)
    assert objects(workloads["readers"]) == objects(workloads["writer"])


def test_a_single_object_has_the_number_0() -> None:
    workloads = document(FILE.replace("tables: 2", "tables: 1").replace("distinct: 12", "distinct: 1"))
    readers, writer = request(workloads["readers"]), request(workloads["writer"])
    assert readers["version"]["object"] == writer["version"]["object"] == "0"
    assert readers["queries"] == ["SELECT version, string FROM public.t WHERE id>0*10 AND id<=0*10+10"]


@pytest.mark.parametrize(
    ("columns", "selected"),
    [("['*']", "*"), ("[id, version]", "id, version"), ("[id]", "version, id")],
)
def test_the_version_is_selected_once(columns: str, selected: str) -> None:
    text = FILE.replace("distinct: 12, versions: read", f"distinct: 12, versions: read, columns: {columns}")
    assert request(document(text)["readers"])["queries"][0].startswith(f"SELECT {selected} FROM public.t_")


MIXED = edited(
    "    table: {table: public.t, tables: 2, rows: 10, distinct: 12, versions: read}\n",
    """\
    mix:
      - {weight: 2, refresh: max-age=0, table: {table: lookup, rows: 5, distinct: 4, versions: read}}
      - {weight: 8, ttl: short, name: data, table: {table: public.t, tables: 2, rows: 10, distinct: 12, versions: read}}
      - {weight: 1, name: more, table: {table: public.t, tables: 2, rows: 10, distinct: 12, versions: read}}
      - {weight: 1, queries: [SELECT 1]}
""",
    FILE,
).replace("data: {t:", "data: {lookup: {into: db, rows: 20, row: 5B, versions: true}, t:")


def test_entries_of_a_mix_have_tables_of_their_own() -> None:
    workloads = document(MIXED)
    readers = workloads["readers"]
    assert [(operation["name"], operation["weight"]) for operation in readers["operations"]] == [
        ("lookup", 2.0),
        ("data", 8.0),
        ("more", 1.0),
        ("query", 1.0),
    ]
    keys = [(request(readers, at)["refresh"], request(readers, at)["ttl"]) for at in range(3)]
    assert keys == [("max-age=0", "forever"), ("none", "short"), ("none", "forever")]
    assert set(readers["values"]) == {"_part_1", "_table_2", "_part_2", "_table_3", "_part_3"}
    assert request(readers, 3)["version"] is None
    lookup, data = objects(readers, 0), objects(readers, 1)
    assert sorted(data) == sorted(objects(readers, 2)) == sorted(objects(workloads["writer"]))
    assert len({int(number) for number in (*lookup, *data)}) == 4 + 24
    assert max(map(int, data)) < 2**53


def test_entries_of_a_mix_can_be_tables_without_versions() -> None:
    text = MIXED.replace(", versions: read", "").replace("distinct: 4", "distinct: 1")
    readers = document(text)["readers"]
    assert request(readers)["queries"] == ["SELECT string FROM lookup LIMIT 5"]
    assert request(readers)["version"] is None
    assert readers["values"]["_part_2"] == {"kind": "uniform", "from": 0, "to": 11}


def test_the_effective_file_has_the_same_configuration() -> None:
    experiment = load(MIXED)
    again = load(experiment.effective_yaml())
    assert again.cells[0].config == experiment.cells[0].config


def test_a_warm_cache_is_filled_with_every_object_once() -> None:
    (filling,) = fillings(load(FILE).cells[0].config)
    (work,) = filling.workloads
    table, part = work.values["_table"], work.values["_part"]
    objects_in_turn = list(zip(table.items, part.items, strict=True))
    assert len(objects_in_turn) == len(set(objects_in_turn)) == filling.run.each_tester == 24
    assert table.order == part.order == "round-robin"
    fresh = fillings(
        load(
            FILE.replace(
                "ttl: forever}", "ttl: forever, freshkey: '{k}'}\n    values: {k: {uniform: [1, 3]}}"
            )
        )
        .cells[0]
        .config
    )
    assert fresh[0].run.each_tester == 24 * 3


def test_data_of_several_tables_has_their_settings() -> None:
    (data,) = load(FILE).cells[0].config.data
    assert (data.settings["tables"], data.settings["versions"]) == (2, True)
    assert data.bytes == 2 * 120 * 10


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "driver: sql\n    target: db",
            "driver: frontier\n    target: front",
            "the driver frontier only reads: put the writer",
        ),
        ("kind: postgres", "kind: sqlite", "SQLite is opened read-only"),
        ("written: 3", "written: 11", "written must be at most rows"),
        ("versions: read", "versions: read, written: 1", "needs `versions: write`"),
        ("versions: read", "versions: none, written: 1", "needs `versions: write`"),
        ("versions: read", "versions: reed", "versions"),
        ("ttl: forever", "batch: 2", "give batch: 1"),
        (", versions: true", "", "data.t has no versions: add `versions: true` to it"),
        (
            "distinct: 12, versions: write",
            "distinct: 6, versions: write",
            "the same rows, tables and distinct",
        ),
        ("rows: 120", "rows: 119", "12 x 10 rows are requested, but data.t has only 119"),
        ("row: 10B, tables: 2", "row: 10B, tables: 3", ""),
        (
            "tables: 2, rows: 10, distinct: 12, versions: read",
            "tables: 3, rows: 10, versions: read",
            "data.t has 2",
        ),
        ("tables: 2, rows: 10, distinct: 12, versions: read", "rows: 10, versions: read", "data.t has 2"),
        (
            "distinct: 12, versions: read",
            "distinct: 100001, versions: read",
            "distinct must be at most 100000",
        ),
        (
            "    load: {rate: 5/s}",
            "    values: {now_us: {list: [a]}}\n    load: {rate: 5/s}",
            "none of tester, n, endpoint, now_us",
        ),
    ],
)
def test_settings_that_do_not_fit_are_rejected(old: str, new: str, message: str) -> None:
    text = edited(old, new, FILE)
    if message:
        assert any(message in line for line in problems(text))
    else:
        load(text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("driver: frontier", "driver: http", "table makes queries for frontier and sql, not for http"),
        (
            "{weight: 1, name: more, table:",
            "{weight: 1, queries: [A], table:",
            "give table or queries, not both",
        ),
        ("{weight: 8, ttl: short", "{weight: 8, batch: 2", "give batch: 1"),
        ("distinct: 4, versions: read", "distinct: 4, versions: write", "frontier only reads"),
        (
            "{weight: 1, name: more, table: {table: public.t,",
            "{weight: 1, name: more, table: {tabel: public.t,",
            "tabel",
        ),
    ],
)
def test_entries_of_a_mix_that_do_not_fit_are_rejected(old: str, new: str, message: str) -> None:
    assert any(message in line for line in problems(edited(old, new, MIXED)))


@pytest.mark.parametrize(
    ("path", "axis"),
    [
        ("workloads.writer.load.rate: [1/s, 2/s]", None),
        ("workloads.readers.load.testers: [1, 2]", "workloads.readers.load.testers"),
    ],
)
def test_the_load_of_writers_is_not_the_load_factor(path: str, axis: str | None) -> None:
    assert load(f"{FILE}factors: {{{path}}}\n").load_factor == axis
