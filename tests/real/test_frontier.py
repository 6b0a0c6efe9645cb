"""Frontier clients of every kind, from the experiment file to a real cache and back out of its log."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.plan.queries.request_log import read_request_log
from tests.conftest import Lab, missing
from tests.real.test_services import needs, place, run, stored

__all__ = ["place"]

FILE = """
plimsoll: 1
services:
  db:      {kind: sqlite}
  gateway: {kind: frontier, database: db}
  cache:   {kind: squid, origin: gateway}
data: {t_string: {into: db, rows: 1000, row: 100B, compressibility: 10%}}
workload:
  driver: frontier
  target: cache
  timeout: 10s
  WORK
LOAD
design: {seed: 1}
validity: {lateness_floor: 10s, tester_cpu: 100%, gaps: 100%, trend: false}     # the machine of the tests may be busy
"""


def file(work: str, load: str) -> str:
    return FILE.replace("WORK", work).replace("LOAD", load)


def rows(lab: Lab, name: str = "transactions") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        lab.results() / "runs" / "0001" / f"{name}.parquet"
    ).to_pylist()
    return found


def values(lab: Lab, metric: str) -> list[float]:
    return [row["value"] for row in rows(lab, "metrics") if row["metric"] == metric]


@pytest.mark.long
def test_what_must_miss_misses_and_chatter_is_seen_by_the_cache(lab: Lab, place: Path) -> None:
    needs("squid")
    work = "frontier: {queries: [SELECT string FROM t_string], uncached: 10%, chatter: 2}"
    run(lab, place, file(work, "load: {testers: 2}\nrun: {until: {each_tester: 200}}"))
    lines = stored(lab, "cache", "access.log").splitlines()
    assert len(lines) == 3 * 400
    assert values(lab, "chatter requests") == [2.0] * 400
    fresh = [line for line in lines if "&freshkey=" in line]
    assert len(fresh) == 40 == len(values(lab, "uncached"))
    assert all("TCP_MISS" in line for line in fresh)
    assert len(set(re.findall(r"&freshkey=(\S+)", "\n".join(fresh)))) == 40
    found = rows(lab)
    assert {row["outcome"] for row in found} == {"ok"}
    assert sum(row["cache"] == "hit" for row in found) == 360, "the cache was warm"
    assert {row["items"] for row in found} == {1000}


@pytest.mark.long
def test_a_log_is_asked_again_as_it_was(lab: Lab, place: Path) -> None:
    needs("squid")
    table = "table: {table: t_string, rows: 20, distinct: 50}"
    # Ended by a count: at the end of a time, the last arrival may be due and not started on a busy host.
    counted = "run: {until: {transactions: 150}, duration: 8s}"
    run(lab, place, file(table, f"load: {{rate: 100/s, arrivals: even}}\n{counted}"))
    path = lab.directory / "site.log"
    path.write_text(stored(lab, "cache", "access.log"))
    first = read_request_log(path)
    assert (sum(first.counts), first.bad, first.other) == (150, 0, 0)

    # The whole log at twice its speed, by whoever is free: the same queries, at half the times.
    replay = "frontier: {from_log: {file: site.log, as: replay, speed: 2.0}}"
    said = lab.run("plan", lab.file(file(replay, f"load: {{replay: log}}\n{counted}"))).out
    assert "log: site.log: 150 requests of" in said
    run(lab, place, file(replay, f"load: {{replay: log}}\n{counted}"))
    path.write_text(stored(lab, "cache", "access.log"))
    second = read_request_log(path)
    assert dict(zip(second.queries, second.counts, strict=True)) == dict(
        zip(first.queries, first.counts, strict=True)
    )
    assert first.at_ns is not None
    planned = sorted(row["start"] + row["scheduled"] for row in rows(lab))
    assert planned == [round(at / 2) for at in first.at_ns]

    # As a set: the same queries, drawn as often as they were asked.
    drawn = "frontier: {from_log: {file: site.log}}"
    run(lab, place, file(drawn, "load: {testers: 2}\nrun: {until: {each_tester: 100}}"))
    path.write_text(stored(lab, "cache", "access.log"))
    assert set(read_request_log(path).queries) <= set(first.queries)


@pytest.mark.long
def test_a_dead_proxy_costs_each_tester_one_try(lab: Lab, place: Path) -> None:
    needs("squid")
    text = file(
        "frontier: {queries: [SELECT string FROM t_string], failover: client, http: 1.0, read_timeout: 5s}",
        "load: {testers: 3}\nrun: {until: {each_tester: 20}}",
    ).replace("target: cache", "target: site")
    text = text.replace("cache:   {kind: squid, origin: gateway}", "cache: {kind: squid}")
    text += "targets: {site: {endpoints: [gateway], proxies: ['http://127.0.0.1:1', cache]}}\n"
    run(lab, place, text)
    found = rows(lab)
    assert {row["outcome"] for row in found} == {"ok"}
    assert sorted(row["attempt"] for row in found) == [0] * 57 + [1] * 3
    assert values(lab, "tries") == [2.0] * 3
    assert len(stored(lab, "cache", "access.log").splitlines()) == 60


def cool_database(path: Path) -> None:
    """The data set, written by the engine."""
    sizes = {"prefix": "P", "folders": 3, "channels": 20, "iovs": 30, "payload": 300, "versioning": "multi"}
    done = subprocess.run(
        [find_engine(), "data", "--config", "-"],
        input=json.dumps({"database": str(path), "tables": [{"kind": "cool", **sizes}]}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "kind" in done.stderr:
        missing("an engine that writes COOL databases", "build the engine of this release")
    assert done.returncode == 0, done.stderr


def test_a_cool_session_by_gateway_and_by_sql(lab: Lab) -> None:
    cool_database(lab.directory / "cool.sqlite")
    text = file(
        "cool: {prefix: P, folders: 3, channels: 20, iovs: 30, payload: 300B, versioning: multi, access: by-tag,"
        " mix: many-folders, repeat: 25%}",
        "load: {testers: 2}\nrun: {until: {each_tester: 115}}",
    )
    text = text.replace("{kind: sqlite}", "{kind: sqlite, file: cool.sqlite}").replace(
        "target: cache", "target: gateway"
    )
    text = re.sub(r"  cache:.*\n|data:.*\n", "", text)
    for driver, target in (("frontier", "gateway"), ("sql", "db")):
        sets = ("--set", f"workload.driver={driver}", "--set", f"workload.target={target}")
        done = lab.run("run", lab.file(text), *sets)
        assert done.code == 0, done.err
        found = rows(lab)
        assert {row["outcome"] for row in found} == {"ok"}
        for tester in (0, 1):
            asked = [row["operation"] for row in found if row["tester"] == tester]
            nodes, tags, channels = (asked.index(name) for name in ("nodes", "tags", "channels"))
            assert asked[:4] == ["dictionary-1", "dictionary-2", "dictionary-3", "attributes"]
            assert nodes < tags < channels == 12
            assert set(asked[15:]) == {"iov", "iov again"}
            assert abs(asked.count("iov again") - 25) < 5
        assert {row["items"] for row in found if row["operation"].startswith("iov")} == {1}
        items = {row["operation"]: row["items"] for row in found}
        assert (items["nodes"], items["tags"], items["channels"]) == (1, 1, 20)


@pytest.mark.long
def test_a_long_query_times_out_at_the_client_unless_the_gateway_sends_keepalives(
    lab: Lab,
    place: Path,
) -> None:
    needs("postgres")
    work = "frontier: {queries: ['SELECT 1, pg_sleep(6)'], read_timeout: 3s}"
    text = file(work, "load: {testers: 2}\nrun: {until: {each_tester: 1}}")
    text = text.replace("target: cache", "target: gateway").replace("kind: sqlite", "kind: postgres")
    text = text.replace("  cache:   {kind: squid, origin: gateway}\n", "")
    text += "factors: {keepalive: {path: services.gateway.keepalive, levels: [none, 200ms]}}\n"
    found = run(lab, place, text)
    seen = {}
    for each in found["runs"]:
        path = lab.results() / "runs" / each["id"] / "transactions.parquet"
        seen[each["cell"]["keepalive"]] = {
            (row["outcome"], row["code"]) for row in pq.read_table(path).to_pylist()
        }
    assert seen == {"none": {("timeout", "timeout first byte")}, "200ms": {("ok", "")}}
