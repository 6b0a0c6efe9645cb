"""The data set and the workload `conddb`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.plan.queries.conddb import INTERVAL, SNAPSHOT, conddb_queries, payload_hash
from plimsoll.plan.queries.sections import CondDbWork

FILE = """\
plimsoll: 1
services: {db: {kind: sqlite}, gateway: {kind: frontier, database: db}}
data: {conditions: DATA}
workload:
  driver: frontier
  target: gateway
  conddb: WORK
load: {testers: 1}
run: {duration: 1s}
"""
SIZES = {"tags": 3, "iovs": 250, "payloads": 100, "seed": 7}
DATA = "{into: db, kind: conddb, tags: 3, iovs: 250, payloads: 100, payload: 2kB, seed: 7}"
WORK = "{tags: 3, iovs: 250, payloads: 100, seed: 7}"


def test_the_hash_of_a_payload_is_that_of_the_engine() -> None:
    """The test of data/conddb.rs has the same hash."""
    assert payload_hash(1, 2, 7) == "6fd6ada1ec2fa0bb4437e22ce89193c69a138acc"


def test_a_conddb_set_has_the_settings_of_the_engine() -> None:
    (data,) = load(FILE.replace("DATA", DATA).replace("WORK", WORK)).cells[0].config.data
    assert data.kind == "conddb"
    assert dict(data.settings) == {
        "kind": "conddb",
        "prefix": "",
        "global_tags": 1,
        "tags": 3,
        "iovs": 250,
        "payloads": 100,
        "payload": 2000,
        "compressibility": 0.0,
        "seed": 7,
    }
    assert data.bytes > 3 * 100 * 2000


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    """A conditions database as the engine writes it, in small."""
    base = sqlite3.connect(":memory:")
    base.executescript(
        "CREATE TABLE P_GLOBAL_TAG (NAME, VALIDITY, DESCRIPTION, RELEASE, SNAPSHOT_TIME, INSERTION_TIME);"
        "CREATE TABLE P_GLOBAL_TAG_MAP (GLOBAL_TAG_NAME, RECORD, LABEL, TAG_NAME);"
        "CREATE TABLE P_TAG (NAME, TIME_TYPE, OBJECT_TYPE, SYNCHRONIZATION, END_OF_VALIDITY, DESCRIPTION,"
        " LAST_VALIDATED_TIME, INSERTION_TIME, MODIFICATION_TIME);"
        "CREATE TABLE P_IOV (TAG_NAME, SINCE, PAYLOAD_HASH, INSERTION_TIME);"
        "CREATE TABLE P_PAYLOAD (HASH, OBJECT_TYPE, DATA, STREAMER_INFO, VERSION, INSERTION_TIME);"
        f"INSERT INTO P_GLOBAL_TAG VALUES ('GT_0001', 1, '', '', '{SNAPSHOT}', '2015-01-01 00:00:00');"
    )
    time = "2015-01-01 00:00:00"
    for tag in range(1, 4):
        name = f"Tag{tag:04d}_v1"
        base.execute("INSERT INTO P_GLOBAL_TAG_MAP VALUES ('GT_0001', ?, '-', ?)", (f"Record{tag}", name))
        base.execute("INSERT INTO P_TAG VALUES (?, 'Run', 'O', 'any', 1, '', 0, ?, ?)", (name, time, time))
        for iov in range(250):
            row = (name, iov * INTERVAL, payload_hash(7, tag, iov % 100), time)
            base.execute("INSERT INTO P_IOV VALUES (?, ?, ?, ?)", row)
        for payload in range(100):
            content = (payload_hash(7, tag, payload), "O", f"{tag}/{payload}", "", "dummy", time)
            base.execute("INSERT INTO P_PAYLOAD VALUES (?, ?, ?, ?, ?, ?)", content)
    yield base
    base.close()


def test_a_session_finds_every_tag_group_and_payload(database: sqlite3.Connection) -> None:
    made = conddb_queries(CondDbWork.model_validate({**SIZES, "prefix": "P"}), "sqlite")
    first = [(query.name, query.first) for query in made.queries if query.first]
    assert first[3:] == [("global tag", 1), ("global tag map", 1), ("tag", 3), ("iov groups", 3)]
    assert {query.name: query.weight for query in made.queries if query.weight} == {
        "iovs": 0.5,
        "payload": 0.5,
    }
    rows: dict[str, list[int]] = {}
    for query in made.queries:
        places = re.findall(r"\{(\w+)\}", query.text)
        for take in range(300 if query.name == "payload" else 3):
            text = query.text
            for place in places:
                generator = made.values[place]
                drawn = min(take, generator.high) if generator.kind == "uniform" else None
                item = generator.items[take % len(generator.items)] if drawn is None else drawn
                text = text.replace(f"{{{place}}}", str(item))
            rows.setdefault(query.name, []).append(len(database.execute(text).fetchall()))
    assert rows["global tag"] == [1] * 3
    assert rows["global tag map"] == [3] * 3
    assert rows["tag"] == [1] * 3
    assert rows["iov groups"] == [3] * 3
    assert rows["iovs"] == [100, 100, 50], "groups of 1000 units have 100 IOVs; the last has the rest"
    assert rows["payload"] == [1] * 300


def test_the_share_of_payloads_may_be_all_or_nothing() -> None:
    def operations(**given: Any) -> list[str]:
        work = CondDbWork.model_validate({**SIZES, "session": False, **given})
        return [query.name for query in conddb_queries(work, "sqlite").queries]

    assert operations(by_hash="0%") == ["iovs"]
    assert operations(by_hash="100%") == ["payload"]
    assert operations(by_hash="0%", tags=10_000, iovs=1_000_000, payloads=None) == ["iovs"]


@pytest.mark.parametrize(
    ("data", "work", "message"),
    [
        (DATA, WORK.replace("tags: 3", "tags: 4"), "4 tags are requested, but data.conditions has only 3"),
        (DATA, WORK.replace("{", "{global_tags: 2, "), "2 global_tags are requested"),
        (DATA, WORK.replace("iovs: 250", "iovs: 251"), "251 iovs are requested"),
        (DATA, WORK.replace("100", "101"), "101 payloads of each tag are requested"),
        (DATA, WORK.replace("payloads: 100, ", ""), "250 payloads of each tag are requested"),
        (DATA, WORK.replace("seed: 7", "seed: 8"), "seed is 8, but data.conditions has 7"),
        (DATA, WORK.replace("100", "251"), "payloads (of each tag) must be at most iovs"),
        (DATA.replace("100", "251"), WORK, "payloads (of each tag) must be at most iovs"),
        (DATA, "{tags: 1000, iovs: 101}", "tags x payloads must be at most 100000"),
        (DATA.replace("tags: 3, ", ""), WORK, "tags: required key missing"),
    ],
)
def test_invalid_sections_are_rejected(data: str, work: str, message: str) -> None:
    assert message in problems(FILE.replace("DATA", data).replace("WORK", work))[0]
