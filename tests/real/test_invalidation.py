"""A gateway tells two levels of real Squids when objects are old, over real databases."""

from __future__ import annotations

import base64
import http.client
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.services import RunningServices
from plimsoll.plan.model.cell import Config
from tests.real.test_services import needs, place  # noqa: F401 - the fixture
from tests.unit.plan.helpers import load

TIMEOUT_S = 60.0
"""So long anything may take on a busy machine; in practice it is some milliseconds."""
FILE = """\
plimsoll: 1
services:
  db:     {{kind: {kind}}}
  gate:   {{kind: frontier, database: db, {more}invalidation: {{caches: [lower, upper], {told}}}}}
  upper:  {{kind: squid, origin: gate}}
  lower:  {{kind: squid, parents: [upper]}}
data:
  one: {{into: db, rows: 3, row: 20B, types: [text], versions: true}}
  two: {{into: db, rows: 3, row: 20B, types: [text]}}
workload: {{driver: frontier, target: lower, frontier: {{queries: [SELECT 1]}}}}
load: {{testers: 1}}
run: {{duration: 1s}}
"""


class Site:
    """The services of a file, and what can be done with them."""

    def __init__(self, directory: Path, kind: str, told: str = "on: change", more: str = "") -> None:
        self.config: Config = load(FILE.format(kind=kind, told=told, more=more)).cells[0].config
        self.fleet = RunningServices(find_engine(), directory, lambda: None)
        self.fleet.ensure(self.config, {}, same_cell=False)

    def url(self, name: str) -> str:
        return self.fleet.addresses()[name][0]

    def ask(self, table: str, at: str = "lower", row: int = 1) -> tuple[str, bool]:
        """The text of a row, and whether a cache had it."""
        sql = f"SELECT string FROM {table} WHERE id = {row}"
        p1 = base64.b64encode(zlib.compress(sql.encode())).decode().translate(str.maketrans("+/=", ".-_"))
        with closing(http.client.HTTPConnection(urlsplit(self.url(at)).netloc, timeout=10)) as connection:
            connection.request(
                "GET",
                f"/Lab/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOB&p1={p1}",
                headers={"X-Frontier-Id": "test"},
            )
            answer = connection.getresponse()
            body = answer.read().decode()
        assert answer.status == 200
        assert 'error="0"' in body, body
        found = re.search(r"<data>(.*?)</data>", body, re.DOTALL)
        assert found
        text = base64.b64decode(found[1]).decode("latin-1")
        return text, "HIT" in (answer.getheader("X-Cache") or "")

    def stats(self) -> dict[str, Any]:
        (gate,) = [one for one in self.fleet.running if one.spec.name == "gate"]
        assert gate.counters is not None
        source = gate.counters()
        source.open()
        reading = source.read()
        source.close()
        return {**reading.counters, **reading.gauges}

    def change(self, table: str, text: str, row: int = 1) -> None:
        """As anybody would, past the gateway."""
        url = urlsplit(self.url("db"))
        assert url.port is not None
        sql = f"UPDATE {table} SET string = '{text}' WHERE id = {row}"
        if url.scheme == "postgresql":
            import psycopg

            with psycopg.connect(self.url("db"), autocommit=True) as connection:
                connection.execute(sql)
        else:
            import pymysql

            with pymysql.connect(
                host="127.0.0.1", port=url.port, user="plimsoll", database="plimsoll", autocommit=True
            ) as other:
                other.cursor().execute(sql)


def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for: {what}"
        time.sleep(0.02)


@pytest.fixture
def site(place: Path, request: pytest.FixtureRequest) -> Iterator[Site]:  # noqa: F811
    kind, *more = request.param
    needs("squid", *([kind] if kind != "sqlite" else []))
    (place / "work").mkdir(mode=0o755)
    made = Site(place / "work", kind, *more)
    try:
        yield made
    finally:
        made.fleet.stop()


@pytest.mark.parametrize("site", [("postgres",), ("mariadb",)], indirect=True, ids=str)
def test_a_change_reaches_the_lower_cache_and_leaves_other_objects_there(site: Site) -> None:
    for table in ("one", "two"):
        site.ask(table)
        assert site.ask(table)[1]
        assert site.ask(table, "upper")[1]
    for text in ("first change", "second change"):
        site.change("one", text)
        until(text, lambda text=text: text in site.ask("one")[0])  # type: ignore[misc]
        until("being kept again", lambda: site.ask("one")[1])
        assert text in site.ask("one")[0]
        assert text in site.ask("one", "upper")[0]
    assert site.ask("two") == (site.ask("two", "gate")[0], True)
    stats = site.stats()
    assert stats["changes"] >= 2
    assert stats["purged"] >= 4, "two caches had the object, twice"
    assert stats["unkept"] == stats["purge_failures"] == stats["owed"] == 0
    assert stats["watching"] == 1


@pytest.mark.long
@pytest.mark.parametrize("site", [("postgres",)], indirect=True, ids=str)
def test_a_cache_that_is_started_anew_is_told_where_it_was(site: Site) -> None:
    """Ports are those of the fleet: the gateway runs on."""
    before = site.url("lower")
    (lower,) = [one for one in site.fleet.running if one.spec.name == "lower"]
    assert lower.process is not None
    lower.process.stop()
    assert site.fleet.ensure(site.config, {}, same_cell=True) == ["lower"]
    assert site.url("lower") == before
    site.ask("one")
    assert site.ask("one")[1]
    site.change("one", "another text")
    until("the change", lambda: "another text" in site.ask("one")[0])


@pytest.mark.parametrize(
    "site", [("postgres", "scope: row, detection: logical-decoding")], indirect=True, ids=str
)
def test_a_decoded_change_of_a_row_leaves_the_objects_of_other_rows(site: Site) -> None:
    until("the replication slot", lambda: site.ask("one")[1])
    for row in (1, 2):
        until(f"row {row} in both caches", lambda row=row: site.ask("one", row=row)[1])  # type: ignore[misc]
    loaded = site.stats()["changes"]
    for text in ("first change", "second change"):
        site.change("one", text, row=2)
        until(text, lambda text=text: text in site.ask("one", row=2)[0])  # type: ignore[misc]
        until("being kept again", lambda: site.ask("one", row=2)[1])
    assert site.ask("one")[1], "the other row has not changed"
    site.change("one", "third change")
    until("the other row", lambda: "third change" in site.ask("one")[0])
    stats = site.stats()
    # Each change of `one` also updates a row of plimsoll_changes, by a trigger of the data set.
    assert (stats["watching"], stats["purge_failures"], stats["changes"] - loaded) == (1, 0, 2 * 3)


@pytest.mark.parametrize("site", [("sqlite", "on: {every: 300ms}")], indirect=True, ids=str)
def test_everything_every_so_often(site: Site) -> None:
    site.ask("one")
    until("an object in both caches", lambda: site.ask("one")[1])
    purged = site.stats()["purged"]
    until("its end", lambda: site.stats()["purged"] >= purged + 2)
    until("a new one", lambda: not site.ask("one")[1])
