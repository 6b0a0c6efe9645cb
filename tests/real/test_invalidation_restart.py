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
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from plimsoll.deploy.binary import find_engine
from plimsoll.deploy.services import RunningServices
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
        self.fleet = RunningServices(find_engine(), directory, lambda: None)
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

    def ask(self) -> tuple[str, bool]:
        """The text of the first row through the cache, and whether that had it."""
        answer, body = self._answer(urlsplit(self.url("cache")).netloc, f"http://127.0.0.1:{self.port}")
        found = re.search(r"<data>(.*?)</data>", body, re.DOTALL)
        assert found, body
        return base64.b64decode(found[1]).decode("latin-1"), "HIT" in (answer.getheader("X-Cache") or "")

    def ask_gateway(self) -> str:
        """How long caches may keep the answer."""
        answer, _ = self._answer(f"127.0.0.1:{self.port}", "")
        return answer.getheader("Cache-Control") or ""

    def _answer(self, at: str, before: str) -> tuple[http.client.HTTPResponse, str]:
        sql = "SELECT string FROM one WHERE id = 1"
        p1 = base64.b64encode(zlib.compress(sql.encode())).decode().translate(str.maketrans("+/=", ".-_"))
        path = f"/Lab/Frontier/type=frontier_request:1:DEFAULT&encoding=BLOB&p1={p1}"
        with closing(http.client.HTTPConnection(at, timeout=20)) as connection:
            connection.request("GET", f"{before}{path}", headers={"X-Frontier-Id": "test"})
            answer = connection.getresponse()
            body = answer.read().decode()
        assert answer.status == 200, body
        return answer, body

    def kept(self) -> bool:
        """Whether the cache hands out what it holds; asks."""
        return self.ask()[1]

    def change(self, text: str) -> None:
        """As anybody would, past the gateway."""
        with psycopg.connect(self.url("db"), autocommit=True) as connection:
            connection.execute("UPDATE one SET string = %s WHERE id = 1", [text])

    def stats(self) -> dict[str, Any]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET", "/plimsoll/stats")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
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
    assert "objects of an earlier gateway to be purged: 1" in site.log()


class Squid:
    """The site's cache, whose rules are changed while it runs."""

    def __init__(self, site: Site) -> None:
        (running,) = [one for one in site.fleet.running if one.spec.name == "cache"]
        self.file = Path(running.directory) / "squid.conf"
        self.text = self.file.read_text()
        self.pid = int((Path(running.directory) / "squid" / "squid.pid").read_text())
        self.place = urlsplit(site.url("cache")).netloc

    def take_purges(self, takes: bool) -> None:
        """Has it take PURGE, or not, and waits until it does so."""
        rule = "http_access allow purge here"
        assert rule in self.text
        self.file.write_text(self.text if takes else self.text.replace(rule, "http_access deny purge"))
        os.kill(self.pid, signal.SIGHUP)
        wanted = (200, 404) if takes else (403,)
        until("the new rules", lambda: self.purge() in wanted)

    def purge(self) -> int:
        """The status of a PURGE of nothing; 0 while it reads its rules."""
        with closing(http.client.HTTPConnection(self.place, timeout=20)) as connection:
            try:
                connection.request("PURGE", "http://127.0.0.1:1/nothing")
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return 0


def test_a_squid_that_refuses_purges_keeps_nothing_new(site: Site) -> None:
    squid = Squid(site)
    until("an object in the cache", site.kept)
    squid.take_purges(takes=False)
    site.change("while it refuses")
    until("the refusal", lambda: site.stats()["refusing"] == 1)
    assert "answers PURGE with status 403: allow PURGE from this gateway" in site.log()
    site.end()
    site.start()
    until("the refusal again", lambda: site.stats()["refusing"] == 1)
    unkept = site.stats()["unkept"]
    age = site.ask_gateway()
    assert age == "max-age=0", "a cache could never be told of it"
    assert site.stats()["unkept"] == unkept + 1
    squid.take_purges(takes=True)
    until("what changed meanwhile", lambda: "while it refuses" in site.ask()[0])
    until("a new object", site.kept)
    assert site.stats()["refusing"] == 0
    assert "accepts PURGE now" in site.log()
