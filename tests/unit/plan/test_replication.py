"""Replicas of databases in the experiment file: what they need, what they have from their source, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.plan.helpers import load, problems

from plimsoll.drive.run.facts import versions_of
from plimsoll.plan import changes, make_plan
from plimsoll.plan.design.changes import Changes
from plimsoll.plan.model.cell import Config
from plimsoll.plan.tiers import tiers_of
from plimsoll.plan.topology import Connection, topology

FILE = """\
plimsoll: 1
services:
  db:   {kind: postgres, database: events, settings: {shared_buffers: 256MB, max_connections: 200}}
  near: {kind: postgres, replica_of: db, synchronous: true, settings: {shared_buffers: 64MB}}
  far:  {kind: postgres, replica_of: near}
  own:  {kind: postgres, replica_of: db, replication: logical}
data: {t: {into: db, rows: 10, row: 100B}}
workload: {driver: sql, target: near, sql: {queries: [SELECT 1]}}
load: {testers: 1}
run: {duration: 9s}
"""
MARIADB = """\
plimsoll: 1
services:
  other: {kind: mariadb}
  db:    {kind: mariadb, database: events, settings: {innodb_buffer_pool_size: 64M}}
  near:  {kind: mariadb, replica_of: db}
data: {t: {into: db, rows: 10, row: 100B}}
workload: {driver: sql, target: near, sql: {queries: [SELECT 1]}}
load: {testers: 1}
run: {duration: 1s}
"""


def config(text: str, *sets: str) -> Config:
    return load(text, sets).cells[0].config


def settings(text: str, name: str, *sets: str) -> Any:
    return config(text, *sets).service(name).settings


def test_a_replica_needs_its_source_and_has_its_database_and_parameters() -> None:
    resolved = config(FILE)
    assert [service.needs for service in resolved.services] == [(), ("db",), ("near",), ("db",)]
    for name in ("near", "far", "own"):
        assert resolved.service(name).settings["database"] == "events"
    assert settings(FILE, "far")["settings"] == {"shared_buffers": "64MB", "max_connections": "200"}
    assert settings(FILE, "db")["replicas"] == ["logical", "streaming"]
    assert settings(FILE, "near")["replicas"] == ["streaming"]
    assert (settings(FILE, "near")["synchronous"], settings(FILE, "far")["synchronous"]) == (True, False)
    assert load(load(FILE).effective_yaml()).cells[0].config == resolved


def test_servers_of_mariadb_have_numbers_and_logs_only_if_they_replicate() -> None:
    assert [settings(MARIADB, name)["server_id"] for name in ("other", "db", "near")] == [1, 2, 3]
    assert not settings(MARIADB, "other")["binary_log"]
    assert settings(MARIADB, "db")["binary_log"] and settings(MARIADB, "near")["binary_log"]
    assert settings(MARIADB, "near")["database"] == "events"
    assert settings(MARIADB, "near")["settings"] == {"innodb_buffer_pool_size": "64M"}


def test_a_new_source_means_new_replicas_and_a_new_replica_keeps_its_source() -> None:
    before = config(FILE)
    assert changes(before, config(FILE, "data.t.rows=20"), True).start == ("db", "near", "far", "own")
    asynchronous = config(FILE, "services.near.synchronous=false")
    assert changes(before, asynchronous, True) == Changes(("far", "near"), ("near", "far"), ())


def test_a_replica_can_be_left_out_in_some_cells() -> None:
    text = FILE.replace("logical}", "logical, enabled: false}")
    text += "factors: {access: {one: {workload.target: db}, two: {workload.target: own, services.own.enabled: true}}}\n"
    one, two = (cell.config for cell in load(text).cells)
    assert [service.name for service in one.services] == ["db", "near", "far"]
    assert one.service("db").settings["replicas"] == ["streaming"]
    assert [service.name for service in two.services] == ["db", "near", "far", "own"]


def test_the_requests_of_testers_are_compared_with_what_a_replica_counts() -> None:
    tiers = {tier.service: tier for tier in tiers_of(config(FILE))}
    assert [requests.workload for requests in tiers["near"].testers] == ["main"]
    assert "db" not in tiers, "it has no client"
    assert Connection("near", "db") in topology(config(FILE)).connections


def test_reads_of_versions_from_a_replica_are_marked() -> None:
    table = "table: {table: t, rows: 5, distinct: 2, versions: read}"
    text = FILE.replace("row: 100B", "row: 100B, versions: true").replace("sql: {queries: [SELECT 1]}", table)
    assert list(versions_of(config(text))["versions"]["main"].values()) == ["read-replica"]
    source = config(text, "workload.target=db")
    assert list(versions_of(source)["versions"]["main"].values()) == ["read"]


def test_the_end_of_a_synchronous_replica_is_announced() -> None:
    kill = "actions: [{at: 2s, kill: {service: near}}]\n"
    (text,) = [line for line in make_plan(load(FILE + kill), seed=1).warnings if "replica" in line]
    assert text.startswith("actions: near is not restarted after 2s: every commit of db then waits")
    again = kill.replace("]", ", {at: 4s, restart: {service: near}}]")
    for calm in (again, kill.replace("near", "far")):
        assert not [line for line in make_plan(load(FILE + calm), seed=1).warnings if "replica" in line]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("replica_of: near", "replica_of: nea", "x.yaml:5: services.far.replica_of: there is no service nea"),
        ("near: {kind: postgres", "near: {kind: echo", "x.yaml:4: services.near"),
        ("replica_of: near}", "replica_of: far}", "services.far.replica_of: circle: far of far. Remove"),
        (
            "db:   {kind: postgres,",
            "db:   {kind: postgres, replica_of: far,",
            "x.yaml:3: services.db.replica_of: circle: db of far of near of db. Remove `replica_of` from the service "
            "that testers write to",
        ),
        (
            "replica_of: near}",
            "replica_of: own}",
            "move own above far: services start in the order of the file",
        ),
        ("replica_of: near}", "replica_of: [near, db]}", "expected the name of one service, got"),
        ("replica_of: near}", "replication: logical}", "is a key of replicas: give `replica_of` too"),
        (
            "replica_of: near}",
            "replica_of: near, synchronous: true}",
            "commits are made at db, which does not know",
        ),
        (
            "replica_of: near}",
            "replica_of: near, replication: logical}",
            "near is itself a streaming replica",
        ),
        (
            "replica_of: near}",
            "replica_of: near, database: x}",
            "a replica has the database of db: remove this key",
        ),
        (
            "replica_of: near}",
            "replica_of: near, version: 14}",
            "a replica has the version of db: remove this key",
        ),
        (
            "logical}",
            "logical, synchronous: true}",
            "services.own.synchronous: needs `replication: streaming`",
        ),
        (
            "into: db",
            "into: far",
            "data.t.into: far is a replica of near, and gets its tables: write them into near",
        ),
        (
            "shared_buffers: 256MB",
            "wal_level: replica",
            "a replica with `replication: logical` needs logical",
        ),
        (
            "shared_buffers: 256MB",
            "synchronous_standby_names: far",
            "Plimsoll sets this for replication: use `replica_of` of the replicas, and remove this parameter",
        ),
    ],
)
def test_a_replica_that_cannot_be_is_refused(old: str, new: str, expected: str) -> None:
    assert old in FILE
    found = problems(FILE.replace(old, new))
    assert any(expected in line for line in found), found


def test_a_replica_of_another_kind_is_refused() -> None:
    text = MARIADB.replace("other: {kind: mariadb}", "other: {kind: postgres}").replace("of: db", "of: other")
    (line,) = problems(text)
    assert line.endswith(
        "other is a service of kind postgres: a mariadb service can only replicate one of its kind"
    )
    (line,) = problems(MARIADB.replace("{innodb_buffer_pool_size: 64M}", "{server_id: 7}"))
    assert "services.db.settings.server_id: Plimsoll sets this for replication" in line


def test_a_gateway_cannot_detect_changes_in_a_replica() -> None:
    gateway = "  gate: {kind: frontier, database: near, invalidation: {caches: [cache]}}\n"
    text = FILE.replace("data:", f"{gateway}  cache: {{kind: squid, origin: gate}}\ndata:")
    (line,) = problems(text)
    assert (
        "changes cannot be detected in near, a replica: use db as the database, or `on: {every: 10s}`" in line
    )
    assert load(text.replace("[cache]}", "[cache], on: {every: 10s}}"))
