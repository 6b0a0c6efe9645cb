"""A gateway that is started anew before a real Squid, over a real database: what it never saw is not handed out."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.services import Fleet
from tests.real.guarded_databases import free_port
from tests.real.test_invalidation import until
from tests.real.test_services import needs, place  # noqa: F401 - the fixture
from tests.unit.plan.helpers import load

FILE = """\
plimsoll: 1
services: {db: {kind: postgres}, cache: {kind: squid}}
data: {one: {into: db, rows: 3, row: 20B, types: [text]}}
workload: {driver: sql, target: db, sql: {queries: [SELECT 1]}}
load: {testers: 1}
run: {duration: 1s}
"""


class Site:
    """A database and a cache that go on, and a gateway of which there is one after the other, on one port."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fleet = Fleet(find_engine(), directory, lambda: None)
        self.fleet.ensure(load(FILE).cells[0].config, {}, same_cell=False)
        self.port = free_port()
        self.gateway: subprocess.Popen[str] | None = None
        self.start()

    def url(self, name: str) -> str:
        return self.fleet.addresses()[name][0]

    def start(self) -> None:
        config = {"database": self.url("db"), "invalidation": {"caches": [{"proxy": self.url("cache")}]}}
        with (self.directory / "gateway.log").open("a") as log:
            self.gateway = subprocess.Popen(
                [find_engine(), "serve", "frontier", "--config", "-", "--listen", f"127.0.0.1:{self.port}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "XDG_STATE_HOME": str(self.directory / "state")},
                text=True,
            )
        assert self.gateway.stdin is not None
        assert self.gateway.stdout is not None
        self.gateway.stdin.write(json.dumps(config) + "\n")
        self.gateway.stdin.close()
        assert "listening" in self.gateway.stdout.readline(), self.log()

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        assert self.gateway is not None
        self.gateway.send_signal(by)
        self.gateway.wait(30)
        self.gateway.stdout.close()  # type: ignore[union-attr]

    def log(self) -> str:
        return (self.directory / "gateway.log").read_text()

    def ask(self) -> tuple[str, bool, str]:
        """The text of the first row through the cache, whether that had it, and how long it may be kept."""
        sql = "SELECT string FROM one WHERE id = 1"
        p1 = base64.b64encode(zlib.compress(sql.encode())).decode().translate(str.maketrans("+/=", ".-_"))
        path = f"/Lab/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOB&p1={p1}"
        connection = http.client.HTTPConnection(urlsplit(self.url("cache")).netloc, timeout=20)
        connection.request("GET", f"http://127.0.0.1:{self.port}{path}", headers={"X-Frontier-Id": "test"})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        assert answer.status == 200, body
        found = re.search(r"<data>(.*?)</data>", body, re.DOTALL)
        assert found, body
        hit = "HIT" in (answer.getheader("X-Cache") or "")
        return base64.b64decode(found[1]).decode("latin-1"), hit, answer.getheader("Cache-Control") or ""

    def kept(self) -> bool:
        """Whether the cache hands out what it holds; asks."""
        return self.ask()[1]

    def change(self, text: str) -> None:
        """As anybody would, past the gateway."""
        with psycopg.connect(self.url("db"), autocommit=True) as connection:
            connection.execute("UPDATE one SET string = %s WHERE id = 1", [text])

    def stats(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", "/plimsoll/stats")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return found


@pytest.fixture
def site(place: Path) -> Iterator[Site]:  # noqa: F811
    needs("squid", "postgres")
    (place / "work").mkdir(mode=0o755)
    made = Site(place / "work")
    try:
        yield made
    finally:
        if made.gateway is not None and made.gateway.poll() is None:
            made.end()
        made.fleet.stop()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM], ids=str)
def test_what_changed_between_two_gateways_is_not_handed_out(site: Site, by: signal.Signals) -> None:
    until("an object in the cache", site.kept)
    site.end(by)
    assert site.kept(), "without a gateway"
    site.change("while nobody looked")
    site.start()
    until("the change", lambda: "while nobody looked" in site.ask()[0])
    until("a new object", site.kept)
    site.change("and once more")
    until("the next change", lambda: "and once more" in site.ask()[0])
    assert "1 objects that caches may keep from before are purged" in site.log()
