"""Counters of services: derived figures, and the tables of the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.golden.fixture import set_up, single

from plimsoll.analyse.components.counted import counted_services, derived
from plimsoll.analyse.results.document import as_document
from plimsoll.report.html import render
from plimsoll.report.labels import Labels
from plimsoll.report.tables.resources import counted

SQUID = {
    "client_http.requests": 1000,
    "client_http.hits": 990,
    "client_http.kbytes_out": 2000.0,
    "client_http.hit_kbytes_out": 1500,
    "server.all.requests": 10,
}


def test_a_caches_ratios() -> None:
    assert derived("squid", SQUID) == {"hit_ratio": 0.99, "byte_hit_ratio": 0.75, "origin_requests": 10}
    idle = {**SQUID, "client_http.requests": 0, "client_http.kbytes_out": 0}
    assert derived("squid", idle)["hit_ratio"] is None, "not zero: nobody asked"
    assert derived("squid", {**SQUID, "client_http.hits": 1001})["hit_ratio"] == 1.0


def test_a_databases_ratios() -> None:
    assert derived("postgres", {"blks_hit": 99, "blks_read": 1}) == {"buffer_hit_ratio": 0.99}
    pool = {"Innodb_buffer_pool_read_requests": 200, "Innodb_buffer_pool_reads": 50}
    assert derived("mariadb", pool) == {"buffer_hit_ratio": 0.75}
    assert derived("mariadb", {}) == {"buffer_hit_ratio": None}
    assert derived("nginx", {"requests": 5}) == {}


def record() -> list[dict[str, Any]]:
    return [
        {"name": "web", "kind": "echo"},
        {"name": "cache", "kind": "squid", "version": "5.7", "counters": SQUID, "gauges": {"objects": 54}},
        {
            "name": "db",
            "kind": "postgres",
            "counters": {"blks_hit": 1234567, "blks_read": 0, "temp_files": 0},
            "gauges": {},
            "statements": [{"statement": "SELECT <b>$1</b>", "calls": 4, "total_s": 0.5, "rows": 40}],
        },
    ]


def test_services_that_do_not_count_are_left_out() -> None:
    cache, db = counted_services(record())
    assert (cache.name, cache.version, db.version) == ("cache", "5.7", "")
    assert db.statements[0].mean_ms == pytest.approx(125.0)


def test_tables_and_json() -> None:
    analysis = single()
    run = replace(analysis.runs[0], services=counted_services(record()))
    analysis = replace(analysis, runs=(run,))
    table = counted.counted(run)
    rows = {row[:2]: row[2] for row in table.rows}
    assert rows["cache", "Hit ratio"] == "99.0\u00a0%"
    assert rows["cache", "Origin requests"] == "10"
    assert ("db", "temp_files") not in rows, "zeros are left out"
    assert rows["cache", "objects (at the end)"] == "54"
    both = counted.derived(Labels(analysis))
    assert both is not None
    assert [row[2:4] for row in both.rows] == [
        ("cache", "Hit ratio"),
        ("cache", "Byte hit ratio"),
        ("cache", "Origin requests"),
        ("db", "Buffer hit ratio"),
    ]
    page = render(analysis, set_up(False), bundle="")
    assert "Counters of the services in run" in page
    # The page makes the tables of a run from data, as text.
    assert r"SELECT \u003cb\u003e$1\u003c/b\u003e" in page and "<b>$1" not in page
    services = as_document(analysis)["runs"][0]["services"]
    assert services[0]["derived"]["hit_ratio"] == 0.99
    assert services[1]["statements"][0]["calls"] == 4
